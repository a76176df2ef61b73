/* SPDX-License-Identifier: Apache-2.0
 *
 * The core clock, by a chain of dependent additions: an integer addition takes one cycle on every core that is sold, so
 * additions a second are cycles a second. The time-stamp counter is no substitute: it ticks at a nominal rate while the
 * core boosts, throttles or sleeps.
 *
 * The addend stands in a register that the compiler cannot see through. Cores since Golden Cove carry out additions of
 * small immediates while renaming, several of them a cycle, and would seem to run at many times their clock.
 */
#include "toll.h"

struct chain {
  unsigned long sum, addend;
  uint64_t added;
};

#define ADD      \
  sum += addend; \
  TOLL_OPAQUE(sum);
#define ADD_8 ADD ADD ADD ADD ADD ADD ADD ADD

/* 64 additions a turn: the loop's own counting runs beside the chain and never holds it up. */
#define TURN 64

static enum toll_status prepare(struct toll_run *r) {
  struct chain *c = r->state;
  c->addend = (unsigned long)(r->seed | 1);
  return TOLL_OK;
}

static void add(struct toll_run *r) {
  struct chain *c = r->state;
  unsigned long sum = c->sum, addend = c->addend;
  TOLL_OPAQUE(addend);
  for (uint64_t turns = r->iterations / TURN; turns; turns--) {
    ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8
  }
  c->sum = sum;
  c->added += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct chain *c = r->state;
  if (c->sum != (unsigned long)c->added * c->addend)
    return toll_wrong(r, "the chain has another sum than its additions");
  return TOLL_OK;
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
