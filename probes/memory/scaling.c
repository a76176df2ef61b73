/* SPDX-License-Identifier: Apache-2.0
 *
 * Bandwidth of several CPUs at once: every instance goes through memory of its own, all start together, and all are
 * under way while the timed one is. The sum tells what the machine delivers; the timed instance's own rate beside it,
 * what one of them is left with.
 *
 * Each instance touches its memory anew from its own CPU, so that it lies on that CPU's memory node. The loop is the
 * widest that this CPU can run with ordinary stores, the same for all instances.
 *
 * What is added up must have happened at the same time. An instance beside the timed one ends its turn after the timed one
 * has ended, and has the memory to itself for the rest of it: with a turn of 128 MiB, a timed instance was seen at 5 GB/s
 * beside one that reported 23. So an iteration is one piece of about a MiB, short beside a batch, whatever the size: both then
 * reported the same.
 */
#include "copy_kernels.h"
#include "read_kernels.h"
#include "update_kernels.h"
#include "write_kernels.h"

enum { READ, WRITE, COPY, UPDATE };

struct instance {
  struct span *pieces; /* side by side; each counts its own passes */
  size_t next;
  char *memory, *source;
  bool laid;
  char padding[128]; /* neighbours in this array are written by other CPUs */
};

struct scaling {
  const struct kernel *kernel;
  unsigned operation;
  size_t bytes, piece_bytes, pieces; /* of one instance */
  uint64_t passes;                   /* over a piece, in one iteration */
  struct instance *instances;
};

#define WIDEST(kernels) kernel_widest(kernels, sizeof kernels / sizeof kernels[0])

static const struct kernel *kernel_of(unsigned operation) {
  switch (operation) {
    case READ: return WIDEST(read_kernels);
    case WRITE: return WIDEST(write_kernels);
    case COPY: return WIDEST(copy_kernels);
    default: return WIDEST(update_kernels);
  }
}

static unsigned companions(const struct toll_run *r) {
  return (unsigned)toll_number(r, "instances") - 1;
}

/* An iteration goes through about a MiB: long beside what the runtime does between two turns of a companion, and short
 * beside a batch. */
static void cut(struct scaling *s, size_t bytes) {
  const size_t piece = (size_t)1 << 20;
  s->pieces = bytes < piece ? 1 : bytes / piece;
  s->piece_bytes = whole_lines(bytes / s->pieces);
  s->bytes = s->pieces * s->piece_bytes;
  s->passes = s->piece_bytes < piece ? piece / s->piece_bytes : 1;
}

static bool take_memory(struct toll_run *r, const struct scaling *s, struct instance *own) {
  own->pieces = toll_buffer(r, (struct toll_buffer_request){.bytes = s->pieces * sizeof *own->pieces});
  own->memory = large_buffer(r, whole_huge_pages(s->bytes), 0);
  if (own->memory && s->operation == COPY) own->source = large_buffer(r, whole_huge_pages(s->bytes), 0);
  return own->pieces && own->memory && (own->source || s->operation != COPY);
}

static enum toll_status prepare(struct toll_run *r) {
  struct scaling *s = r->state;
  uint64_t count = toll_number(r, "instances");
  if (count > r->cpu_count)
    return toll_skip(r, "%llu instances need as many CPUs, and this run may use %u", (unsigned long long)count,
                     r->cpu_count);
  if (count < 1) return toll_fail(r, "instances are 1 or more");
  s->operation = toll_choice(r, "operation");
  s->kernel = kernel_of(s->operation);
  size_t bytes;
  if (asked(r, "size", &bytes) != TOLL_OK) return toll_refused(r);
  bytes = whole_lines(bytes / (s->operation == COPY ? 2 : 1));
  if (!bytes) return toll_fail(r, "the size holds no line");
  cut(s, bytes);
  s->instances = toll_buffer(r, (struct toll_buffer_request){.bytes = count * sizeof *s->instances});
  if (!s->instances) return toll_refused(r);
  for (uint64_t i = 0; i < count; i++)
    if (!take_memory(r, s, &s->instances[i])) return toll_refused(r);
  return TOLL_OK;
}

static void lay(const struct scaling *s, struct instance *own) {
  touch_here(own->memory, whole_huge_pages(s->bytes));
  if (own->source) touch_here(own->source, whole_huge_pages(s->bytes));
  for (size_t i = 0; i < s->pieces; i++) {
    char *memory = own->memory + i * s->piece_bytes, *source = own->source ? own->source + i * s->piece_bytes : memory;
    own->pieces[i] = (struct span){.target = memory, .source = source, .bytes = s->piece_bytes};
    span_mark(source, s->piece_bytes);
  }
  own->laid = true;
}

static void go_through(struct toll_run *r) {
  struct scaling *s = r->state;
  struct instance *own = &s->instances[r->worker];
  if (!own->laid) lay(s, own);
  for (uint64_t left = r->iterations; left; left--) {
    struct span *piece = &own->pieces[own->next];
    own->next = own->next + 1 < s->pieces ? own->next + 1 : 0;
    s->kernel->run(piece, s->passes);
    piece->passes += s->passes;
  }
}

static enum toll_status check_one(struct toll_run *r, const struct scaling *s, const struct span *span) {
  switch (s->operation) {
    case READ: return read_check(r, s->kernel, span);
    case WRITE: return write_check(r, s->kernel, span);
    case COPY: return copy_check(r, s->kernel, span);
    default: return update_check(r, s->kernel, span);
  }
}

/* Of a short batch only the first pieces have been gone through. */
static enum toll_status check_pieces(struct toll_run *r, const struct scaling *s, const struct instance *own) {
  if (!own->laid || !own->pieces[0].passes) return toll_wrong(r, "an instance went through nothing");
  for (size_t i = 0; i < s->pieces && own->pieces[i].passes; i++)
    if (check_one(r, s, &own->pieces[i]) != TOLL_OK) return toll_refused(r);
  return TOLL_OK;
}

/* The timed instance last: its memory is then the one that is in the caches again. */
static enum toll_status check(struct toll_run *r) {
  const struct scaling *s = r->state;
  for (unsigned i = r->workers; i-- > 0;)
    if (check_pieces(r, s, &s->instances[i]) != TOLL_OK) return toll_refused(r);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct scaling *s = r->state;
  static const double trips[] = {1, 2, 3, 2};
  work->bytes = (double)s->piece_bytes * (double)s->passes;
  work->bus_bytes = work->bytes * trips[s->operation];
}

static const struct toll_role roles[] = {
    {.name = "instance", .body = go_through, .worker = TOLL_THREAD, .pace = TOLL_BACKGROUND, .count = companions}, {0}};
static const char *const operations[] = {"read", "write", "copy", "update", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "instances",
     .kind = TOLL_COUNT,
     .summary = "CPUs that work at once",
     .from = 1,
     .to = 1,
     .to_scale = TOLL_TIMES_CPUS,
     .per_octave = 1},
    {.name = "size",
     .kind = TOLL_SIZE,
     .summary = "bytes that each instance goes through; of source and target together",
     .from = 16384,
     .to = 4,
     .to_scale = TOLL_TIMES_LAST_CACHE,
     .per_octave = 1,
     .typical = "16384"},
    {.name = "operation", .kind = TOLL_CHOICE, .summary = "what each instance does", .choices = operations},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "together",
     .unit = "B/s",
     .better = TOLL_MORE,
     .summary = "bytes a second of all instances",
     .source = TOLL_TOGETHER,
     .means = "bandwidth-of-instances"},
    {.name = "own", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes a second of the timed instance"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How does bandwidth grow with the CPUs that ask for it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct scaling),
    .prepare = prepare,
    .body = go_through,
    .check = check,
    .work = work,
    .roles = roles,
    .revision = 2,
};
