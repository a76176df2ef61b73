/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of loads that a core has in flight: several independent random walks are interleaved in one thread. With
 * few of them a load costs the latency divided by their number; with many it costs what the narrowest resource (miss
 * buffers, queues, the memory) takes for one, and no more of them helps. Latency divided by that floor is the
 * parallelism (as lmbench's par_mem asks, but its own walks share lines and its answer was seen to exceed their
 * number).
 *
 * The walks share the size that was asked for in equal parts, each with its own cycle over its own lines in its own
 * order: with the same order they would all stand at the same offset of their parts, in the same sets and banks.
 * Each number of walks has a loop of its own with the pointers in registers. Beyond the registers the compiler keeps
 * them on the stack: a store and a load more beside each load, which 8 or more walks hide, since there the latency of
 * a step no longer counts.
 */
#include "large.h"
#include "walk.h"

#define MOST TOLL_MOST_CURSORS
// clang-format off
#define NUMBERS(EACH)                                                                                               \
  EACH(1) EACH(2) EACH(3) EACH(4) EACH(5) EACH(6) EACH(7) EACH(8) EACH(10) EACH(12) EACH(14) EACH(16) EACH(20)      \
  EACH(24) EACH(28) EACH(32) EACH(40) EACH(48) EACH(56) EACH(64) EACH(80) EACH(96) EACH(128)
// clang-format on

struct walks {
  void (*follow)(struct walk *walks, uint64_t rounds);
  uint64_t count;
  double huge_share;
  struct walk walk[MOST];
};

#define FOLLOW(number)                                                                     \
  TOLL_NOINLINE static void follow_##number(struct walk *walks, uint64_t rounds) {         \
    void **at[number];                                                                     \
    _Pragma("GCC unroll 128") for (int i = 0; i < number; i++) at[i] = walks[i].cursor.at; \
    for (uint64_t left = rounds; left; left--) {                                           \
      _Pragma("GCC unroll 128") for (int i = 0; i < number; i++) at[i] = (void **)*at[i];  \
    }                                                                                      \
    _Pragma("GCC unroll 128") for (int i = 0; i < number; i++) walks[i].cursor.at = at[i]; \
  }
NUMBERS(FOLLOW)

#define ROW(number) {number, follow_##number},
static const struct {
  uint64_t count;
  void (*follow)(struct walk *walks, uint64_t rounds);
} follows[] = {NUMBERS(ROW)};

static enum toll_status choose(struct toll_run *r) {
  struct walks *w = r->state;
  w->count = toll_number(r, "chains");
  for (size_t i = 0; i < sizeof follows / sizeof follows[0]; i++)
    if (follows[i].count == w->count) w->follow = follows[i].follow;
  return w->follow ? TOLL_OK : toll_fail(r, "there is no loop for %llu chains", (unsigned long long)w->count);
}

static enum toll_status prepare(struct toll_run *r) {
  struct walks *w = r->state;
  if (choose(r) != TOLL_OK) return toll_refused(r);
  size_t line = toll_line_bytes(), size;
  if (asked(r, "size", &size) != TOLL_OK) return toll_refused(r);
  size_t part = size / (size_t)w->count / line * line;
  if (!part) return toll_fail(r, "the size holds no line for each of %llu chains", (unsigned long long)w->count);
  char *buffer = large_buffer(r, part * w->count, 0);
  if (!buffer) return toll_refused(r);
  w->huge_share = huge_share(buffer, part * w->count);
  struct toll_run own = *r;
  for (uint64_t i = 0; i < w->count; i++) {
    own.seed = toll_random(&own.seed);
    if (walk_lay_part(&own, &w->walk[i], buffer + i * part, part, line, TOLL_ORDER_RANDOM, size) != TOLL_OK)
      return toll_refused(r);
  }
  return TOLL_OK;
}

static void load_all(struct toll_run *r) {
  struct walks *w = r->state;
  w->follow(w->walk, r->iterations);
  for (uint64_t i = 0; i < w->count; i++) w->walk[i].cursor.steps += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  struct walks *w = r->state;
  const struct toll_cursors all = {
      .first = &w->walk[0].cursor, .count = w->count, .stride = sizeof(struct walk), .loads = 1};
  if (toll_check_loads(r, load_all, all) != TOLL_OK) return toll_refused(r);
  for (uint64_t i = 0; i < w->count; i++)
    if (walk_check_place(r, &w->walk[i]) != TOLL_OK) return toll_refused(r);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = (double)((const struct walks *)r->state)->count;
}

static void finish(struct toll_run *r) {
  toll_report(r, "huge_pages", ((const struct walks *)r->state)->huge_share);
}

#define VALUE(number) number,

static const uint64_t chain_counts[] = {NUMBERS(VALUE) TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "chains", .kind = TOLL_COUNT, .summary = "independent walks", .values = chain_counts, .typical = "16"},
    {.name = "size",
     .kind = TOLL_SIZE,
     .summary = "bytes that all walks together go through",
     .from = 16384,
     .to = 4,
     .to_scale = TOLL_TIMES_LAST_CACHE,
     .per_octave = 1,
     .typical = "16384"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "load",
                                              .unit = "ns",
                                              .summary = "one load, while independent walks run side by side",
                                              .means = "load-of-chains"},
                                             HUGE_SHARE_METRIC,
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many loads can be under way at once?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct walks),
    .prepare = prepare,
    .body = load_all,
    .check = check,
    .finish = finish,
    .work = work,
    .revision = 2,
};
