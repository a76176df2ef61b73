/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of dependent additions: an integer addition takes one cycle on every core that is sold, so additions a second
 * are cycles a second. The time-stamp counter is no substitute: it ticks at a nominal rate while the core boosts,
 * throttles or sleeps.
 *
 * The addend stands in a register that the compiler cannot see through. Cores since Golden Cove carry out additions of
 * small immediates while renaming, several of them a cycle, and would seem to run at many times their clock.
 */
#ifndef TOLL_CHAIN_H
#define TOLL_CHAIN_H

#include "toll.h"

/* 64 additions a turn: the loop's own counting runs in parallel and never delays the chain. */
enum { TURN = 64 };

struct chain {
  unsigned long sum, addend;
  uint64_t added;
};

#define ADD      \
  sum += addend; \
  TOLL_OPAQUE(sum);
#define ADD_8 ADD ADD ADD ADD ADD ADD ADD ADD

/* additions: a multiple of TURN. The caller counts them in `added`, as it was asked for them. */
static inline void chain_add(struct chain *c, uint64_t additions) {
  unsigned long sum = c->sum, addend = c->addend;
  TOLL_OPAQUE(addend);
  for (uint64_t turns = additions / TURN; turns; turns--) {
    ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8
  }
  c->sum = sum;
}

static inline enum toll_status chain_check(struct toll_run *r, const struct chain *c) {
  if (c->sum != (unsigned long)c->added * c->addend)
    return toll_wrong(r, "the chain has another sum than its additions");
  return TOLL_OK;
}

#endif
