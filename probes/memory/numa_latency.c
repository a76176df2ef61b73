/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of one load from the memory of each node, by the loading CPU's node: the cost of remote memory, alone and
 * while all other CPUs of the loading node read other memory of the same remote node. Loads then queue at that memory,
 * and at the link to it.
 *
 * The readers go through one buffer, each from another place. They keep their distance, so that a line is read again
 * when as many bytes were read as the whole buffer has, which are more than the caches hold.
 */
#include "kernels.h"
#include "numa.h"
#include "walk.h"

enum { LINES_A_TURN = 4096 };

struct reader {
  const char *at;
  uint64_t lines, sum;
  char padding[128];
};

struct asked_node {
  struct walk walk;
  size_t line;
  const char *memory, *end; /* memory that the readers go through */
  unsigned node, readers;
  struct reader *reader; /* reader of each worker */
};

/* The place of the timed worker, or of a reader, among the visit's CPUs: those of the node in turn. */
static unsigned place_of(const struct toll_run *r, unsigned worker) {
  const struct asked_node *a = r->state;
  unsigned place = 0;
  for (; place < r->cpu_count; place++)
    if (toll_node_has(a->node, r->cpus[place]) && !worker--) break;
  return place;
}

static unsigned readers(const struct toll_run *r) {
  return ((const struct asked_node *)r->state)->readers;
}

static enum toll_status prepare_readers(struct toll_run *r, struct asked_node *a, size_t bytes) {
  while (place_of(r, a->readers + 1) < r->cpu_count) a->readers++;
  if (!a->readers) return toll_skip(r, "this run may use one CPU of memory node %u: none is left to read", a->node);
  char *memory = numa_memory(r, bytes);
  a->reader = toll_buffer(r, (struct toll_buffer_request){.bytes = (a->readers + 1) * sizeof *a->reader});
  if (!memory || !a->reader) return toll_refused(r);
  for (size_t i = 0; i < bytes; i += a->line) *(word *)(void *)(memory + i) = 1;
  a->memory = memory;
  a->end = memory + bytes / a->line * a->line;
  for (unsigned i = 0; i < a->readers; i++) a->reader[i + 1].at = memory + bytes / a->line / a->readers * i * a->line;
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct asked_node *a = r->state;
  size_t bytes;
  if (asked(r, "size", &bytes) != TOLL_OK) return toll_refused(r);
  a->line = toll_line_bytes();
  a->node = (unsigned)toll_number(r, "node");
  char *memory = numa_memory(r, bytes);
  if (!memory) return toll_refused(r);
  if (toll_choice(r, "beside") && prepare_readers(r, a, bytes) != TOLL_OK) return toll_refused(r);
  return walk_lay(r, &a->walk, memory, bytes, a->line, TOLL_ORDER_RANDOM);
}

static void load(struct toll_run *r) {
  walk_on(&((struct asked_node *)r->state)->walk.cursor, r->iterations);
}

static void read_lines(struct toll_run *r) {
  const struct asked_node *a = r->state;
  struct reader *reader = &((struct asked_node *)r->state)->reader[r->worker];
  const char *at = reader->at;
  uint64_t sum = 0;
  for (uint64_t left = r->iterations; left; left--) {
    sum += *(const word *)(const void *)at;
    at += a->line;
    if (at == a->end) at = a->memory;
  }
  reader->at = at;
  reader->sum += sum;
  reader->lines += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  struct asked_node *a = r->state;
  for (unsigned i = 1; i < r->workers; i++)
    if (!a->reader[i].lines || a->reader[i].sum != a->reader[i].lines)
      return toll_wrong(r, "a reader did not read each of its lines");
  return walk_check(r, &a->walk, load);
}

/* A line travels for each load, of the chase and of a reader. */
static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct asked_node *)r->state)->line;
}

static const char *const besides[] = {"nothing", "reads", NULL};
static const struct toll_role roles[] = {{.name = "reader",
                                          .body = read_lines,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_BACKGROUND,
                                          .count = readers,
                                          .cpu = place_of,
                                          .background_iterations = LINES_A_TURN},
                                         {0}};
static const struct toll_parameter parameters[] = {
    NUMA_PARAMETERS,
    {.name = "beside",
     .kind = TOLL_CHOICE,
     .summary = "what all other CPUs of the node do with the same memory",
     .choices = besides,
     .typical = "nothing"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "load", .unit = "ns", .summary = "one load in a random walk", .means = "latency-of-node"},
    {.name = "traffic",
     .unit = "B/s",
     .better = TOLL_MORE,
     .summary = "bytes a second that the CPUs of the node move together",
     .source = TOLL_TOGETHER,
     .means = "traffic-of-node"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How long does a load from another memory node take?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct asked_node),
    .prepare = prepare,
    .body = load,
    .check = check,
    .work = work,
    .roles = roles,
    .quantum = WALK_TURN,
    .revision = 2,
};
