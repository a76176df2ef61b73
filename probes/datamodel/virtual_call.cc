/* SPDX-License-Identifier: Apache-2.0
 *
 * A virtual method, called on objects that are reached by pointer: load the object's table, load the method's address,
 * jump there. The control calls one method by its name on the same objects, in the same order.
 *
 * With one class the CPU predicts the jump, and what is left are two loads that run ahead of it. With several classes
 * in random order no call can be predicted. The number of objects at which the cost rises shows how long a pattern the
 * CPU remembers.
 */
#include "toll.h"

namespace {

enum { MOST_CLASSES = 4 };

class Shape {
 public:
  explicit Shape(uint32_t size) : size_(size) {}
  TOLL_NOINLINE virtual uint32_t area() const { return size_; }
  TOLL_NOINLINE uint32_t size() const { return size_; }

 protected:
  uint32_t size_;
};

class Square : public Shape {
 public:
  using Shape::Shape;
  TOLL_NOINLINE uint32_t area() const override { return size_ * size_; }
};

class Triangle : public Shape {
 public:
  using Shape::Shape;
  TOLL_NOINLINE uint32_t area() const override { return size_ * size_ / 2; }
};

class Hexagon : public Shape {
 public:
  using Shape::Shape;
  TOLL_NOINLINE uint32_t area() const override { return size_ * size_ * 3; }
};

struct Place {
  void *address;
};

}  // namespace

/* Placement new: the library that defines this operator is not linked. */
inline void *operator new(size_t, Place place) noexcept {
  return place.address;
}

namespace {

struct Objects {
  size_t count;
  Shape **shapes;
  uint32_t areas, sizes;           /* expected sums of one pass */
  uint32_t last_areas, last_sizes; /* sums of the last pass */
};

uint32_t expected_area(unsigned shape, uint32_t size) {
  const uint32_t areas[MOST_CLASSES] = {size, size * size, size * size / 2, size * size * 3};
  return areas[shape];
}

Shape *make(unsigned shape, uint32_t size, void *address) {
  switch (shape) {
    case 0: return new (Place{address}) Shape(size);
    case 1: return new (Place{address}) Square(size);
    case 2: return new (Place{address}) Triangle(size);
    default: return new (Place{address}) Hexagon(size);
  }
}

void *buffer(struct toll_run *r, size_t bytes) {
  struct toll_buffer_request request = {};
  request.bytes = bytes;
  request.pages = TOLL_PAGES_ANY;
  return toll_buffer(r, request);
}

enum toll_status prepare(struct toll_run *r) {
  Objects *objects = static_cast<Objects *>(r->state);
  const uint64_t classes = toll_number(r, "classes");
  if (classes < 1 || classes > MOST_CLASSES) return toll_skip(r, "there are 1 to %d classes", MOST_CLASSES);
  uint64_t random = r->seed;
  objects->count = static_cast<size_t>(toll_number(r, "objects"));
  objects->shapes = static_cast<Shape **>(buffer(r, objects->count * sizeof(Shape *)));
  char *room = static_cast<char *>(buffer(r, objects->count * sizeof(Shape)));
  if (!objects->shapes || !room) return toll_refused(r);
  for (size_t i = 0; i < objects->count; i++) {
    const unsigned shape = static_cast<unsigned>(toll_random_below(&random, classes));
    const uint32_t size = static_cast<uint32_t>(toll_random_below(&random, 1000));
    objects->shapes[i] = make(shape, size, room + i * sizeof(Shape));
    objects->areas += expected_area(shape, size);
    objects->sizes += size;
  }
  return TOLL_OK;
}

void call(struct toll_run *r) {
  Objects *objects = static_cast<Objects *>(r->state);
  for (uint64_t i = r->iterations; i; i--) {
    uint32_t areas = 0;
    for (size_t k = 0; k < objects->count; k++) areas += objects->shapes[k]->area();
    objects->last_areas = areas;
  }
}

void control(struct toll_run *r) {
  Objects *objects = static_cast<Objects *>(r->state);
  for (uint64_t i = r->iterations; i; i--) {
    uint32_t sizes = 0;
    for (size_t k = 0; k < objects->count; k++) sizes += objects->shapes[k]->size();
    objects->last_sizes = sizes;
  }
}

enum toll_status check(struct toll_run *r) {
  Objects *objects = static_cast<Objects *>(r->state);
  if (objects->last_areas != objects->areas || objects->last_sizes != objects->sizes)
    return toll_wrong(r, "the areas add up to %u, not %u", objects->last_areas, objects->areas);
  objects->last_areas = ~objects->areas;
  objects->last_sizes = ~objects->sizes;
  return TOLL_OK;
}

void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = static_cast<double>(static_cast<const Objects *>(r->state)->count);
}

const uint64_t class_counts[] = {1, 2, 4, TOLL_END};
const uint64_t object_counts[] = {16, 1024, 16384, TOLL_END};
const struct toll_parameter parameters[] = {{.name = "classes",
                                             .kind = TOLL_COUNT,
                                             .summary = "classes that the objects are of, in random order",
                                             .values = class_counts,
                                             .typical = "4"},
                                            {.name = "objects",
                                             .kind = TOLL_COUNT,
                                             .summary = "objects called in turn",
                                             .values = object_counts,
                                             .typical = "1024"},
                                            {}};
const struct toll_metric metrics[] = {
    {.name = "call",
     .unit = "ns",
     .summary = "one virtual call",
     .means = "virtual-call",
     .toll = "virtual call, {classes} classes"},
    {.name = "direct", .unit = "ns", .summary = "one call of a method by its name", .source = TOLL_CONTROL},
    {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does a virtual call cost, where the CPU knows the class and where it has to guess?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(Objects),
    .prepare = prepare,
    .body = call,
    .control = control,
    .check = check,
    .work = work,
    .accounts = true,
    .revision = 2,
};
