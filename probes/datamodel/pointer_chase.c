/* SPDX-License-Identifier: Apache-2.0
 *
 * A linked list in random order: the smallest program whose speed depends on the width of pointers.
 *
 * A node is what a tree or a map has: three pointers and a number, 16 bytes with 4-byte pointers and 32 with 8-byte ones.
 * The axis is the number of nodes and not of bytes, since that is what a program has: with wider pointers the same list
 * leaves every cache at half the length, and between the two knees the narrow ABI is faster by the ratio of two cache
 * levels. Below the first knee both cost the same load. Each step waits for the one before, and the order is one random
 * cycle, so neither overlap nor prefetching hides it.
 */
#include "walk.h"

struct node {
  struct node *next, *left, *right;
  uint32_t key;
};

static enum toll_status prepare(struct toll_run *r) {
  size_t nodes;
  if (asked(r, "nodes", &nodes) != TOLL_OK) return toll_refused(r);
  if (nodes > SIZE_MAX / 4 / sizeof(struct node)) return toll_skip(r, "%zu nodes exceed the address space", nodes);
  const size_t bytes = nodes * sizeof(struct node);
  void *list = toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .pages = TOLL_PAGES_ANY});
  if (!list) return toll_refused(r);
  return walk_lay(r, r->state, list, bytes, sizeof(struct node), TOLL_ORDER_RANDOM);
}

static void follow(struct toll_run *r) {
  walk_on(&((struct walk *)r->state)->cursor, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  return walk_check(r, r->state, follow);
}

static void finish(struct toll_run *r) {
  const struct walk *list = r->state;
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
    {.name = "footprint", .unit = "B", .summary = "size of the whole list", .source = TOLL_GAUGE, .means = "footprint"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does a step along a list cost, and at what length does this pointer width leave each cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct walk),
    .prepare = prepare,
    .body = follow,
    .check = check,
    .finish = finish,
    .quantum = WALK_TURN,
    .accounts = true,
    .revision = 3,
};
