/* SPDX-License-Identifier: Apache-2.0
 *
 * The round trip of fault_trap in three parts: the entry, until the kernel has determined the signal; the delivery,
 * until the handler's first instruction; the return, from its last instruction to the one after the trap.
 *
 * The program sees two moments from inside, the handler's first and last. The time before the first is entry and
 * delivery together. A signal that the program sends to itself is delivered by the same code, after a send; an ignored
 * signal costs the send alone, so the difference is the delivery, and the entry is the rest. If nothing is left, no
 * entry is reported.
 *
 * Moments are medians of many rounds, less what reading the clock takes: no sum over a batch could separate the
 * parts.
 */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock_ns.h"
#include "toll.h"
#include "trap.h"

enum kind { ILLEGAL, BREAKPOINT, DIVIDE, PRIVILEGED, NULL_STORE };
enum { ROUNDS = 501 };

struct moments {
  uint64_t expected;
  double entry, delivery, back;
};

static const int lengths[] = {TRAP_ILLEGAL, TRAP_BREAKPOINT, TRAP_DIVIDE, TRAP_PRIVILEGED, TRAP_STORE};

static volatile uint64_t handler_began, handler_ended;

static uint64_t moment(void) {
  return toll_clock_ns(CLOCK_MONOTONIC_RAW);
}

static void timed_handler(int signal_number, siginfo_t *info, void *context) {
  handler_began = moment();
  trap_handler(signal_number, info, context);
  handler_ended = moment();
}

static void catch_by(void (*handler)(int, siginfo_t *, void *), int signal_number) {
  struct sigaction action = {0};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(signal_number, &action, NULL);
}

static void catch_all(void (*handler)(int, siginfo_t *, void *)) {
  static const int signals[] = {SIGILL, SIGTRAP, SIGFPE, SIGSEGV, SIGBUS};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) catch_by(handler, signals[i]);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  trap_handled.bytes = lengths[toll_choice(r, "trap")];
  if (trap_handled.bytes == TRAP_UNKNOWN)
    return toll_skip(r, "this trap, or the way past it, is not known on this architecture");
  catch_all(trap_handler);
  return TOLL_OK;
}

static void trap(unsigned kind) {
  switch (kind) {
    case ILLEGAL: trap_illegal(); break;
    case BREAKPOINT: trap_breakpoint(); break;
    case DIVIDE: trap_divide(); break;
    case PRIVILEGED: trap_privileged(); break;
    case NULL_STORE: trap_store(0); break;
  }
}

static void run_into(struct toll_run *r) {
  struct moments *moments = r->state;
  const unsigned kind = toll_choice(r, "trap");
  for (uint64_t i = r->iterations; i; i--) trap(kind);
  moments->expected += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct moments *moments = r->state;
  if (trap_handled.taken == moments->expected) return TOLL_OK;
  return toll_wrong(r, "%llu traps reached the handler, not %llu", (unsigned long long)trap_handled.taken,
                    (unsigned long long)moments->expected);
}

/* ---- the parts ----------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double middle(double *values) {
  qsort(values, ROUNDS, sizeof *values, compare);
  return values[ROUNDS / 2];
}

static double reading_ns(void) {
  double took[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    const uint64_t began = moment();
    took[i] = (double)(moment() - began);
  }
  return middle(took);
}

static void time_traps(unsigned kind, double *to_handler, double *back) {
  double there[ROUNDS], again[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    const uint64_t began = moment();
    trap(kind);
    const uint64_t ended = moment();
    there[i] = (double)(handler_began - began);
    again[i] = (double)(ended - handler_ended);
  }
  *to_handler = middle(there);
  *back = middle(again);
}

static double time_sends(bool handled) {
  const long process = getpid(), thread = syscall(SYS_gettid);
  double took[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    const uint64_t began = moment();
    syscall(SYS_tgkill, process, thread, SIGUSR1);
    took[i] = (double)((handled ? handler_began : moment()) - began);
  }
  return middle(took);
}

/* The handler of a sent signal does not advance the program counter. */
static double delivery_ns(void) {
  const int bytes = trap_handled.bytes;
  const uint64_t taken = trap_handled.taken;
  trap_handled.bytes = 0;
  catch_by(timed_handler, SIGUSR1);
  const double delivered = time_sends(true);
  signal(SIGUSR1, SIG_IGN);
  const double ignored = time_sends(false);
  trap_handled.bytes = bytes;
  trap_handled.taken = taken;
  return delivered - ignored;
}

static void finish(struct toll_run *r) {
  struct moments *moments = r->state;
  const double reading = reading_ns();
  double to_handler, back;
  catch_all(timed_handler);
  time_traps(toll_choice(r, "trap"), &to_handler, &back);
  moments->expected += ROUNDS;
  const double delivery = delivery_ns();
  catch_all(trap_handler);
  if (to_handler - reading > delivery) toll_report(r, "entry", to_handler - reading - delivery);
  toll_report(r, "delivery", delivery);
  toll_report(r, "return", back - reading);
}

static const char *const kinds[] = {"undefined_instruction",  "breakpoint", "divide_by_zero",
                                    "privileged_instruction", "null_store", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "trap", .kind = TOLL_CHOICE, .summary = "what traps", .choices = kinds}, {0}};
/* The parts have a meaning, so that a run continues until they converge too. */
#define PART(part, text) \
  { .name = part, .unit = "ns", .summary = text, .source = TOLL_GAUGE, .means = "trap-part" }
static const struct toll_metric metrics[] = {
    {.name = "round_trip", .unit = "ns", .summary = "a trap to a handler in the program and back"},
    PART("entry", "from the trap until the signal is pending"),
    PART("delivery", "from the pending signal to the handler"),
    PART("return", "from the handler to the instruction after the trap"),
    {0}};

const struct toll_probe toll_probe = {
    .question = "Where does a trap's round trip go: into the kernel, to the handler, or back?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct moments),
    .prepare = prepare,
    .body = run_into,
    .check = check,
    .finish = finish,
    .enters = true,
    .revision = 1,
};
