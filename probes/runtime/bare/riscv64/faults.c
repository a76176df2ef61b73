/* SPDX-License-Identifier: Apache-2.0
 *
 * What traps (4.1.8), and what a signal's handler finds.
 */
#include <asm/siginfo.h>
#include <asm/signal.h>

#include "fault.h"

enum {
  CODE_ALIGNMENT = 0,
  CODE_ACCESS,
  ILLEGAL,
  BREAK,
  LOAD_ALIGNMENT,
  LOAD_ACCESS,
  STORE_ALIGNMENT,
  STORE_ACCESS,
  CALL
};
enum { CODE_PAGE = 12, LOAD_PAGE = 13, STORE_PAGE = 15 };

static void force(registers *core, unsigned kind, uintptr_t address) {
  const uintptr_t at = core->r[PROGRAM_COUNTER];
  if (kind == ILLEGAL)
    signals_force(core, SIGILL, ILL_ILLOPC, at);
  else if (kind == BREAK)
    signals_force(core, SIGTRAP, TRAP_BRKPT, at);
  else if (kind == CODE_ALIGNMENT || kind == LOAD_ALIGNMENT || kind == STORE_ALIGNMENT)
    signals_force(core, SIGBUS, BUS_ADRALN, address);
  else
    signals_force(core, SIGSEGV, SEGV_ACCERR, address);
}

void bare_trap(registers *core) {
  uint64_t cause, address;
  __asm__ volatile("csrr %0, scause\n\tcsrr %1, stval" : "=r"(cause), "=r"(address));
  if (cause >> 63) {
    bare_interrupt(core);
  } else if (cause == CALL) {
    core->r[PROGRAM_COUNTER] += 4;
    bare_call(core);
  } else if (cause == CODE_PAGE || cause == LOAD_PAGE || cause == STORE_PAGE) {
    fault_at(core, address, cause == CODE_PAGE ? MAY_EXECUTE : cause == STORE_PAGE ? MAY_WRITE : MAY_READ);
    pages_forget(address);
  } else {
    force(core, (unsigned)cause, address);
  }
}

void pages_publish(uintptr_t start, uintptr_t bytes) {
  (void)start, (void)bytes;
  __asm__ volatile("fence.i" ::: "memory");
}

/* ---- signals ------------------------------------------------------------------------------------------------------ */

void frame_keep(struct context *context, const registers *core, uintptr_t address) {
  (void)address;
  memcpy(&context->core.sc_regs, core->r, sizeof core->r);
  bare_fpu_keep(&context->core.sc_fpregs);
}

void frame_restore(const struct context *context, registers *core) {
  memcpy(core->r, &context->core.sc_regs, sizeof core->r);
  bare_fpu_load(&context->core.sc_fpregs);
}

void frame_enter(registers *core, const struct action *action, struct frame *frame, int number) {
  enum { LINK = 1 };
  ARGUMENT(core, 0) = (uintptr_t)number;
  ARGUMENT(core, 1) = (uintptr_t)&frame->info;
  ARGUMENT(core, 2) = (uintptr_t)&frame->context;
  core->r[LINK] = trampoline();
  core->r[STACK_POINTER] = (uintptr_t)frame;
  core->r[PROGRAM_COUNTER] = action->handler;
}
