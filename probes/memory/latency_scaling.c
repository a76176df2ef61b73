/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of one load while other CPUs also chase pointers, each through its own memory. A chase has a single load
 * in flight, so it takes many of them to load a memory: the additional latency is time spent waiting for a shared
 * resource.
 */
#include "large.h"
#include "walk.h"

struct chases {
  struct instance {
    struct walk walk;
    char *memory;
    size_t bytes, stride;
    char padding[128]; /* neighbours in this array are written by other CPUs */
  } * instances;
};

static unsigned companions(const struct toll_run *r) {
  return (unsigned)toll_number(r, "instances") - 1;
}

static enum toll_status prepare(struct toll_run *r) {
  struct chases *c = r->state;
  uint64_t count = toll_number(r, "instances");
  if (count > r->cpu_count)
    return toll_skip(r, "%llu instances need as many CPUs, and this run may use %u", (unsigned long long)count,
                     r->cpu_count);
  if (count < 1) return toll_fail(r, "instances are 1 or more");
  c->instances = toll_buffer(r, (struct toll_buffer_request){.bytes = count * sizeof *c->instances});
  if (!c->instances) return toll_refused(r);
  for (uint64_t i = 0; i < count; i++) {
    struct instance *one = &c->instances[i];
    if (asked(r, "size", &one->bytes) != TOLL_OK || asked(r, "stride", &one->stride) != TOLL_OK) return toll_refused(r);
    if (one->bytes < one->stride) return toll_fail(r, "the size is shorter than the stride");
    c->instances[i].memory = large_buffer(r, whole_huge_pages(c->instances[i].bytes), 0);
    if (!c->instances[i].memory) return toll_refused(r);
  }
  return TOLL_OK;
}

/* Each instance lays and proves its own walk from its own CPU: its pages are then near it, and its lines in its caches. */
static void load(struct toll_run *r) {
  struct instance *own = &((struct chases *)r->state)->instances[r->worker];
  if (!own->walk.head) {
    struct toll_run seeded = *r;
    seeded.seed += r->worker;
    touch_here(own->memory, whole_huge_pages(own->bytes));
    walk_lay(&seeded, &own->walk, own->memory, own->bytes, own->stride, walk_order(r));
    walk_check_place(&seeded, &own->walk);
  }
  walk_on(&own->walk.cursor, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  struct chases *c = r->state;
  struct toll_run of = *r;
  for (of.worker = 0; of.worker < r->workers; of.worker++)
    if (toll_refused(r) != TOLL_OK || walk_check(&of, &c->instances[of.worker].walk, load) != TOLL_OK)
      return toll_refused(r);
  return TOLL_OK;
}

static const struct toll_role roles[] = {{.name = "chase",
                                          .body = load,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_BACKGROUND,
                                          .count = companions,
                                          .background_iterations = 64 * WALK_TURN},
                                         {0}};
static const uint64_t strides[] = {16, 32, 64, 128, 256, TOLL_END};
static const struct toll_parameter parameters[] = {{.name = "instances",
                                                    .kind = TOLL_COUNT,
                                                    .summary = "CPUs that chase at once",
                                                    .from = 1,
                                                    .to = 1,
                                                    .to_scale = TOLL_TIMES_CPUS,
                                                    .per_octave = 1},
                                                   {.name = "size",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes that each chase goes through",
                                                    .from = 16384,
                                                    .to = 4,
                                                    .to_scale = TOLL_TIMES_LAST_CACHE,
                                                    .per_octave = 1,
                                                    .typical = "16384"},
                                                   {.name = "stride",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes from one place to the next in memory",
                                                    .values = strides,
                                                    .typical = "64"},
                                                   {.name = "order",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "which place comes next",
                                                    .choices = walk_orders,
                                                    .typical = "random"},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "load", .unit = "ns", .summary = "one load of the timed chase", .means = "latency-of-instances"}, {0}};

const struct toll_probe toll_probe = {
    .question = "How long does a load take while other CPUs chase pointers too?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct chases),
    .prepare = prepare,
    .body = load,
    .check = check,
    .roles = roles,
    .quantum = WALK_TURN,
    .revision = 2,
};
