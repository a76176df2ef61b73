/* SPDX-License-Identifier: Apache-2.0
 *
 * The bandwidth of the memory of each node, by the node whose CPUs use it: by one CPU, or by all CPUs of that node at once;
 * for reads alone, for mixes of reads and writes, and for non-temporal writes (mixed_traffic.h). These are the matrix and
 * the mixes that Intel's Memory Latency Checker and Arm's ASCT print. What is counted is the lines that travel. One load
 * touches a line: one CPU of a Zen 3 then reads 8 % less than memory.read_bandwidth's widest loop.
 *
 * Each CPU goes through a part of one buffer. The buffer is many times as large as all last caches of these CPUs together:
 * a part may fit into the caches of its CPU, but all parts of the CPUs behind one cache do not.
 *
 * On a machine with one node, that node is all of its memory and CPUs.
 */
#include "mixed_traffic.h"
#include "numa.h"

enum { BURSTS_A_TURN = 64 };

struct node_traffic {
  enum traffic_mix mix;
  size_t line;
  unsigned node, cpus;
  struct traffic_part *parts; /* part of each worker */
};

static bool is_of_node(const struct toll_run *r, int cpu) {
  return toll_node_count() < 2 || toll_node_has(((const struct node_traffic *)r->state)->node, cpu);
}

/* The place of a worker among the visit's CPUs: those of the node in turn. */
static unsigned place_of(const struct toll_run *r, unsigned worker) {
  unsigned place = 0;
  for (; place < r->cpu_count; place++)
    if (is_of_node(r, r->cpus[place]) && !worker--) break;
  return place;
}

static unsigned others(const struct toll_run *r) {
  return ((const struct node_traffic *)r->state)->cpus - 1;
}

static enum toll_status prepare(struct toll_run *r) {
  struct node_traffic *b = r->state;
  size_t size;
  if (asked(r, "size", &size) != TOLL_OK) return toll_refused(r);
  b->mix = (enum traffic_mix)toll_choice(r, "mix");
  if (!traffic_can_be(b->mix)) return toll_skip(r, "there is no non-temporal store here");
  b->line = toll_line_bytes();
  b->node = (unsigned)toll_number(r, "node");
  b->cpus = 1;
  if (toll_choice(r, "cpus"))
    while (place_of(r, b->cpus) < r->cpu_count) b->cpus++;
  size = for_all_caches(r, size, b->cpus);
  const size_t bytes = traffic_part_bytes(size, b->cpus, b->line);
  if (!bytes) return toll_fail(r, "the size holds no burst of %d lines a CPU", (int)BURST);
  char *memory = numa_or_only_memory(r, b->node, (unsigned)toll_number(r, "home"), size);
  b->parts = toll_buffer(r, (struct toll_buffer_request){.bytes = b->cpus * sizeof *b->parts});
  if (!memory || !b->parts) return toll_refused(r);
  for (unsigned i = 0; i < b->cpus; i++) traffic_give(&b->parts[i], memory + i * bytes, bytes, b->line);
  return TOLL_OK;
}

static void move_lines(struct toll_run *r) {
  const struct node_traffic *b = r->state;
  struct traffic_part *part = &b->parts[r->worker];
  char *at = part->at;
  uint64_t seen = 0;
  for (uint64_t left = r->iterations; left; left--) {
    seen += traffic_burst(at, b->line, b->mix, (unsigned long)++part->bursts);
    at += BURST * b->line;
    if (at == part->end) at = part->start;
  }
  part->at = at;
  part->seen += seen;
#ifdef NT_DONE
  if (is_non_temporal(b->mix)) NT_DONE();
#endif
}

static enum toll_status check(struct toll_run *r) {
  const struct node_traffic *b = r->state;
  for (unsigned i = 0; i < r->workers; i++)
    if (traffic_check(r, &b->parts[i], b->line, b->mix) != TOLL_OK) return toll_refused(r);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct node_traffic *b = r->state;
  work->bytes = (double)traffic_lines(b->mix) * (double)b->line;
}

static const struct toll_role roles[] = {{.name = "cpu",
                                          .body = move_lines,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_BACKGROUND,
                                          .count = others,
                                          .cpu = place_of,
                                          .background_iterations = BURSTS_A_TURN},
                                         {0}};
static const char *const several[] = {"one", "all", NULL};
static const struct toll_parameter parameters[] = {
    NUMA_PARAMETERS,
    {.name = "cpus", .kind = TOLL_CHOICE, .summary = "CPUs of the node that use the memory", .choices = several},
    {.name = "mix",
     .kind = TOLL_CHOICE,
     .summary = "lines read to lines written; nt: non-temporal writes alone",
     .choices = traffic_mixes,
     .typical = "1:0"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "traffic",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes that travel a second between these CPUs and the memory",
                                              .source = TOLL_TOGETHER,
                                              .means = "bandwidth-of-node"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many bytes a second does the memory of a node give, and take, by mix of reads and writes?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct node_traffic),
    .prepare = prepare,
    .body = move_lines,
    .check = check,
    .work = work,
    .roles = roles,
    .revision = 3,
};
