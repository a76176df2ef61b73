/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of a function in the same program: the bottom of the ladder, and the price that every other call is compared
 * with (lmbench calls it the procedure call).
 *
 * The function is kept apart from its caller, or the compiler would put its one addition in place of the call. The
 * value goes through the call and back, so that each call waits for the one before. The control makes the same
 * additions in line, so the difference is call and return, without a saved argument and with a predicted return.
 */
#include "toll.h"

struct sums {
  uintptr_t called, in_line, expected;
};

TOLL_NOINLINE static uintptr_t add_one(uintptr_t value) {
  return value + 1;
}

static void call(struct toll_run *r) {
  struct sums *sums = r->state;
  uintptr_t value = sums->called;
  for (uint64_t i = r->iterations; i; i--) value = add_one(value);
  sums->called = value;
  sums->expected += (uintptr_t)r->iterations;
}

static void control(struct toll_run *r) {
  struct sums *sums = r->state;
  uintptr_t value = sums->in_line;
  for (uint64_t i = r->iterations; i; i--) {
    value++;
    TOLL_OPAQUE(value);
  }
  sums->in_line = value;
}

static enum toll_status check(struct toll_run *r) {
  const struct sums *sums = r->state;
  if (sums->called == sums->expected) return TOLL_OK;
  return toll_wrong(r, "the calls counted %llu, not %llu", (unsigned long long)sums->called,
                    (unsigned long long)sums->expected);
}

static const struct toll_metric metrics[] = {{.name = "call",
                                              .unit = "ns",
                                              .summary = "one call of a function and its return, loop included",
                                              .means = "function-call",
                                              .toll = "call a function"},
                                             {.name = "extra",
                                              .unit = "ns",
                                              .summary = "what the call adds to the same work in line",
                                              .source = TOLL_DIFFERENCE},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does calling a function cost?",
    .metrics = metrics,
    .state_bytes = sizeof(struct sums),
    .body = call,
    .control = control,
    .check = check,
    .revision = 1,
};
