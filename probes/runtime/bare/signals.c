/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals, as a program knows them: signal(7), sigaction(2), and the frame that Linux puts on a program's stack: a siginfo,
 * and a ucontext with the registers of the core and of the FPU (arch.h).
 */
#include <linux/errno.h>

#include "frame.h"

enum { MOST_SIGNALS = 64 };

static struct action actions[MOST_SIGNALS];
static uint64_t pending, blocked;
static stack_t stack;
static uint32_t handled;

static uint64_t bit(int number) {
  return 1ull << (number - 1);
}

void signals_clear(void) {
  memset(actions, 0, sizeof actions);
  pending = blocked = 0;
  handled = 0;
  stack = (stack_t){.ss_flags = SS_DISABLE};
}

void signals_raise(int number) {
  pending |= bit(number);
}

bool signals_wait(void) {
  return (pending & ~blocked) != 0;
}

uint32_t signals_handled(void) {
  return handled;
}

/* ---- into a handler ---------------------------------------------------------------------------------------------- */

static struct frame *make_frame(const registers *core, const struct action *action) {
  const uintptr_t lowest = (uintptr_t)stack.ss_sp;
  uintptr_t top = core->r[STACK_POINTER];
  if (action->flags & SA_ONSTACK && !(stack.ss_flags & SS_DISABLE) && top - lowest > stack.ss_size)
    top = lowest + stack.ss_size;
  top = (top - sizeof(struct frame)) & ~(uintptr_t)(FRAME_ALIGNMENT - 1);
  return memory_of_program(top, sizeof(struct frame), MAY_WRITE);
}

static void fill_frame(struct frame *frame, const registers *core, int number, int code, uintptr_t address) {
  memset(frame, 0, sizeof *frame);
  frame->info.si_signo = number;
  frame->info.si_code = code;
  frame->info.si_addr = (void *)address;
  frame->context.stack = stack;
  memcpy(&frame->context.mask, &blocked, sizeof blocked);
  frame_keep(&frame->context, core, address);
}

static uint64_t mask_of(const void *words) {
  uint64_t mask;
  memcpy(&mask, words, sizeof mask);
  return mask;
}

static void handle(registers *core, int number, int code, uintptr_t address) {
  struct action *action = &actions[number - 1];
  struct frame *frame = make_frame(core, action);
  if (!frame || !frame_can_return(action)) bare_ended(SIGSEGV); /* there is no way back */
  fill_frame(frame, core, number, code, address);
  frame_enter(core, action, frame, number);
  blocked |= mask_of(&action->mask);
  if (!(action->flags & SA_NODEFER)) blocked |= bit(number);
  if (action->flags & SA_RESETHAND) action->handler = 0;
  handled++;
}

static bool is_caught(int number) {
  enum { DEFAULT, IGNORED };
  return actions[number - 1].handler > IGNORED;
}

static bool is_passed_over(int number) {
  const uint64_t harmless = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);
  return actions[number - 1].handler == 1 || (actions[number - 1].handler == 0 && harmless & bit(number));
}

void signals_deliver(registers *core) {
  for (int number = 1; number <= MOST_SIGNALS && signals_wait(); number++) {
    if (!(pending & ~blocked & bit(number))) continue;
    pending &= ~bit(number);
    if (is_passed_over(number)) continue;
    if (!is_caught(number)) bare_ended(number);
    handle(core, number, 0, 0);
  }
}

void signals_force(registers *core, int number, int code, uintptr_t address) {
  core_leave();
  if (!is_caught(number) || blocked & bit(number)) {
    board_say("not caught: at ");
    say_address(core->r[PROGRAM_COUNTER]);
    board_say(", address ");
    say_address(address);
    board_say("\n");
    bare_ended(number);
  }
  handle(core, number, code, address);
}

/* ---- out of a handler -------------------------------------------------------------------------------------------- */

intptr_t signals_return(registers *core, uintptr_t context_at) {
  const struct context *context = memory_of_program(context_at, sizeof *context, MAY_READ);
  if (!context) bare_ended(SIGSEGV);
  blocked = mask_of(&context->mask);
  frame_restore(context, core);
  return (intptr_t)ARGUMENT(core, 0);
}

intptr_t signals_call_rt_return(registers *core) {
  return signals_return(core, core->r[STACK_POINTER] + offsetof(struct frame, context));
}

/* ---- what a program asks ----------------------------------------------------------------------------------------- */

intptr_t signals_call_action(registers *core) {
  const uintptr_t number = ARGUMENT(core, 0);
  if (number < 1 || number > MOST_SIGNALS || ARGUMENT(core, 3) != 8) return -EINVAL;
  struct action *action = &actions[number - 1];
  const struct action *wanted = memory_of_program(ARGUMENT(core, 1), sizeof *wanted, MAY_READ);
  struct action *old = memory_of_program(ARGUMENT(core, 2), sizeof *old, MAY_WRITE), before = *action;
  if ((ARGUMENT(core, 1) && !wanted) || (ARGUMENT(core, 2) && !old)) return -EFAULT;
  if (ARGUMENT(core, 1) && (number == SIGKILL || number == SIGSTOP)) return -EINVAL;
  if (ARGUMENT(core, 1)) *action = *wanted;
  if (ARGUMENT(core, 2)) *old = before;
  return 0;
}

intptr_t signals_call_mask(registers *core) {
  const uint64_t never = bit(SIGKILL) | bit(SIGSTOP);
  const uint64_t *wanted = memory_of_program(ARGUMENT(core, 1), sizeof *wanted, MAY_READ);
  uint64_t *old = memory_of_program(ARGUMENT(core, 2), sizeof *old, MAY_WRITE), before = blocked;
  if ((ARGUMENT(core, 1) && !wanted) || (ARGUMENT(core, 2) && !old)) return -EFAULT;
  if (ARGUMENT(core, 1)) {
    if (ARGUMENT(core, 0) == SIG_BLOCK) blocked |= *wanted;
    if (ARGUMENT(core, 0) == SIG_UNBLOCK) blocked &= ~*wanted;
    if (ARGUMENT(core, 0) == SIG_SETMASK) blocked = *wanted;
    blocked &= ~never;
  }
  if (ARGUMENT(core, 2)) *old = before;
  return 0;
}

intptr_t signals_call_pending(registers *core) {
  uint64_t *result = memory_of_program(ARGUMENT(core, 0), sizeof *result, MAY_WRITE);
  if (!result) return -EFAULT;
  *result = pending & blocked;
  return 0;
}

intptr_t signals_call_stack(registers *core) {
  const stack_t *wanted = memory_of_program(ARGUMENT(core, 0), sizeof stack, MAY_READ);
  stack_t *old = memory_of_program(ARGUMENT(core, 1), sizeof stack, MAY_WRITE), before = stack;
  if ((ARGUMENT(core, 0) && !wanted) || (ARGUMENT(core, 1) && !old)) return -EFAULT;
  if (ARGUMENT(core, 0)) stack = *wanted;
  if (ARGUMENT(core, 1)) *old = before;
  return 0;
}
