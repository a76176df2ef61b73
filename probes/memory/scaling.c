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
#include "mixed_traffic.h"
#include "read_kernels.h"
#include "update_kernels.h"
#include "write_kernels.h"

enum { READ, WRITE, COPY, UPDATE, MIX_3_1, MIX_2_1, WRITE_NT };

struct instance {
  struct span *pieces; /* side by side; each counts its own passes */
  size_t next;
  char *memory, *source;
  bool laid;
  char padding[128]; /* neighbours in this array are written by other CPUs */
};

struct scaling {
  const struct kernel *kernel;
  struct kernel mix; /* kernel of a mix, which depends on the length of a line */
  unsigned operation;
  size_t bytes, piece_bytes, pieces; /* sizes of one instance */
  uint64_t passes;                   /* over a piece, in one iteration */
  struct instance *instances;
};

#define WIDEST(kernels) kernel_widest(kernels, sizeof kernels / sizeof kernels[0])

/* Length of a line, for a mix that adds one to the first word of one line in three, or in two. The system is asked
 * for its length once. */
static size_t line;

TOLL_NOINLINE static void mix_3_1(struct span *span, uint64_t passes) {
  const size_t stride = line;
  for (; passes; passes--) {
    unsigned long sum = 0;
    for (char *at = span->target, *end = at + span->bytes; at < end; at += BURST * stride)
      sum += traffic_burst(at, stride, THREE_TO_ONE, 0);
    span->sum += sum;
  }
}

TOLL_NOINLINE static void mix_2_1(struct span *span, uint64_t passes) {
  const size_t stride = line;
  for (; passes; passes--) {
    unsigned long sum = 0;
    for (char *at = span->target, *end = at + span->bytes; at < end; at += BURST * stride)
      sum += traffic_burst(at, stride, TWO_TO_ONE, 0);
    span->sum += sum;
  }
}

static bool is_mix(unsigned operation) {
  return operation == MIX_3_1 || operation == MIX_2_1;
}

static const struct kernel *mixed(struct scaling *s) {
  const unsigned one_in = s->operation == MIX_3_1 ? 3 : 2;
  line = toll_line_bytes();
  s->mix = (struct kernel){
      .name = "mix", .run = s->operation == MIX_3_1 ? mix_3_1 : mix_2_1, .lane = sizeof(word), .step = one_in * line};
  return &s->mix;
}

/* NULL: there is no such store here. */
static const struct kernel *non_temporal(void) {
  static const char *const names[] = {"avx512_nt", "avx2_nt", "sse2_nt", "neon_nt"};
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
    for (size_t k = 0; k < sizeof write_kernels / sizeof write_kernels[0]; k++)
      if (strcmp(write_kernels[k].name, names[n]) == 0 && kernel_is_ready(&write_kernels[k])) return &write_kernels[k];
  return NULL;
}

static const struct kernel *kernel_of(struct scaling *s) {
  switch (s->operation) {
    case MIX_3_1:
    case MIX_2_1: return mixed(s);
    case WRITE_NT: return non_temporal();
    case READ: return WIDEST(read_kernels);
    case WRITE: return WIDEST(write_kernels);
    case COPY: return WIDEST(copy_kernels);
    default: return WIDEST(update_kernels);
  }
}

static unsigned companions(const struct toll_run *r) {
  return (unsigned)toll_number(r, "instances") - 1;
}

/* An iteration goes through about a MiB: long compared with the runtime's work between two turns of a companion, and
 * short compared with a batch. */
static void cut(struct scaling *s, size_t bytes) {
  const size_t piece = (size_t)1 << 20;
  s->pieces = bytes < piece ? 1 : bytes / piece;
  s->piece_bytes = whole_lines(bytes / s->pieces);
  if (is_mix(s->operation)) s->piece_bytes -= s->piece_bytes % (BURST * line);
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
  s->kernel = kernel_of(s);
  if (!s->kernel) return toll_skip(r, "there is no non-temporal store here");
  size_t bytes;
  if (asked(r, "size", &bytes) != TOLL_OK) return toll_refused(r);
  bytes = whole_lines(bytes / (s->operation == COPY ? 2 : 1));
  if (bytes < (is_mix(s->operation) ? BURST * line : 1)) return toll_fail(r, "the size holds no line");
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
    case WRITE_NT: return write_check(r, s->kernel, span);
    default: return update_check(r, s->kernel, span);
  }
}

/* A short batch has processed only the first pieces. */
static enum toll_status check_pieces(struct toll_run *r, const struct scaling *s, const struct instance *own) {
  if (!own->laid || !own->pieces[0].passes) return toll_wrong(r, "an instance went through nothing");
  for (size_t i = 0; i < s->pieces && own->pieces[i].passes; i++)
    if (check_one(r, s, &own->pieces[i]) != TOLL_OK) return toll_refused(r);
  return TOLL_OK;
}

/* The timed instance is last, so that its memory is in the caches again. */
static enum toll_status check(struct toll_run *r) {
  const struct scaling *s = r->state;
  for (unsigned i = r->workers; i-- > 0;)
    if (check_pieces(r, s, &s->instances[i]) != TOLL_OK) return toll_refused(r);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct scaling *s = r->state;
  static const double trips[] = {1, 2, 3, 2, 1, 1, 1}, lines[] = {1, 1, 1, 1, 4.0 / 3, 3.0 / 2, 1};
  work->bytes = (double)s->piece_bytes * (double)s->passes * lines[s->operation];
  work->bus_bytes = work->bytes * trips[s->operation];
}

static const struct toll_role roles[] = {
    {.name = "instance", .body = go_through, .worker = TOLL_THREAD, .pace = TOLL_BACKGROUND, .count = companions}, {0}};
static const char *const operations[] = {"read", "write", "copy", "update", "3:1", "2:1", "write_nt", NULL};
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
    {.name = "operation",
     .kind = TOLL_CHOICE,
     .summary = "what each instance does; 3:1 and 2:1: lines read to lines written, both counted",
     .choices = operations},
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
