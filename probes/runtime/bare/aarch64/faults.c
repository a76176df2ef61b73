/* SPDX-License-Identifier: Apache-2.0
 *
 * What traps (ESR_EL1, D17.2.37), and what a signal's handler finds.
 */
#include <asm/siginfo.h>
#include <asm/signal.h>

#include "fault.h"

enum { CALL = 0x15, CODE_ABORT = 0x20, CODE_ALIGNMENT = 0x22, DATA_ABORT = 0x24, STACK_ALIGNMENT = 0x26, BREAK = 0x3c };
enum { WRITING = 1 << 6, OF_CACHES = 1 << 8 };
enum { TRANSLATION = 1, PERMISSION = 3, ALIGNMENT = 0x21 };

static void abort_at(registers *core, uint64_t syndrome, uintptr_t address, unsigned use) {
  const unsigned status = syndrome & 0x3f, kind = status >> 2;
  if (kind == TRANSLATION || kind == PERMISSION)
    fault_at(core, address, use);
  else
    signals_force(core, SIGBUS, status == ALIGNMENT ? BUS_ADRALN : BUS_OBJERR, address);
}

void bare_trap(registers *core) {
  uint64_t syndrome, address;
  __asm__ volatile("mrs %0, esr_el1\n\tmrs %1, far_el1" : "=r"(syndrome), "=r"(address));
  const uintptr_t at = core->r[PROGRAM_COUNTER];
  const unsigned kind = (unsigned)(syndrome >> 26);
  const bool writing = (syndrome & (WRITING | OF_CACHES)) == WRITING;
  if (kind == CALL)
    bare_call(core);
  else if (kind == DATA_ABORT)
    abort_at(core, syndrome, address, writing ? MAY_WRITE : MAY_READ);
  else if (kind == CODE_ABORT)
    abort_at(core, syndrome, address, MAY_EXECUTE);
  else if (kind == CODE_ALIGNMENT || kind == STACK_ALIGNMENT)
    signals_force(core, SIGBUS, BUS_ADRALN, kind == CODE_ALIGNMENT ? at : core->r[STACK_POINTER]);
  else if (kind == BREAK)
    signals_force(core, SIGTRAP, TRAP_BRKPT, at);
  else
    signals_force(core, SIGILL, ILL_ILLOPC, at);
}

/* To the point where instruction fetches look as well, line by line; then the fetches forget what they had (B2.4.4). */
void pages_publish(uintptr_t start, uintptr_t bytes) {
  enum { LINE = 16 }; /* no core has shorter ones */
  for (uintptr_t line = start & ~(uintptr_t)(LINE - 1); line < start + bytes; line += LINE)
    __asm__ volatile("dc cvau, %0" ::"r"(line) : "memory");
  __asm__ volatile("dsb ish\n\tic ialluis\n\tdsb ish\n\tisb" ::: "memory");
}

/* ---- signals ------------------------------------------------------------------------------------------------------ */

void frame_keep(struct context *context, const registers *core, uintptr_t address) {
  struct fpsimd_context *fpu = (void *)context->core.__reserved;
  memcpy(context->core.regs, core->r, sizeof core->r); /* sp and pc follow regs[30] */
  context->core.pstate = core->flags;
  context->core.fault_address = address;
  fpu->head.magic = FPSIMD_MAGIC;
  fpu->head.size = sizeof *fpu;
  bare_fpu_keep(&fpu->fpsr);
}

void frame_restore(const struct context *context, registers *core) {
  const uint64_t users_flags = 0xf0000000;
  const struct fpsimd_context *fpu = (const void *)context->core.__reserved;
  memcpy(core->r, context->core.regs, sizeof core->r);
  core->flags = context->core.pstate & users_flags;
  bare_fpu_load(&fpu->fpsr);
}

void frame_enter(registers *core, const struct action *action, struct frame *frame, int number) {
  enum { LINK = 30 };
  core->r[0] = (uintptr_t)number;
  core->r[1] = (uintptr_t)&frame->info;
  core->r[2] = (uintptr_t)&frame->context;
  core->r[LINK] = action->flags & SA_RESTORER ? action->restorer : trampoline();
  core->r[STACK_POINTER] = (uintptr_t)frame;
  core->r[PROGRAM_COUNTER] = action->handler;
}
