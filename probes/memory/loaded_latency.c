/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of memory over the traffic that goes on beside: one CPU chases pointers, those of all other cores make
 * traffic at a set pace. Idle memory answers in its latency; as the traffic nears what the memory can deliver, loads queue, and the
 * curve has a knee. (Intel's Memory Latency Checker made the measurement known; Esmaili-Dokht et al., A Mess of Memory
 * System Benchmarking, Simulation and Application Profiling, 2024, take a curve for each mix of reads and writes.)
 *
 * Traffic goes in bursts of twelve lines (mixed_traffic.h). The pace is a chain of dependent
 * additions beside each burst, `delay` cycles long: a core overlaps the two, so a burst takes at least that long.
 */
#include "mixed_traffic.h"
#include "walk.h"

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
  enum traffic_mix mix;
  unsigned makers;
  struct traffic *traffic; /* by worker, as are the next */
  unsigned *places;        /* of its CPU among those of the visit */
};

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
  l->mix = (enum traffic_mix)toll_choice(r, "mix");
  l->delay = toll_number(r, "delay");
  l->line = toll_line_bytes();
  if (!traffic_can_be(l->mix)) return toll_skip(r, "there is no non-temporal store here");
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
    t->seen += traffic_burst(t->at, l->line, l->mix, (unsigned long)t->bursts + 1);
    t->at = t->at + BURST * l->line > t->end ? t->memory : t->at + BURST * l->line;
    t->bursts++;
    wait_cycles(l->delay);
  }
}

/* What the makers changed must add up: one for each changed line of each burst. */
static enum toll_status check_traffic(struct toll_run *r, const struct loaded *l, const struct traffic *t) {
  if (!t->bursts) return toll_wrong(r, "a maker of traffic made none");
  if (l->mix != NON_TEMPORAL && traffic_sum(t->memory, l->bytes, l->line) != t->bursts * traffic_changes(l->mix))
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
  work->bytes = (double)traffic_lines(l->mix) * (double)l->line;
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
    {.name = "mix",
     .kind = TOLL_CHOICE,
     .summary = "lines read to lines written",
     .choices = traffic_mixes,
     .typical = "1:0"},
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
    .revision = 4,
};
