/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortest round trip into the kernel and back: no copy, no lock to wait for, no sleep.
 *
 * getppid is the cheapest call that has an answer to check: the kernel follows two pointers. A number that no kernel
 * knows is the floor below it: entry, comparison with the table's length, return. The difference is the call's own
 * work. getpid is unsuitable: some C libraries cache its answer and do not enter the kernel.
 */
#define _GNU_SOURCE 1
#include "entry.h"
#include "toll.h"

enum call { GETPPID, UNKNOWN };

struct entry {
  long number, answer;
};

/* Past the end of every architecture's table (the longest, of mips, starts at 4000 and has not reached 4700), and below
 * the numbers that arm keeps for itself. */
#define UNKNOWN_NUMBER (SYS_getppid + 900)

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct entry *entry = r->state;
  entry->number = toll_choice(r, "call") == UNKNOWN ? UNKNOWN_NUMBER : SYS_getppid;
  return TOLL_OK;
}

static void enter(struct toll_run *r) {
  struct entry *entry = r->state;
  const long number = entry->number;
  long answer = 0;
  for (uint64_t i = r->iterations; i; i--) answer = kernel_enter(number, 0, 0);
  entry->answer = answer;
}

static void control(struct toll_run *r) {
  long number = ((struct entry *)r->state)->number;
  for (uint64_t i = r->iterations; i; i--) TOLL_OPAQUE(number);
}

static enum toll_status check(struct toll_run *r) {
  const struct entry *entry = r->state;
  const long expected = entry->number == UNKNOWN_NUMBER ? -ENOSYS : (long)getppid();
  if (entry->answer == expected) return TOLL_OK;
  return toll_wrong(r, "the kernel answered %ld, not %ld", entry->answer, expected);
}

static const char *const calls[] = {"getppid", "unknown", NULL};
static const struct toll_parameter parameters[] = {{.name = "call",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "getppid, or a number that the kernel does not know",
                                                    .choices = calls,
                                                    .typical = "getppid"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one entry into the kernel and the return",
                                              .means = "entry",
                                              .toll = "system call"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does the shortest system call cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct entry),
    .prepare = prepare,
    .body = enter,
    .control = control,
    .check = check,
    .calls = 1,
    .revision = 3 + KERNEL_GATE_REVISION,
};
