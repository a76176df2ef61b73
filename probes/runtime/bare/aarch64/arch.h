/* SPDX-License-Identifier: Apache-2.0
 *
 * 64-bit ARM (ARMv8-A). Section letters and registers are those of the ARM Architecture Reference Manual (ARM DDI 0487).
 */
#ifndef TOLL_BARE_ARCH_H
#define TOLL_BARE_ARCH_H

#include "common.h"

typedef struct {
  uint64_t r[33], flags;
} registers;
enum { FIRST_ARGUMENT = 0, CALL_NUMBER = 8, STACK_POINTER = 31, PROGRAM_COUNTER = 32 };

#define PLATFORM      "aarch64"
#define MACHINE       "aarch64"
#define ELF_CPU       EM_AARCH64
#define CAPABILITY    (HWCAP_FP | HWCAP_ASIMD)
#define CALLS_OF_ARCH CALLS_OF_64_BITS

/* ---- pages (D8.3) ------------------------------------------------------------------------------------------------- */

#define ONLY_KERNELS_CODE (1ull << 54)
#define ONLY_USERS_CODE   (1ull << 53)
#define ACCESSED_SHARED   (1ull << 10 | 3ull << 8) /* no fault of the first access; inner shareable */
#define READ_ONLY         (1ull << 7)
#define USERS             (1ull << 6)
#define OF_DEVICE         (1ull << 2) /* the second of MAIR_EL1's kinds, which start.S sets */
#define ADDRESS           0x0000fffffffff000ull

static inline page_entry entry_of_memory(uintptr_t block) {
  return block | ONLY_KERNELS_CODE | ACCESSED_SHARED | 1;
}
static inline page_entry entry_of_device(uintptr_t block) {
  return block | ONLY_KERNELS_CODE | ONLY_USERS_CODE | ACCESSED_SHARED | OF_DEVICE | 1;
}
static inline page_entry entry_of_table(uintptr_t table) {
  return table | 3;
}

static inline page_entry page_entry_of(uintptr_t in_board, unsigned may) {
  const page_entry rights = (may & MAY_EXECUTE ? 0 : ONLY_KERNELS_CODE) | (may & MAY_WRITE ? 0 : READ_ONLY);
  return in_board | rights | (may ? USERS : 0) | ONLY_USERS_CODE | ACCESSED_SHARED | 3;
}
static inline unsigned page_may(page_entry entry) {
  if (!(entry & USERS)) return 0;
  return MAY_READ | (entry & READ_ONLY ? 0 : MAY_WRITE) | (entry & ONLY_KERNELS_CODE ? 0 : MAY_EXECUTE);
}
static inline uintptr_t page_in_board(page_entry entry) {
  return entry & ADDRESS;
}

static inline void page_written(uintptr_t address) {
  (void)address;
  __asm__ volatile("dsb ishst\n\tisb" ::: "memory");
}
static inline void pages_forget(uintptr_t address) {
  __asm__ volatile("tlbi vaae1is, %0\n\tdsb ish\n\tisb" ::"r"(address >> 12) : "memory");
}
static inline void pages_forget_all(void) {
  __asm__ volatile("dsb ishst\n\ttlbi vmalle1is\n\tdsb ish\n\tisb" ::: "memory");
}

/* ---- the program -------------------------------------------------------------------------------------------------- */

static inline void core_begin(registers *core, uintptr_t entry, uintptr_t stack) {
  *core = (registers){.flags = 0};
  core->r[STACK_POINTER] = stack;
  core->r[PROGRAM_COUNTER] = entry;
}
static inline void core_set_thread(uintptr_t pointer) {
  __asm__ volatile("msr tpidr_el0, %0" ::"r"(pointer));
}

struct action { /* as rt_sigaction takes it */
  uintptr_t handler, flags, restorer;
  uint64_t mask;
};

/* Of start.S: FPSR and FPCR, then V0 to V31, as struct fpsimd_context has them. */
void bare_fpu_keep(void *state);
void bare_fpu_load(const void *state);
static inline void core_forget_fpu(void) {
  static const uint64_t at_rest[66] __attribute__((aligned(16)));
  bare_fpu_load(at_rest);
}
void bare_trap(registers *core);
extern const bool bare_had_hypervisor; /* it was started in EL2 */

#endif
