/* SPDX-License-Identifier: Apache-2.0
 *
 * A signal that a program sends to itself, from the call to the handler and back, and the two calls around it.
 *
 * Sending is an entry; before the kernel returns from it, it writes the interrupted context onto the user's stack, goes
 * to the handler, and has to be entered once more (sigreturn) to restore it. A blocked signal becomes pending, and
 * sigtimedwait(), a second call, takes it. If it is sent again while pending, it is dropped. Signal 0 only checks the
 * sender's permission: lmbench's lat_sig subtracts it from a handled signal. Installing a handler is an entry with a
 * copy of the action.
 */
#define _GNU_SOURCE 1
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "toll.h"

enum step { DELIVER, TAKE, PENDING, SEND_NOTHING, INSTALL };

struct sent {
  uint64_t expected, refused;
};
static volatile uint64_t delivered;

static void on_signal(int signal_number) {
  (void)signal_number;
  delivered++;
}

static bool install(void) {
  struct sigaction action = {0};
  action.sa_handler = on_signal;
  return sigaction(SIGUSR1, &action, NULL) == 0;
}

static sigset_t only_usr1(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return set;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  const unsigned step = toll_choice(r, "step");
  sigset_t set = only_usr1();
  if (step == TAKE || step == PENDING) sigprocmask(SIG_BLOCK, &set, NULL);
  return install() ? TOLL_OK : toll_fail(r, "the handler could not be installed");
}

static bool send_to(long process, long thread, long signal_number) {
  return syscall(SYS_tgkill, process, thread, signal_number) == 0;
}

static void send_and_take(struct sent *sent, long process, long thread, uint64_t times) {
  const sigset_t set = only_usr1();
  const struct timespec at_once = {0, 0};
  for (; times; times--) {
    sent->refused += !send_to(process, thread, SIGUSR1);
    sent->refused += sigtimedwait(&set, NULL, &at_once) != SIGUSR1;
  }
}

static void deliver(struct toll_run *r) {
  struct sent *sent = r->state;
  const unsigned step = toll_choice(r, "step");
  const long process = getpid(), thread = syscall(SYS_gettid), sent_number = step == SEND_NOTHING ? 0 : SIGUSR1;
  if (step == INSTALL)
    for (uint64_t i = r->iterations; i; i--) sent->refused += !install();
  else if (step == TAKE)
    send_and_take(sent, process, thread, r->iterations);
  else
    for (uint64_t i = r->iterations; i; i--) sent->refused += !send_to(process, thread, sent_number);
  sent->expected += step == DELIVER ? r->iterations : 0;
}

static bool is_pending(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1;
}

static enum toll_status check(struct toll_run *r) {
  const struct sent *sent = r->state;
  if (sent->refused) return toll_fail(r, "%llu calls were refused", (unsigned long long)sent->refused);
  const unsigned step = toll_choice(r, "step");
  if (step == PENDING && !is_pending()) return toll_wrong(r, "the blocked signal is not pending");
  if (step == TAKE && is_pending()) return toll_wrong(r, "a signal that was taken is pending");
  if (delivered == sent->expected) return TOLL_OK;
  return toll_wrong(r, "%llu signals were delivered, not %llu", (unsigned long long)delivered,
                    (unsigned long long)sent->expected);
}

static const char *const steps[] = {"deliver", "take", "pending", "send_nothing", "install", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "step",
     .kind = TOLL_CHOICE,
     .summary = "send and handle a signal, send and take a blocked one, send one that is pending, signal 0, or install "
                "the handler",
     .choices = steps,
     .typical = "deliver"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one step: to the handler and back, or the call alone",
                                              .toll = "signal to oneself, handled"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a signal cost that a program sends to itself?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct sent),
    .prepare = prepare,
    .body = deliver,
    .check = check,
    .enters = true,
    .revision = 1,
};
