/* SPDX-License-Identifier: Apache-2.0
 *
 * An instruction that traps, from there to a handler in the same program and back to the instruction after it.
 *
 * The four differ in the CPU's exception and hardly in the kernel's work, so they should cost about the same. Where one
 * costs a multiple of its sibling, something saw it first: a hypervisor that intercepts undefined opcodes or the
 * debugger's trap, to emulate them or to pass them on. Old ARM binaries took the undefined-instruction trap for every
 * floating-point operation.
 */
#define _GNU_SOURCE 1
#include "toll.h"
#include "trap.h"

struct trapped {
  uint64_t expected;
};

static const struct trap {
  int bytes;
  const char *absent;
} traps[] = {
    {TRAP_ILLEGAL, "an undefined instruction and the way past it are not known on this architecture"},
    {TRAP_BREAKPOINT, "a breakpoint and the way past it are not known on this architecture"},
    {TRAP_DIVIDE, "a division by zero does not trap on this architecture"},
    {TRAP_PRIVILEGED, "a privileged instruction and the way past it are not known on this architecture"},
};

enum kind { ILLEGAL, BREAKPOINT, DIVIDE, PRIVILEGED };

/* The signal of a trap differs between architectures: a privileged instruction is illegal on one, and an access
 * violation on another. */
static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  const struct trap *trap = &traps[toll_choice(r, "trap")];
  if (trap->bytes == TRAP_UNKNOWN) return toll_skip(r, "%s", trap->absent);
  trap_catch(SIGILL, trap->bytes);
  trap_catch(SIGTRAP, trap->bytes);
  trap_catch(SIGFPE, trap->bytes);
  trap_catch(SIGSEGV, trap->bytes);
  return TOLL_OK;
}

static void run_into(struct toll_run *r) {
  struct trapped *trapped = r->state;
  uint64_t i = r->iterations;
  trapped->expected += i;
  switch (toll_choice(r, "trap")) {
    case ILLEGAL:
      for (; i; i--) trap_illegal();
      break;
    case BREAKPOINT:
      for (; i; i--) trap_breakpoint();
      break;
    case DIVIDE:
      for (; i; i--) trap_divide();
      break;
    case PRIVILEGED:
      for (; i; i--) trap_privileged();
      break;
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct trapped *trapped = r->state;
  if (trap_handled.taken == trapped->expected) return TOLL_OK;
  return toll_wrong(r, "%llu traps reached the handler, not %llu", (unsigned long long)trap_handled.taken,
                    (unsigned long long)trapped->expected);
}

static const char *const kinds[] = {"undefined_instruction", "breakpoint", "divide_by_zero", "privileged_instruction",
                                    NULL};
static const struct toll_parameter parameters[] = {
    {.name = "trap", .kind = TOLL_CHOICE, .summary = "the instruction that traps", .choices = kinds}, {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "a trap to a handler in the program and back",
                                              .means = "trap",
                                              .toll = "trap to a signal handler, {trap}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does an instruction that traps cost a program that handles it, and what sees it first?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct trapped),
    .prepare = prepare,
    .body = run_into,
    .check = check,
    .calls = 1,
    .revision = 1,
};
