/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests of "Speed limits" (Willcocks 2013) with vectors of our own: what the hardware takes to enter a kernel and to
 * come back, and what the least that a kernel does there adds.
 *
 * A system's kernel saves registers, checks, accounts and mitigates before it examines the request, so that its
 * shortest call does not measure the entry alone. Here the handler is a few instructions: a store to address 0 that
 * returns before any check, after the look at who did it, or after the address was read and compared; a call that
 * returns at once; and an object that is asked whether it is a string, in the caller's map and in another. Two places
 * lend their vectors: a bare ARM board, and on x86-64 a guest that this probe makes of nothing but these pages. There
 * the batch lies inside the guest, so that what it takes to enter and leave the guest is paid once a batch and cancels.
 *
 * The fault's address is read from the coprocessor (CP15; CR2 on x86) at each use, or once and then kept in memory.
 */
#define _GNU_SOURCE 1
#include "toll.h"
#include "vectors.h"

#if defined(__arm__)
#include "vectors_board.h"
#elif defined(__x86_64__)
#include "vectors_guest.h"
#else
static enum toll_status vectors_open(struct toll_run *r, struct vectors *vectors) {
  (void)vectors;
  return toll_skip(r, "there are vectors of our own on bare ARM boards and in a guest of x86-64 only");
}
static bool vectors_run(struct vectors *vectors, uint64_t turns) {
  (void)vectors, (void)turns;
  return false;
}
static double vectors_exits(void) {
  return -1;
}
#endif

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct vectors *vectors = r->state;
  vectors->test = (enum vectors_test)toll_choice(r, "test");
  vectors->kept = toll_choice(r, "address") == 1;
  return vectors_open(r, vectors);
}

static void enter(struct toll_run *r) {
  struct vectors *vectors = r->state;
  if (!vectors_run(vectors, r->iterations) && !vectors->failure) vectors->failure = "the vectors were refused";
}

static void control(struct toll_run *r) {
  struct vectors loop = *(struct vectors *)r->state;
  loop.test = VECTORS_LOOP;
  loop.control = true;
  vectors_run(&loop, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  const struct vectors *vectors = r->state;
  const uint32_t expected = vectors_expected(vectors->test);
  if (vectors->failure) return toll_wrong(r, "%s", vectors->failure);
  if (vectors->answer == expected) return TOLL_OK;
  return toll_wrong(r, "the answer is %u, not %u", vectors->answer, expected);
}

static void finish(struct toll_run *r) {
  const double exits = vectors_exits();
  if (exits >= 0) toll_report(r, "exits", exits);
}

static const char *const tests[] = {"loop",
                                    "abort_compared",
                                    "abort_at_once",
                                    "abort_after_mode",
                                    "call",
                                    "gate",
                                    "object_same_address_space",
                                    "object_other_address_space",
                                    NULL};
static const char *const addresses[] = {"coprocessor", "memory", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "test",
     .kind = TOLL_CHOICE,
     .summary = "a loop; a refused store that comes back early or late; a call; an object that is asked",
     .choices = tests},
    {.name = "address",
     .kind = TOLL_CHOICE,
     .summary = "source of the fault's address: the coprocessor at each use, or memory after one read",
     .choices = addresses,
     .typical = "memory"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "round_trip",
     .unit = "ns",
     .summary = "one round trip, with the loop's own two instructions",
     .means = "own-vector",
     .toll = "custom vectors, {test}"},
    {.name = "loops", .unit = "op/s", .better = TOLL_MORE, .summary = "round trips a second, as the study gives them"},
    {.name = "control_loops",
     .unit = "op/s",
     .better = TOLL_MORE,
     .summary = "turns a second of the control loop around it",
     .source = TOLL_CONTROL},
    {.name = "exits",
     .unit = "count",
     .summary = "how often a round trip left the guest for its host: where that is not 0, the price is the host's",
     .source = TOLL_GAUGE,
     .means = "guest-exits"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does the entry itself cost, with a kernel that returns as early as can be?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct vectors),
    .prepare = prepare,
    .body = enter,
    .control = control,
    .check = check,
    .finish = finish,
    .revision = 1,
};
