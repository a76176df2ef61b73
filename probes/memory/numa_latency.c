/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of one load from the memory of each node, by the node that asks: the price of memory that lies elsewhere.
 */
#include "numa.h"
#include "walk.h"

static enum toll_status prepare(struct toll_run *r) {
  size_t bytes;
  if (asked(r, "size", &bytes) != TOLL_OK) return toll_refused(r);
  char *memory = numa_memory(r, bytes);
  return memory ? walk_lay(r, r->state, memory, bytes, toll_line_bytes(), TOLL_ORDER_RANDOM) : toll_refused(r);
}

static void load(struct toll_run *r) {
  walk_on(&((struct walk *)r->state)->cursor, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  return walk_check(r, r->state, load);
}

static const struct toll_parameter parameters[] = {NUMA_PARAMETERS, {0}};
static const struct toll_metric metrics[] = {
    {.name = "load", .unit = "ns", .summary = "one load in a random walk", .means = "latency-of-node"}, {0}};

const struct toll_probe toll_probe = {
    .question = "How long does a load from another memory node take?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct walk),
    .prepare = prepare,
    .body = load,
    .check = check,
    .quantum = WALK_TURN,
    .revision = 2,
};
