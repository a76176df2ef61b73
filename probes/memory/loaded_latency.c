/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of a node's memory over the traffic that goes on beside: one CPU of the node chases pointers, those of all
 * its other cores make traffic at a set pace. Idle memory answers in its latency; as the traffic nears what the memory can
 * deliver, loads queue, and the latency rises. (Intel's Memory Latency Checker made the measurement known;
 * Esmaili-Dokht et al., A Mess of Memory System Benchmarking, Simulation and Application Profiling, 2024, take a curve for
 * each mix of reads and writes.)
 *
 * Traffic goes in bursts of twelve lines (mixed_traffic.h). The pace is a chain of dependent
 * additions beside each burst, `delay` cycles long: a core overlaps the two, so a burst takes at least that long.
 */
#include "mixed_traffic.h"
#include "numa.h"
#include "walk.h"

struct loaded {
  struct walk walk;
  size_t line;
  uint64_t delay;
  enum traffic_mix mix;
  unsigned node, makers;
  struct traffic_part *traffic; /* part of each worker */
  unsigned *places;             /* place of each worker's CPU among those of the visit */
};

static unsigned companions(const struct toll_run *r) {
  return ((const struct loaded *)r->state)->makers;
}

static unsigned place_of(const struct toll_run *r, unsigned worker) {
  return ((const struct loaded *)r->state)->places[worker];
}

static bool may_make(const struct toll_run *r, const struct loaded *l, int cpu) {
  const bool is_of_node = toll_node_count() < 2 || toll_node_has(l->node, cpu);
  return is_of_node && !toll_share_core(r->cpus[0], cpu);
}

/* A traffic maker on the sibling hyperthread of the measured core would share load ports and caches with the chase:
 * the additional latency would be the core's, and not the memory's. */
static enum toll_status choose_makers(struct toll_run *r, struct loaded *l) {
  l->traffic = toll_buffer(r, (struct toll_buffer_request){.bytes = r->cpu_count * sizeof *l->traffic});
  l->places = toll_buffer(r, (struct toll_buffer_request){.bytes = r->cpu_count * sizeof *l->places});
  if (!l->traffic || !l->places) return toll_refused(r);
  for (unsigned i = 1; i < r->cpu_count; i++)
    if (may_make(r, l, r->cpus[i])) l->places[++l->makers] = i;
  if (!l->makers) return toll_skip(r, "needs a CPU of another core to make traffic, and this run may use none there");
  return TOLL_OK;
}

/* The makers go through parts of one buffer, which is many times as large as all their last caches together. */
static enum toll_status prepare_traffic(struct toll_run *r, struct loaded *l, size_t size) {
  size = for_all_caches(r, size, r->cpu_count);
  const size_t bytes = traffic_part_bytes(size, l->makers, l->line);
  if (!bytes) return toll_fail(r, "the size holds no burst of %d lines a CPU", (int)BURST);
  char *memory = numa_or_only_memory(r, l->node, l->node, size);
  if (!memory) return toll_refused(r);
  for (unsigned i = 0; i < l->makers; i++) traffic_give(&l->traffic[i + 1], memory + i * bytes, bytes, l->line);
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct loaded *l = r->state;
  size_t size;
  if (asked(r, "size", &size) != TOLL_OK) return toll_refused(r);
  l->mix = (enum traffic_mix)toll_choice(r, "mix");
  l->delay = toll_number(r, "delay");
  l->node = (unsigned)toll_number(r, "node");
  l->line = toll_line_bytes();
  if (!traffic_can_be(l->mix)) return toll_skip(r, "there is no non-temporal store here");
  char *chased = numa_or_only_memory(r, l->node, l->node, size); /* moves the chase to the node */
  if (!chased || choose_makers(r, l) != TOLL_OK || prepare_traffic(r, l, size) != TOLL_OK) return toll_refused(r);
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
  const struct loaded *l = r->state;
  struct traffic_part *part = &l->traffic[r->worker];
  for (uint64_t left = r->iterations; left; left--) {
    part->seen += traffic_burst(part->at, l->line, l->mix, (unsigned long)++part->bursts);
    part->at += BURST * l->line;
    if (part->at == part->end) part->at = part->start;
    wait_cycles(l->delay);
  }
#ifdef NT_DONE
  if (is_non_temporal(l->mix)) NT_DONE();
#endif
}

static enum toll_status check(struct toll_run *r) {
  struct loaded *l = r->state;
  for (unsigned i = 1; i < r->workers; i++)
    if (traffic_check(r, &l->traffic[i], l->line, l->mix) != TOLL_OK) return toll_refused(r);
  return walk_check(r, &l->walk, load);
}

/* Counts the bytes of a burst: lines that are read, and lines that are written back or written by non-temporal
 * stores. */
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
static const struct toll_parameter parameters[] = {
    {.name = "node",
     .kind = TOLL_COUNT,
     .summary = "memory node of the CPUs and of the memory",
     .to_scale = TOLL_NODES_WITH_CPUS},
    /* 64 cycles a burst: 12 bytes a cycle, more than a core gets from memory; 65536: 1 % of what one gets. */
    {.name = "delay",
     .kind = TOLL_COUNT,
     .summary = "cycles that a burst of 12 lines takes at least",
     .from = 64,
     .to = 65536,
     .per_octave = 8,
     .refine = true},
    {.name = "mix",
     .kind = TOLL_CHOICE,
     .summary = "lines read to lines written; nt: non-temporal writes alone",
     .choices = traffic_mixes,
     .typical = "1:0"},
    {.name = "size",
     .kind = TOLL_SIZE,
     .summary = "bytes that the chase goes through, and all makers of traffic together for each last cache",
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
    .revision = 5,
};
