/* SPDX-License-Identifier: Apache-2.0
 *
 * The core clock, by a chain of dependent additions (chain.h).
 */
#include "chain.h"

static enum toll_status prepare(struct toll_run *r) {
  struct chain *c = r->state;
  c->addend = (unsigned long)(r->seed | 1);
  return TOLL_OK;
}

static void add(struct toll_run *r) {
  struct chain *c = r->state;
  chain_add(c, r->iterations);
  c->added += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  return chain_check(r, r->state);
}

static const struct toll_metric metrics[] = {{.name = "clock",
                                              .unit = "op/s",
                                              .better = TOLL_MORE,
                                              .summary = "dependent additions a second, one a cycle",
                                              .means = "core-clock"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How fast does the core's own clock run?",
    .metrics = metrics,
    .state_bytes = sizeof(struct chain),
    .prepare = prepare,
    .body = add,
    .check = check,
    .quantum = TURN,
    .revision = 1,
};
