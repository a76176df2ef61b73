/* SPDX-License-Identifier: Apache-2.0
 *
 * The control loop, in whose turns other costs are stated: two instructions, a decrement and a branch.
 *
 * "Speed limits" (Willcocks 2013, test A) timed such a loop beside its kernel entries, and found it 51 % faster after a
 * rebuild of other code: where this rate moves between two runs, the machine moved, and no difference may be blamed on
 * the code. The counter is as wide as a register, so that the loop is two instructions on a 32-bit ABI too; a batch of a
 * few milliseconds never fills it.
 */
#include "toll.h"

struct loop {
  uint64_t asked, done;
};

static void loop(struct toll_run *r) {
  uintptr_t left = (uintptr_t)r->iterations;
  do {
    TOLL_OPAQUE(left);
  } while (--left);
  struct loop *state = r->state;
  state->asked += r->iterations;
  state->done += r->iterations - left;
}

static enum toll_status check(struct toll_run *r) {
  const struct loop *state = r->state;
  if (state->asked > state->done) return toll_wrong(r, "the loop stopped before its counter was zero");
  return TOLL_OK;
}

static const struct toll_metric metrics[] = {{.name = "loops",
                                              .unit = "op/s",
                                              .better = TOLL_MORE,
                                              .summary = "turns of a two-instruction loop",
                                              .means = "control-loop"},
                                             {.name = "turn",
                                              .unit = "ns",
                                              .summary = "one turn of the loop",
                                              .toll = "one iteration of a two-instruction loop"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is a loop of two instructions, the control that all else is compared with?",
    .metrics = metrics,
    .state_bytes = sizeof(struct loop),
    .body = loop,
    .check = check,
    .revision = 1,
};
