/* SPDX-License-Identifier: Apache-2.0
 *
 * A linked list in random order: the smallest program whose speed is its pointers' width.
 *
 * A node is what a tree or a map has: three pointers and a number, 16 bytes with 4-byte pointers and 32 with 8-byte ones.
 * The axis is the number of nodes and not of bytes, since that is what a program has: with wider pointers the same list
 * leaves every cache at half the length, and between the two knees the narrow ABI is faster by the ratio of two cache
 * levels. Below the first knee both cost the same load. Each step waits for the one before, and the order is one random
 * cycle, so neither overlap nor prefetching hides it.
 */
#include "toll.h"

struct node {
  struct node *next, *left, *right;
  uint32_t key;
};
struct list {
  size_t nodes;
  struct node *first, *head, *at;
  uint64_t sum, steps;
};

static enum toll_status prepare(struct toll_run *r) {
  struct list *list = r->state;
  list->nodes = (size_t)toll_number(r, "nodes");
  const size_t bytes = list->nodes * sizeof(struct node);
  list->first = toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .pages = TOLL_PAGES_ANY});
  if (!list->first) return toll_refused(r);
  list->head = list->at = (struct node *)toll_chase(r, list->first, bytes, sizeof(struct node), TOLL_ORDER_RANDOM);
  for (size_t i = 0; i < list->nodes; i++) list->first[i].key = (uint32_t)i + 1;
  return TOLL_OK;
}

static void follow(struct toll_run *r) {
  struct list *list = r->state;
  const struct node *node = list->at;
  uint64_t sum = 0;
  for (uint64_t i = r->iterations; i; i--) {
    sum += node->key;
    node = node->next;
  }
  list->at = (struct node *)node;
  list->sum += sum;
  list->steps += r->iterations;
}

/* On to the list's head: by then every node was met equally often. */
static enum toll_status check(struct toll_run *r) {
  struct list *list = r->state;
  struct toll_run rest = {.iterations = list->nodes - list->steps % list->nodes, .state = list};
  follow(&rest);
  const uint64_t laps = list->steps / list->nodes, lap_sum = (uint64_t)list->nodes * (list->nodes + 1) / 2;
  if (list->at != list->head) return toll_wrong(r, "the list does not close after %zu nodes", list->nodes);
  if (list->sum != laps * lap_sum) return toll_wrong(r, "not every node was met equally often");
  return TOLL_OK;
}

static void finish(struct toll_run *r) {
  const struct list *list = r->state;
  toll_report(r, "node", sizeof(struct node));
  toll_report(r, "footprint", (double)sizeof(struct node) * (double)list->nodes);
}

static const struct toll_parameter parameters[] = {{.name = "nodes",
                                                    .kind = TOLL_COUNT,
                                                    .summary = "nodes in the list",
                                                    .from = 256,
                                                    .to = 1 << 22,
                                                    .per_octave = 1,
                                                    .typical = "65536",
                                                    .refine = true},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "step",
     .unit = "ns",
     .summary = "one step from node to node",
     .means = "pointer-chase",
     .toll = "follow a pointer, list of {nodes} nodes"},
    {.name = "node", .unit = "B", .summary = "size of a node of three pointers and a number", .source = TOLL_GAUGE},
    {.name = "footprint", .unit = "B", .summary = "size of the whole list", .source = TOLL_GAUGE},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does a step along a list cost, and at what length does this pointer width leave each cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct list),
    .prepare = prepare,
    .body = follow,
    .check = check,
    .finish = finish,
    .revision = 1,
};
