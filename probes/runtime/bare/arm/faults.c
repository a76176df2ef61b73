/* SPDX-License-Identifier: Apache-2.0
 *
 * What traps: instructions that the core does not know, and addresses that are not there.
 */
#include <asm/siginfo.h>
#include <asm/signal.h>

#include "bare.h"
#include "limits/limits.h"

static struct fpa_registers accelerator; /* the program's */
static uint32_t emulated;

void faults_clear(void) {
  accelerator = (struct fpa_registers){{0}};
  emulated = 0;
}

uint32_t faults_emulated(void) {
  return emulated;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static void refuse_instruction(registers *core) {
  const uint32_t thumb = 1 << 5, breakpoint_of_linux = 0xe7f001f0;
  if (core->cpsr & thumb) core->r[15] += 2; /* it was stepped back by four bytes, and is two long */
  const uint32_t address = core->r[15];
  const uint32_t *instruction = memory_of_program(address, 4, MAY_READ);
  if (!(core->cpsr & thumb) && instruction && *instruction == breakpoint_of_linux)
    signals_force(core, SIGTRAP, TRAP_BRKPT, address);
  else
    signals_force(core, SIGILL, ILL_ILLOPC, address);
}

/* The emulator inside the supervisor: no signal, no copy of the registers, nothing else is asked. FPA has no encoding in
 * Thumb state. */
void bare_undefined(registers *core) {
  const uint32_t thumb = 1 << 5;
  if (!(core->cpsr & thumb) && fpa_emulate(&accelerator, core))
    emulated++;
  else
    refuse_instruction(core);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* The fault's kind, five bits in two places of the status (ARM ARM B3.13.3). */
enum { ALIGNMENT = 0x01, DEBUG = 0x02, WRITING = 1 << 11 };
enum { TRANSLATION = 0x05, TRANSLATION_OF_PAGE = 0x07, PERMISSION = 0x0d, PERMISSION_OF_PAGE = 0x0f };

static uint32_t kind_of(uint32_t fault) {
  return (fault & 0xf) | (fault >> 6 & 0x10);
}

static bool is_for_translation(uint32_t fault) {
  return kind_of(fault) == TRANSLATION || kind_of(fault) == TRANSLATION_OF_PAGE;
}

static void refuse_address(registers *core, uint32_t address, uint32_t fault) {
  const uint32_t kind = kind_of(fault);
  if (kind == PERMISSION || kind == PERMISSION_OF_PAGE)
    signals_force(core, SIGSEGV, SEGV_ACCERR, address);
  else if (is_for_translation(fault))
    signals_force(core, SIGSEGV, SEGV_MAPERR, address);
  else
    signals_force(core, SIGBUS, kind == ALIGNMENT ? BUS_ADRALN : BUS_OBJERR, address);
}

void bare_data_abort(registers *core, uint32_t address, uint32_t fault) {
  const unsigned use = fault & WRITING ? MAY_WRITE : MAY_READ;
  if (limits_abort(core, address)) return;
  if (!is_for_translation(fault) || !memory_touch(address, use)) refuse_address(core, address, fault);
}

void bare_prefetch_abort(registers *core, uint32_t address, uint32_t fault) {
  if (kind_of(fault) == DEBUG)
    signals_force(core, SIGTRAP, TRAP_BRKPT, core->r[15]); /* BKPT */
  else if (!is_for_translation(fault) || !memory_touch(address, MAY_EXECUTE))
    refuse_address(core, address, fault);
}

static _Noreturn void lose(uint32_t address, uint32_t instruction) {
  board_say("the supervisor failed: instruction ");
  say_address(instruction);
  board_say(", address ");
  say_address(address);
  board_say("\n");
  board_off();
}

int bare_own_abort(uint32_t address, uint32_t fault, uint32_t instruction) {
  if (address >= PROGRAM_END) lose(address, instruction);
  if (is_for_translation(fault) && memory_touch(address, fault & WRITING ? MAY_WRITE : MAY_READ)) return 0;
  return kind_of(fault) == ALIGNMENT ? SIGBUS : SIGSEGV;
}

void bare_signal_after_abort(registers *core, int number) {
  uint32_t address;
  __asm__("mrc p15, 0, %0, c6, c0, 0" : "=r"(address)); /* DFAR: nothing has faulted since */
  signals_force(core, number, number == SIGBUS ? BUS_ADRALN : SEGV_MAPERR, address);
}
