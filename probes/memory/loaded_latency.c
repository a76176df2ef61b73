/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of memory over the traffic that goes on beside: one CPU chases pointers, those of all other cores make
 * traffic at a set pace. Idle memory answers in its latency; as the traffic nears what the memory can deliver, loads queue, and the
 * curve has a knee. (Intel's Memory Latency Checker made the measurement known; Esmaili-Dokht et al., A Mess of Memory
 * System Benchmarking, Simulation and Application Profiling, 2024, take a curve for each mix of reads and writes.)
 *
 * Traffic goes line by line, since the memory deals in lines: a line that is only touched is one read, one that is
 * changed is one read and, when it leaves the cache, one write. So out of three lines two are read and one is changed
 * for three reads to one write. A burst of twelve lines serves every mix whole. The pace is a chain of dependent
 * additions beside each burst, `delay` cycles long: a core overlaps the two, so a burst takes at least that long.
 */
#include "kernels.h"
#include "walk.h"

#define BURST 12

/* Out of so many lines one is changed; 0: none. All others are only read. */
static const unsigned changed_one_in[] = {0, 3, 2, 1};
static const char *const mixes[] = {"1:0", "3:1", "2:1", "1:1", "nt", NULL};
enum { NON_TEMPORAL = 4 };

struct traffic {
  char *memory, *at, *end;
  uint64_t bursts;
  unsigned long seen;
  bool touched;
  char padding[128];
};

struct loaded {
  struct walk walk;
  size_t line, bytes;
  uint64_t delay;
  unsigned mix, makers;
  struct traffic *traffic; /* by worker, as are the next */
  unsigned *places;        /* of its CPU among those of the visit */
};

#ifdef NT_WORDS
static bool can_store_non_temporal(void) {
  return toll_cpu_has("sse2") || toll_cpu_has("neon");
}

static void burst_non_temporal(const struct loaded *l, struct traffic *t) {
  unsigned long value = (unsigned long)t->bursts + 1;
  word *end = (word *)(void *)(t->at + BURST * l->line);
  for (word *at = (word *)(void *)t->at; at < end; at += 2) NT_WORDS(at, value);
}
#else
static bool can_store_non_temporal(void) {
  return false;
}
static void burst_non_temporal(const struct loaded *l, struct traffic *t) {
  (void)l;
  (void)t;
}
#endif

static unsigned companions(const struct toll_run *r) {
  return ((const struct loaded *)r->state)->makers;
}

static unsigned place_of(const struct toll_run *r, unsigned worker) {
  return ((const struct loaded *)r->state)->places[worker];
}

/* A maker on the other hardware thread of the measured core would take turns with the chase at its load ports and its
 * caches: what a load then takes longer is the core's, and not the memory's. */
static enum toll_status choose_makers(struct toll_run *r, struct loaded *l) {
  l->traffic = toll_buffer(r, (struct toll_buffer_request){.bytes = r->cpu_count * sizeof *l->traffic});
  l->places = toll_buffer(r, (struct toll_buffer_request){.bytes = r->cpu_count * sizeof *l->places});
  if (!l->traffic || !l->places) return toll_refused(r);
  for (unsigned i = 1; i < r->cpu_count; i++)
    if (!toll_share_core(r->cpus[0], r->cpus[i])) l->places[++l->makers] = i;
  if (!l->makers) return toll_skip(r, "needs a CPU of another core to make traffic, and this run may use none");
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct loaded *l = r->state;
  size_t size;
  if (asked(r, "size", &size) != TOLL_OK) return toll_refused(r);
  l->mix = toll_choice(r, "mix");
  l->delay = toll_number(r, "delay");
  l->line = toll_line_bytes();
  if (l->mix == NON_TEMPORAL && !can_store_non_temporal()) return toll_skip(r, "there is no non-temporal store here");
  /* Half the size each: twice a maker's own last cache, where the size is four times that. However many such caches there are,
   * none then holds what its makers go through, and the chase fills only the one of its own CPU. */
  l->bytes = whole_huge_pages(size / 2);
  if (choose_makers(r, l) != TOLL_OK) return toll_refused(r);
  for (unsigned i = 1; i <= companions(r); i++)
    if (!(l->traffic[i].memory = large_buffer(r, l->bytes, 0))) return toll_refused(r);
  char *chased = large_buffer(r, size, 0);
  if (!chased) return toll_refused(r);
  return walk_lay(r, &l->walk, chased, size, l->line, TOLL_ORDER_RANDOM);
}

static void load(struct toll_run *r) {
  walk_on(&((struct loaded *)r->state)->walk.cursor, r->iterations);
}

static inline void wait_cycles(uint64_t cycles) {
  unsigned long sum = 0, addend = 1;
  TOLL_OPAQUE(addend);
  for (unsigned long left = (unsigned long)cycles; left; left--) {
    sum += addend;
    TOLL_OPAQUE(sum);
  }
}

static inline void burst(const struct loaded *l, struct traffic *t, unsigned one_in) {
  unsigned long seen = 0;
  for (unsigned i = 0; i < BURST; i++) {
    word *at = (word *)(void *)(t->at + i * l->line);
    seen += *at;
    if (one_in && i % one_in == 0) *at += 1;
  }
  t->seen += seen;
}

static void make_traffic(struct toll_run *r) {
  struct loaded *l = r->state;
  struct traffic *t = &l->traffic[r->worker];
  if (!t->touched) {
    touch_here(t->memory, l->bytes);
    t->at = t->memory;
    t->end = t->memory + l->bytes - BURST * l->line;
    t->touched = true;
  }
  for (uint64_t left = r->iterations; left; left--) {
    if (l->mix == NON_TEMPORAL)
      burst_non_temporal(l, t);
    else
      burst(l, t, changed_one_in[l->mix]);
    t->at = t->at + BURST * l->line > t->end ? t->memory : t->at + BURST * l->line;
    t->bursts++;
    wait_cycles(l->delay);
  }
}

/* What the makers changed must add up: one for each changed line of each burst. */
static uint64_t changes_of(const struct loaded *l, const struct traffic *t) {
  uint64_t sum = 0;
  for (size_t i = 0; i < l->bytes; i += l->line) sum += *(const word *)(const void *)(t->memory + i);
  return sum;
}

static enum toll_status check_traffic(struct toll_run *r, const struct loaded *l, const struct traffic *t) {
  unsigned one_in = l->mix == NON_TEMPORAL ? 0 : changed_one_in[l->mix];
  uint64_t expected = one_in ? t->bursts * (BURST / one_in) : 0;
  if (!t->bursts) return toll_wrong(r, "a maker of traffic made none");
  if (l->mix != NON_TEMPORAL && changes_of(l, t) != expected)
    return toll_wrong(r, "the traffic did not change as many lines as it counts");
  if (l->mix == NON_TEMPORAL && *(const word *)(const void *)t->memory == 0)
    return toll_wrong(r, "the traffic did not write");
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  struct loaded *l = r->state;
  for (unsigned i = 1; i < r->workers; i++)
    if (check_traffic(r, l, &l->traffic[i]) != TOLL_OK) return toll_refused(r);
  return walk_check(r, &l->walk, load);
}

/* Of a burst: lines read, and lines written back or written by non-temporal stores. */
static void work(const struct toll_run *r, struct toll_work *work) {
  const struct loaded *l = r->state;
  double lines = BURST;
  if (l->mix != NON_TEMPORAL && changed_one_in[l->mix]) lines += BURST / changed_one_in[l->mix];
  work->bytes = lines * (double)l->line;
}

static const struct toll_role roles[] = {{.name = "traffic",
                                          .body = make_traffic,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_BACKGROUND,
                                          .count = companions,
                                          .cpu = place_of,
                                          .background_iterations = 8},
                                         {0}};
static const uint64_t delays[] = {0, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 16384, 65536, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "delay",
     .kind = TOLL_COUNT,
     .summary = "cycles that a burst of 12 lines takes at least",
     .values = delays},
    {.name = "mix", .kind = TOLL_CHOICE, .summary = "lines read to lines written", .choices = mixes, .typical = "1:0"},
    {.name = "size",
     .kind = TOLL_SIZE,
     .summary = "bytes that the chase goes through; each other CPU goes through half of it",
     .from = 64 << 20,
     .to = 4,
     .to_scale = TOLL_TIMES_LAST_CACHE,
     .per_octave = 1,
     .typical = "4xLAST"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "load", .unit = "ns", .summary = "one load of a chase beside the traffic", .means = "latency-of-traffic"},
    {.name = "traffic",
     .unit = "B/s",
     .better = TOLL_MORE,
     .summary = "bytes that the other CPUs moved a second, on the bus",
     .source = TOLL_COMPANIONS,
     .means = "traffic-beside"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How does memory's latency rise with the traffic beside it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct loaded),
    .prepare = prepare,
    .body = load,
    .check = check,
    .work = work,
    .roles = roles,
    .quantum = WALK_TURN,
    .revision = 3,
};
