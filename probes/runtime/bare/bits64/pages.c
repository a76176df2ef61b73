/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables above those of the program's pages, and what every 64-bit CPU does about a fault.
 */
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <stddef.h>

#include "calls.h"
#include "fault.h"

enum { ENTRIES = 512, LARGE_SHIFT = 21, ROOT_SHIFT = 30 };
enum { PROGRAM_TABLES = PROGRAM_END >> LARGE_SHIFT, MEMORY_TABLES = MEMORY_BYTES >> ROOT_SHIFT };

static page_entry root[ENTRIES] __attribute__((aligned(PAGE_BYTES)));
static page_entry program_table[PROGRAM_TABLES] __attribute__((aligned(PAGE_BYTES)));
static page_entry memory_tables[MEMORY_TABLES * ENTRIES] __attribute__((aligned(PAGE_BYTES)));

/* Runs where the image stands in memory, before addresses are translated: all references are relative to the program
 * counter, and none is kept. Returns the first table. */
page_entry *bare_translate(uintptr_t image) {
  for (uintptr_t i = 0; i < MEMORY_TABLES * ENTRIES; i++)
    memory_tables[i] = entry_of_memory(image + (i << LARGE_SHIFT));
  for (uintptr_t i = 0; i < MEMORY_TABLES; i++)
    root[(MEMORY_AT >> ROOT_SHIFT) + i] = entry_of_table((uintptr_t)(memory_tables + i * ENTRIES));
  for (uintptr_t i = 0; i < DEVICES_GIB; i++) root[(DEVICES_AT >> ROOT_SHIFT) + i] = entry_of_device(i << ROOT_SHIFT);
  const uintptr_t here = image >> ROOT_SHIFT;
  root[here] = entry_of_memory(here << ROOT_SHIFT); /* until the jump */
  return root;
}

void pages_open(void) {
  root[memory_in_board((const void *)MEMORY_AT) >> ROOT_SHIFT] = 0;
  for (uintptr_t i = 0; i < PROGRAM_TABLES; i++)
    program_table[i] = entry_of_table(memory_in_board(bare_page_table + i * ENTRIES));
  root[0] = entry_of_table(memory_in_board(program_table));
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

void fault_at(registers *core, uintptr_t address, unsigned use) {
  const bool inside = address < PROGRAM_END;
  if (inside && memory_touch(address, use)) return;
  const bool there = inside && bare_page_table[address / PAGE_BYTES];
  signals_force(core, SIGSEGV, there ? SEGV_ACCERR : SEGV_MAPERR, address);
}

void bare_lose(uintptr_t instruction, uintptr_t address) {
  board_say("the supervisor failed: instruction ");
  say_address(instruction);
  board_say(", address ");
  say_address(address);
  board_say("\n");
  board_off();
}

void faults_clear(void) {}

uint32_t faults_emulated(void) {
  return 0;
}

/* Returns NULL: these architectures have no system call outside Linux's common table. */
call *call_of_arch(uintptr_t number) {
  (void)number;
  return NULL;
}

/* ---- the way back from a signal's handler ------------------------------------------------------------------------- */

/* Linux has it in the vDSO. */
uintptr_t trampoline(void) {
  if (!memory_touch(TRAMPOLINE, MAY_EXECUTE)) {
    memory_promise(TRAMPOLINE, PAGE_BYTES, MAY_READ | MAY_EXECUTE);
    memory_fill(TRAMPOLINE, bare_signal_return, BYTES_OF_RETURN);
  }
  return TRAMPOLINE;
}

bool frame_can_return(const struct action *action) {
  (void)action;
  return true;
}
