/* SPDX-License-Identifier: Apache-2.0
 *
 * 32-bit ARM (ARMv7-A). Instructions of the old ABI's accelerator (FPA) trap into bare_undefined(), which emulates them by
 * ../../fpa.h: that is what kernels of those days did, and what this supervisor was written for.
 */
#ifndef TOLL_BARE_ARCH_H
#define TOLL_BARE_ARCH_H

#include "places.h"
#define FPA_MEMORY_END PROGRAM_END
#include "../../fpa.h"

typedef struct fpa_core registers;
enum { FIRST_ARGUMENT = 0, CALL_NUMBER = 7, STACK_POINTER = 13, PROGRAM_COUNTER = 15 };

#define PLATFORM "v7l"
#define MACHINE  "armv7l"
#define ELF_CPU  EM_ARM
#define CAPABILITY                                                                                              \
  (HWCAP_SWP | HWCAP_HALF | HWCAP_THUMB | HWCAP_FAST_MULT | HWCAP_VFP | HWCAP_EDSP | HWCAP_NEON | HWCAP_VFPv3 | \
   HWCAP_TLS)

/* ---- pages: small pages (ARM ARM B3.5.1, B3.7.1) ------------------------------------------------------------------ */

typedef uint32_t page_entry;

/* Normal memory, write-back and allocated on write; what user mode may do. A page that the program may not touch keeps
 * its content. */
enum {
  SMALL = 2,
  NEVER_EXECUTED = 1,
  CACHED = 1 << 6 | 1 << 3 | 1 << 2,
  NOT_USERS = 1 << 4,
  USERS = 3 << 4,
  READ_ONLY = 1 << 9,
  OF_ONE_MAP = 1 << 11 /* not global: another map (limits/) has something else there */
};

static inline page_entry page_rights(unsigned may) {
  const page_entry rights = may & MAY_EXECUTE ? 0 : NEVER_EXECUTED;
  if (!may) return rights | NOT_USERS;
  return rights | USERS | (may & MAY_WRITE ? 0 : READ_ONLY);
}

static inline page_entry page_entry_of(uintptr_t in_board, unsigned may) {
  return in_board | OF_ONE_MAP | CACHED | SMALL | page_rights(may);
}

static inline unsigned page_may(page_entry entry) {
  if ((entry & USERS) != USERS) return 0;
  return MAY_READ | (entry & READ_ONLY ? 0 : MAY_WRITE) | (entry & NEVER_EXECUTED ? 0 : MAY_EXECUTE);
}

static inline bool page_is_real(page_entry entry) {
  return entry & SMALL;
}

static inline uintptr_t page_in_board(page_entry entry) {
  return entry & ~(PAGE_BYTES - 1u);
}

/* Walks look into the caches, so that a table's word needs no cleaning; but it must be there before the next access. */
static inline void page_written(uintptr_t address) {
  (void)address;
  __asm__ volatile("dsb" ::: "memory");
}

static inline void pages_forget(uintptr_t address) {
  __asm__ volatile("mcr p15, 0, %0, c8, c7, 3\n\tdsb\n\tisb" ::"r"(address) : "memory"); /* TLBIMVAA */
}

static inline void pages_forget_all(void) {
  __asm__ volatile("dsb\n\tmcr p15, 0, %0, c8, c7, 0\n\tdsb\n\tisb" ::"r"(0) : "memory"); /* TLBIALL */
}

/* ---- the program -------------------------------------------------------------------------------------------------- */

static inline void core_begin(registers *core, uintptr_t entry, uintptr_t stack) {
  const uint32_t user_mode = 0x10, thumb = (entry & 1) << 5;
  *core = (registers){.cpsr = user_mode | thumb};
  core->r[STACK_POINTER] = stack;
  core->r[PROGRAM_COUNTER] = entry & ~1u;
}

static inline void core_set_thread(uintptr_t pointer) {
  __asm__ volatile("mcr p15, 0, %0, c13, c0, 3" ::"r"(pointer)); /* TPIDRURO */
}

extern uint32_t bare_first_level[4096]; /* the translation table, which start.S begins and pages_open() completes */
extern const char bare_vectors[];
void bare_fpu_keep(uint32_t words[65]);
void bare_fpu_load(const uint32_t words[65]);
static inline void core_forget_fpu(void) {
  static const uint32_t at_rest[65];
  bare_fpu_load(at_rest);
}

/* What start.S calls. */
void bare_undefined(registers *core);
void bare_prefetch_abort(registers *core, uint32_t address, uint32_t fault);
void bare_data_abort(registers *core, uint32_t address, uint32_t fault);
/* A fault of the supervisor's own at a program's address. 0 where it may try again, else the signal for the program. */
int bare_own_abort(uint32_t address, uint32_t fault, uint32_t instruction);
void bare_signal_after_abort(registers *core, int number);

/* ---- signals: what rt_sigaction takes, and the frame on the stack (Linux, arch/arm/kernel/signal.h) ---------------- */

#include <asm/sigcontext.h>
#include <linux/signal.h>

struct action {
  uint32_t handler, flags, restorer, mask[2];
};
struct fpu_state { /* struct vfp_sigframe */
  uint32_t magic, bytes, registers[65], rest[3];
};
struct context { /* struct ucontext */
  uint32_t flags, link;
  stack_t stack;
  struct sigcontext core;
  uint32_t mask[2], unused[30];
  struct fpu_state fpu __attribute__((aligned(8)));
  uint32_t regspace[128 - sizeof(struct fpu_state) / 4];
};
struct frame { /* struct rt_sigframe; a handler that wants no siginfo gets what begins at `context` */
  siginfo_t info;
  struct context context;
};
enum { FRAME_ALIGNMENT = 8 };

void *memcpy(void *to, const void *from, size_t count);

/* ---- system calls that only this CPU's Linux has, and those by which a program takes the vectors over (limits/) ----- */

#define OFFSET_OF_PREAD(core) (ARGUMENT(core, 4) | (uint64_t)ARGUMENT(core, 5) << 32)
#define CALLS_OF_ARCH                                                                                    \
  [__NR_open] = call_open, [__NR__llseek] = call_llseek, [__NR_mmap2] = call_mmap,                       \
  [__NR_clock_gettime64] = call_clock_gettime64, [__NR_clock_nanosleep_time64] = call_clock_nanosleep64, \
  [__NR_sigreturn] = frame_call_return, [__NR_getuid32] = nothing, [__NR_geteuid32] = nothing,           \
  [__NR_getgid32] = nothing, [__NR_getegid32] = nothing, [__NR_futex_time64] = call_futex,               \
  [__NR_ugetrlimit] = call_getrlimit, [__NR_prlimit64] = call_prlimit64
intptr_t frame_call_return(registers *core);
/* A program has taken the vectors over: a handler could call no other. */
bool core_is_taken(void);
/* Gives them back; core_forget(): for good. */
void core_leave(void), core_forget(void);

#endif
