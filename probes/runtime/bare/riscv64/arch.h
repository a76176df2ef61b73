/* SPDX-License-Identifier: Apache-2.0
 *
 * 64-bit RISC-V in supervisor mode, above an SBI (OpenSBI). Sections are those of "The RISC-V Instruction Set Manual",
 * Volume II: Privileged Architecture (20211203).
 */
#ifndef TOLL_BARE_ARCH_H
#define TOLL_BARE_ARCH_H

#include "common.h"

typedef struct {
  uint64_t r[32]; /* pc in place of x0 */
} registers;
enum { FIRST_ARGUMENT = 10, CALL_NUMBER = 17, STACK_POINTER = 2, PROGRAM_COUNTER = 0 };

#define PLATFORM      "riscv64"
#define MACHINE       "riscv64"
#define ELF_CPU       EM_RISCV
#define CAPABILITY    0x112d                                                /* letters of the base: I M A F D C */
#define CALLS_OF_ARCH CALLS_OF_64_BITS, [__NR_riscv_flush_icache] = nothing /* every page's code is published */

/* ---- pages (4.4: Sv39) -------------------------------------------------------------------------------------------- */

enum { VALID = 1, READABLE = 2, WRITABLE = 4, EXECUTABLE = 8, USERS = 16, ACCESSED_AND_DIRTY = 0xc0 };

static inline page_entry entry_of_table(uintptr_t table) {
  return table >> 12 << 10 | VALID;
}
static inline page_entry entry_of_device(uintptr_t block) {
  return entry_of_table(block) | READABLE | WRITABLE | ACCESSED_AND_DIRTY;
}
static inline page_entry entry_of_memory(uintptr_t block) {
  return entry_of_device(block) | EXECUTABLE;
}

static inline page_entry page_entry_of(uintptr_t in_board, unsigned may) {
  const page_entry rights = (may & MAY_EXECUTE ? EXECUTABLE : 0) | (may & MAY_WRITE ? WRITABLE : 0) | (may ? USERS : 0);
  return entry_of_table(in_board) | READABLE | rights | ACCESSED_AND_DIRTY;
}
static inline unsigned page_may(page_entry entry) {
  if (!(entry & USERS)) return 0;
  return MAY_READ | (entry & WRITABLE ? MAY_WRITE : 0) | (entry & EXECUTABLE ? MAY_EXECUTE : 0);
}
static inline uintptr_t page_in_board(page_entry entry) {
  return entry >> 10 << 12 & 0x00fffffffffff000;
}

/* An implementation may remember that there was no page. */
static inline void pages_forget(uintptr_t address) {
  __asm__ volatile("sfence.vma %0, zero" ::"r"(address) : "memory");
}
/* No fence of loads and stores orders an entry before the walks through the tables (4.2.1). */
static inline void page_written(uintptr_t address) {
  pages_forget(address);
}
static inline void pages_forget_all(void) {
  __asm__ volatile("sfence.vma" ::: "memory");
}

/* ---- the program -------------------------------------------------------------------------------------------------- */

static inline void core_begin(registers *core, uintptr_t entry, uintptr_t stack) {
  *core = (registers){{0}};
  core->r[STACK_POINTER] = stack;
  core->r[PROGRAM_COUNTER] = entry;
}
/* It is a register of the program. */
static inline void core_set_thread(uintptr_t pointer) {
  (void)pointer;
}

struct action { /* as rt_sigaction takes it */
  uintptr_t handler, flags;
  uint64_t mask;
};

/* Of start.S: f0 to f31, then fcsr, as struct __riscv_d_ext_state has them. */
void bare_fpu_keep(void *state);
void bare_fpu_load(const void *state);
static inline void core_forget_fpu(void) {
  static const uint64_t at_rest[33];
  bare_fpu_load(at_rest);
}
void bare_trap(registers *core);
extern uint64_t bare_hart; /* the core that runs this */

#endif
