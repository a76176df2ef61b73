/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals, as a program knows them: signal(7), sigaction(2), and the frame that Linux puts on an ARM program's stack
 * (its arch/arm/kernel/signal.h): a siginfo, a ucontext, and in that the registers of the core and of the FPU.
 */
#include <asm/sigcontext.h>
#include <linux/errno.h>
#include <linux/signal.h>

#include "bare.h"
#include "limits/limits.h"

enum { MOST_SIGNALS = 64, THUMB = 1 << 5 };

struct action { /* as rt_sigaction takes it */
  uint32_t handler, flags, restorer, mask[2];
};
struct fpu_state { /* struct vfp_sigframe */
  uint32_t magic, bytes, registers[65], rest[3];
};
struct context { /* struct ucontext */
  uint32_t flags, link, stack[3];
  struct sigcontext core;
  uint32_t mask[2], unused[30];
  struct fpu_state fpu __attribute__((aligned(8)));
  uint32_t regspace[128 - sizeof(struct fpu_state) / 4];
};
struct frame { /* struct rt_sigframe; a handler that wants no siginfo gets what begins at `context` */
  uint32_t info[32];
  struct context context;
};

static struct action actions[MOST_SIGNALS];
static uint64_t pending, blocked;
static uint32_t stack[3]; /* where, flags, bytes: stack_t */
static uint32_t handled;

static uint64_t bit(int number) {
  return 1ull << (number - 1);
}

void signals_clear(void) {
  memset(actions, 0, sizeof actions);
  pending = blocked = 0;
  handled = 0;
  stack[0] = stack[2] = 0;
  stack[1] = SS_DISABLE;
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

static void keep_core(struct sigcontext *kept, const struct fpa_core *core, uint32_t address) {
  memcpy(&kept->arm_r0, core->r, sizeof core->r); /* r0 to r15 stand side by side */
  kept->arm_cpsr = core->cpsr;
  kept->oldmask = (uint32_t)blocked;
  kept->fault_address = address;
}

static struct frame *make_frame(const struct fpa_core *core, const struct action *action) {
  uint32_t top = core->r[13];
  if (action->flags & SA_ONSTACK && !(stack[1] & SS_DISABLE) && top - stack[0] > stack[2]) top = stack[0] + stack[2];
  top = (top - sizeof(struct frame)) & ~7u;
  return memory_of_program(top, sizeof(struct frame), MAY_WRITE);
}

static void fill_frame(struct frame *frame, const struct fpa_core *core, int number, int code, uint32_t address) {
  memset(frame, 0, sizeof *frame);
  frame->info[0] = (uint32_t)number;
  frame->info[2] = (uint32_t)code;
  frame->info[3] = address;
  memcpy(frame->context.stack, stack, sizeof stack);
  keep_core(&frame->context.core, core, address);
  frame->context.mask[0] = (uint32_t)blocked;
  frame->context.mask[1] = (uint32_t)(blocked >> 32);
  frame->context.fpu.magic = 0x56465001;
  frame->context.fpu.bytes = sizeof frame->context.fpu;
  bare_fpu_keep(frame->context.fpu.registers);
}

static void enter_handler(struct fpa_core *core, const struct action *action, struct frame *frame, int number) {
  const uint32_t kept_flags = 0xf80f0010; /* no IF-THEN block goes on in a handler */
  const bool with_info = action->flags & SA_SIGINFO;
  core->r[0] = (uint32_t)number;
  core->r[1] = (uint32_t)(uintptr_t)frame->info;
  core->r[2] = (uint32_t)(uintptr_t)&frame->context;
  core->r[13] = with_info ? core->r[1] : core->r[2];
  core->r[14] = action->restorer;
  core->r[15] = action->handler & ~1u;
  core->cpsr = (core->cpsr & kept_flags) | (action->handler & 1 ? THUMB : 0);
}

static void handle(struct fpa_core *core, int number, int code, uint32_t address) {
  struct action *action = &actions[number - 1];
  struct frame *frame = make_frame(core, action);
  if (!frame || !(action->flags & SA_RESTORER)) bare_ended(SIGSEGV); /* there is no way back */
  fill_frame(frame, core, number, code, address);
  enter_handler(core, action, frame, number);
  blocked |= action->mask[0] | (uint64_t)action->mask[1] << 32;
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

void signals_deliver(struct fpa_core *core) {
  for (int number = 1; number <= MOST_SIGNALS && signals_wait(); number++) {
    if (!(pending & ~blocked & bit(number))) continue;
    pending &= ~bit(number);
    if (is_passed_over(number)) continue;
    if (!is_caught(number)) bare_ended(number);
    handle(core, number, 0, 0);
  }
}

void signals_force(struct fpa_core *core, int number, int code, uint32_t address) {
  limits_leave();
  if (!is_caught(number) || blocked & bit(number)) {
    board_say("not caught: at ");
    board_say_address(core->r[15]);
    board_say(", address ");
    board_say_address(address);
    board_say("\n");
    bare_ended(number);
  }
  handle(core, number, code, address);
}

/* ---- out of a handler -------------------------------------------------------------------------------------------- */

/* A program may change what it returns to, but not into another mode. */
static int32_t go_back(struct fpa_core *core, uint32_t context_at) {
  const uint32_t users_flags = 0xfe0ffc20, user_mode = 0x10;
  const struct context *context = memory_of_program(context_at, sizeof *context, MAY_READ);
  if (!context) bare_ended(SIGSEGV);
  memcpy(core->r, &context->core.arm_r0, sizeof core->r);
  core->cpsr = (context->core.arm_cpsr & users_flags) | user_mode;
  blocked = context->mask[0] | (uint64_t)context->mask[1] << 32;
  bare_fpu_load(context->fpu.registers);
  return (int32_t)core->r[0];
}

int32_t signals_call_return(struct fpa_core *core) {
  return go_back(core, core->r[13]);
}

int32_t signals_call_rt_return(struct fpa_core *core) {
  return go_back(core, core->r[13] + offsetof(struct frame, context));
}

/* ---- what a program asks ----------------------------------------------------------------------------------------- */

int32_t signals_call_action(struct fpa_core *core) {
  const uint32_t number = core->r[0];
  if (number < 1 || number > MOST_SIGNALS || core->r[3] != 8) return -EINVAL;
  struct action *action = &actions[number - 1];
  const struct action *wanted = memory_of_program(core->r[1], sizeof *wanted, MAY_READ);
  struct action *old = memory_of_program(core->r[2], sizeof *old, MAY_WRITE), before = *action;
  if ((core->r[1] && !wanted) || (core->r[2] && !old)) return -EFAULT;
  if (core->r[1] && (number == SIGKILL || number == SIGSTOP)) return -EINVAL;
  if (core->r[1]) *action = *wanted;
  if (core->r[2]) *old = before;
  return 0;
}

int32_t signals_call_mask(struct fpa_core *core) {
  const uint64_t never = bit(SIGKILL) | bit(SIGSTOP);
  const uint64_t *wanted = memory_of_program(core->r[1], sizeof *wanted, MAY_READ);
  uint64_t *old = memory_of_program(core->r[2], sizeof *old, MAY_WRITE), before = blocked;
  if ((core->r[1] && !wanted) || (core->r[2] && !old)) return -EFAULT;
  if (core->r[1]) {
    if (core->r[0] == SIG_BLOCK) blocked |= *wanted;
    if (core->r[0] == SIG_UNBLOCK) blocked &= ~*wanted;
    if (core->r[0] == SIG_SETMASK) blocked = *wanted;
    blocked &= ~never;
  }
  if (core->r[2]) *old = before;
  return 0;
}

int32_t signals_call_pending(struct fpa_core *core) {
  uint64_t *told = memory_of_program(core->r[0], sizeof *told, MAY_WRITE);
  if (!told) return -EFAULT;
  *told = pending & blocked;
  return 0;
}

int32_t signals_call_stack(struct fpa_core *core) {
  const uint32_t *wanted = memory_of_program(core->r[0], sizeof stack, MAY_READ);
  uint32_t *old = memory_of_program(core->r[1], sizeof stack, MAY_WRITE), before[3];
  memcpy(before, stack, sizeof stack);
  if ((core->r[0] && !wanted) || (core->r[1] && !old)) return -EFAULT;
  if (core->r[0]) memcpy(stack, wanted, sizeof stack);
  if (core->r[1]) memcpy(old, before, sizeof stack);
  return 0;
}
