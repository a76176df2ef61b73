/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortest system call, with additional checks on entry.
 *
 * "Speed limits" (tests B, B1 and B2) returned from the kernel before, between and after its checks; here checks are put
 * in. A filter that allows a call whatever its arguments are is asked once for each call's number, and the answer is
 * kept in a bitmap (Linux 5.11): rules on numbers are free from then on. A rule that looks at an argument cannot be kept,
 * and every call runs the filter, rule by rule. A call that is refused with an errno never reaches its own code. The
 * dispatch to user mode costs a look at a byte of the program's memory even where that byte says that the call may pass.
 * Where there is any such work to do, the kernel also takes its slower way in.
 */
#define _GNU_SOURCE 1
#include <string.h>

#include "entry.h"
#include "filter.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

enum check { NOTHING, NUMBERS, ARGUMENTS, REFUSED, DISPATCH };
enum { REFUSAL = EBADSLT, DISPATCH_ON = 1, DISPATCH_PASS = 0, NO_CALL = 0x3ffff000 };

struct entry {
  long answer;
  volatile char selector; /* byte of the dispatch that states that calls pass */
};

/* `rules` comparisons that never hold. */
static void add_rules(struct filter *filter, uint64_t rules) {
  for (uint64_t i = 0; i < rules; i++) filter_answer(filter, NO_CALL + (uint32_t)i, SECCOMP_RET_ERRNO | REFUSAL);
}

static long enforce(unsigned check, uint64_t rules) {
  static struct filter filter;
  filter_load(&filter, offsetof(struct seccomp_data, nr));
  if (check == REFUSED) filter_answer(&filter, SYS_getppid, SECCOMP_RET_ERRNO | REFUSAL);
  if (check == ARGUMENTS) filter_load(&filter, filter_argument(0));
  add_rules(&filter, rules);
  filter_end(&filter);
  return filter_enforce(&filter, 0);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct entry *entry = r->state;
  const unsigned check = toll_choice(r, "check");
  const uint64_t rules = toll_number(r, "rules");
  if (2 * rules + 8 > FILTER_MOST) return toll_skip(r, "a filter of %llu rules is too long", (unsigned long long)rules);
  if (check == NOTHING) return TOLL_OK;
  entry->selector = DISPATCH_PASS;
  const long refused = check == DISPATCH
                           ? prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, 0, 0, (unsigned long)&entry->selector)
                           : enforce(check, rules);
  return refused < 0 ? toll_skip(r, "the kernel puts no such check in force: %s", strerror(errno)) : TOLL_OK;
}

static void enter(struct toll_run *r) {
  struct entry *entry = r->state;
  long answer = 0;
  for (uint64_t i = r->iterations; i; i--) answer = kernel_enter(SYS_getppid, 0, 0);
  entry->answer = answer;
}

static void control(struct toll_run *r) {
  long answer = 0;
  for (uint64_t i = r->iterations; i; i--) TOLL_OPAQUE(answer);
}

static enum toll_status check(struct toll_run *r) {
  const struct entry *entry = r->state;
  const long expected = toll_choice(r, "check") == REFUSED ? -REFUSAL : (long)getppid();
  if (entry->answer == expected) return TOLL_OK;
  return toll_wrong(r, "the kernel answered %ld, not %ld", entry->answer, expected);
}

static const char *const checks[] = {"nothing", "numbers", "arguments", "refused", "dispatch", NULL};
static const uint64_t rule_counts[] = {16, TOLL_END}; /* their slope is asked for by name: rules = [1, 256] */
static const struct toll_parameter parameters[] = {
    {.name = "check",
     .kind = TOLL_CHOICE,
     .summary = "a filter on calls' numbers or on an argument, a refusal, or a dispatch that lets all pass",
     .choices = checks},
    {.name = "rules",
     .kind = TOLL_COUNT,
     .summary = "rules that the filter tries in vain",
     .values = rule_counts,
     .typical = "16"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one entry past the check, and the return",
                                              .means = "checked-entry",
                                              .toll = "system call behind a filter, {check}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it add to a system call that it is filtered, refused or dispatched?",
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
