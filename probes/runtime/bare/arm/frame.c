/* SPDX-License-Identifier: Apache-2.0
 *
 * What a signal's handler finds on the stack and in the registers.
 */
#include "frame.h"

enum { THUMB = 1 << 5 };

void frame_keep(struct context *context, const registers *core, uintptr_t address) {
  struct sigcontext *kept = &context->core;
  memcpy(&kept->arm_r0, core->r, sizeof core->r); /* r0 to r15 stand side by side */
  kept->arm_cpsr = core->cpsr;
  kept->oldmask = context->mask[0];
  kept->fault_address = address;
  context->fpu.magic = 0x56465001;
  context->fpu.bytes = sizeof context->fpu;
  bare_fpu_keep(context->fpu.registers);
}

void frame_restore(const struct context *context, registers *core) {
  const uint32_t users_flags = 0xfe0ffc20, user_mode = 0x10;
  memcpy(core->r, &context->core.arm_r0, sizeof core->r);
  core->cpsr = (context->core.arm_cpsr & users_flags) | user_mode;
  bare_fpu_load(context->fpu.registers);
}

bool frame_can_return(const struct action *action) {
  return action->flags & SA_RESTORER;
}

void frame_enter(registers *core, const struct action *action, struct frame *frame, int number) {
  const uint32_t kept_flags = 0xf80f0010; /* no IF-THEN block goes on in a handler */
  const bool with_info = action->flags & SA_SIGINFO;
  core->r[0] = (uint32_t)number;
  core->r[1] = (uint32_t)&frame->info;
  core->r[2] = (uint32_t)&frame->context;
  core->r[STACK_POINTER] = with_info ? core->r[1] : core->r[2];
  core->r[14] = action->restorer;
  core->r[PROGRAM_COUNTER] = action->handler & ~1u;
  core->cpsr = (core->cpsr & kept_flags) | (action->handler & 1 ? THUMB : 0);
}

/* Of a handler that wanted no siginfo. */
intptr_t frame_call_return(registers *core) {
  return signals_return(core, core->r[STACK_POINTER]);
}
