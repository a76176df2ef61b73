/* SPDX-License-Identifier: Apache-2.0
 *
 * One system call, served by supervisors at increasing distance.
 *
 *   kernel    the call's own code
 *   refusal   a filter's errno: decided on the way in
 *   dispatch  a SIGSYS that the dispatch to user mode sends to the program itself, which answers by hand
 *   trap      a SIGSYS that a filter sends, answered in the same way
 *   user_notification  a filter's notification of another process, which answers through a file
 *   trace     a stop that wakes a tracer, which lets the call go on
 *
 * Emulators, sandboxes and record-and-replay debuggers choose their method by this cost; an old ABI's floating-point
 * emulator and a pager in user mode use the same methods. The supervisor runs on the program's CPU: on a second CPU it
 * would only wait, and have to be woken.
 *
 * The call is getuid, which nothing else in the program uses. A supervisor that answers instead of the kernel returns a
 * number of its own, and the tracer counts its stops, which proves that the intended supervisor served the call.
 */
#define _GNU_SOURCE 1
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "answer.h"
#include "entry.h"
#include "filter.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#ifdef SYS_getuid32
#define SUPERVISED SYS_getuid32
#else
#define SUPERVISED SYS_getuid
#endif

enum by { KERNEL, REFUSAL, DISPATCH, TRAP, USER_NOTIFICATION, TRACE };
enum { OWN_ANSWER = 1234, DISPATCH_ON = 1, DISPATCH_PASS = 0, DISPATCH_BLOCK = 1 };

struct supervised {
  unsigned by;
  long answer, uid;       /* uid: asked for without a supervisor */
  uint64_t asked, served; /* served: by a supervisor that is a process */
  int notices;
  _Atomic int ready, refused; /* the tracer has the program; or the errno that kept it from that */
};

static volatile char selector = DISPATCH_PASS; /* selector byte of the dispatch */

static void answer_signal(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number, (void)info;
  selector = DISPATCH_PASS; /* the return from this handler is a call too */
  answer_in_context(context, OWN_ANSWER);
}

/* ---- putting a supervisor in charge ---- */

static long enforce(uint32_t action, unsigned flags) {
  static struct filter filter;
  filter_load(&filter, offsetof(struct seccomp_data, nr));
  filter_answer(&filter, SUPERVISED, action);
  filter_end(&filter);
  return filter_enforce(&filter, flags);
}

static bool take_charge(struct supervised *state) {
  switch (state->by) {
    case REFUSAL: return enforce(SECCOMP_RET_ERRNO | OWN_ANSWER, 0) == 0;
    case TRAP: return enforce(SECCOMP_RET_TRAP, 0) == 0;
    case DISPATCH: return prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, 0, 0, (unsigned long)&selector) == 0;
    case USER_NOTIFICATION:
      state->notices = (int)enforce(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
      return state->notices >= 0;
    case TRACE:
      prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* fails where tracing is not restricted */
      return enforce(SECCOMP_RET_TRACE, 0) == 0;
    default: return true;
  }
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct supervised *state = r->state;
  struct sigaction action = {0};
  state->by = toll_choice(r, "by");
  state->uid = (long)getuid();
  if ((state->by == TRAP || state->by == DISPATCH) && !ANSWER_KNOWN)
    return toll_skip(r, "where a handler puts a call's answer is not known on this architecture");
  action.sa_sigaction = answer_signal;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, NULL);
  return take_charge(state) ? TOLL_OK : toll_skip(r, "the kernel has no such supervision: %s", strerror(errno));
}

/* ---- the program ---- */

static void call(struct toll_run *r) {
  struct supervised *state = r->state;
  long answer = 0;
  while (state->by == TRACE && !state->ready && !state->refused) sched_yield();
  if (state->refused) return;
  if (state->by == DISPATCH)
    for (uint64_t i = r->iterations; i; i--) {
      selector = DISPATCH_BLOCK;
      answer = kernel_enter(SUPERVISED, 0, 0);
    }
  else
    for (uint64_t i = r->iterations; i; i--) answer = kernel_enter(SUPERVISED, 0, 0);
  state->answer = answer;
  state->asked += r->iterations;
}

/* ---- supervisors that are processes ---- */

static void answer_notices(struct toll_run *r) {
  struct supervised *state = r->state;
  for (uint64_t i = 0; i < r->iterations;) {
    struct seccomp_notif notification;
    memset(&notification, 0, sizeof notification);
    if (ioctl(state->notices, SECCOMP_IOCTL_NOTIF_RECV, &notification) < 0) continue;
    struct seccomp_notif_resp response = {.id = notification.id, .val = OWN_ANSWER};
    if (ioctl(state->notices, SECCOMP_IOCTL_NOTIF_SEND, &response) == 0) i++, state->served++;
  }
}

/* Waits for the program's next stop at a call; other stops are a signal's, which is passed on. */
static bool await_call(pid_t program) {
  int status;
  while (waitpid(program, &status, __WALL) == program && WIFSTOPPED(status)) {
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) return true;
    ptrace(PTRACE_CONT, program, NULL, (void *)(uintptr_t)(status >> 16 ? 0 : WSTOPSIG(status)));
  }
  return false;
}

/* The program is the parent of its companions. The tracer detaches at the last stop, since it cannot detach from a
 * running process. */
static void trace(struct toll_run *r) {
  struct supervised *state = r->state;
  const pid_t program = getppid();
  if (ptrace(PTRACE_SEIZE, program, NULL, (void *)PTRACE_O_TRACESECCOMP) < 0) {
    state->refused = errno;
    return;
  }
  state->ready = true;
  for (uint64_t left = r->iterations; left && await_call(program); left--) {
    state->served++;
    if (left == 1) state->ready = false;
    ptrace(left > 1 ? PTRACE_CONT : PTRACE_DETACH, program, NULL, NULL);
  }
}

static void supervise(struct toll_run *r) {
  if (((struct supervised *)r->state)->by == TRACE)
    trace(r);
  else
    answer_notices(r);
}

static unsigned supervisors(const struct toll_run *r) {
  return ((const struct supervised *)r->state)->by >= USER_NOTIFICATION;
}
static unsigned same_cpu(const struct toll_run *r, unsigned worker) {
  (void)r, (void)worker;
  return 0;
}

/* ---- proof ---- */

static enum toll_status check(struct toll_run *r) {
  const struct supervised *state = r->state;
  const bool own = state->by == KERNEL || state->by == TRACE;
  const long expected = own ? state->uid : state->by == REFUSAL ? -OWN_ANSWER : OWN_ANSWER;
  if (state->refused) return toll_skip(r, "the program may not be traced: %s", strerror(state->refused));
  if (state->answer != expected) return toll_wrong(r, "the answer was %ld, not %ld", state->answer, expected);
  if (supervisors(r) && state->served != state->asked)
    return toll_wrong(r, "%llu of %llu calls were served", (unsigned long long)state->served,
                      (unsigned long long)state->asked);
  return TOLL_OK;
}

static const struct toll_role roles[] = {{.name = "supervisor",
                                          .body = supervise,
                                          .worker = TOLL_PROCESS,
                                          .pace = TOLL_LOCKSTEP,
                                          .count = supervisors,
                                          .cpu = same_cpu},
                                         {0}};
static const char *const names[] = {"kernel", "refusal", "dispatch", "trap", "user_notification", "trace", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "by", .kind = TOLL_CHOICE, .summary = "what serves the call", .choices = names}, {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one call, served and answered",
                                              .means = "supervised-call",
                                              .toll = "system call served by {by}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a system call cost when another program than the kernel serves it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct supervised),
    .prepare = prepare,
    .body = call,
    .check = check,
    .roles = roles,
    .switches = true,
    .revision = 3,
};
