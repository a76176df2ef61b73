/* SPDX-License-Identifier: Apache-2.0
 *
 * SPARC V8 with the compare and swap, the MMU and the power-down of a LEON3. Sections are those of "The SPARC Architecture
 * Manual, Version 8". No C library of Linux is compiled for such a CPU today: its programs are linked with a musl
 * (emulator/musl_sparc) whose calls have the numbers and structures of Linux's general table.
 *
 * The supervisor takes all windows of registers from the program at each trap, and gives it back one: the older ones are
 * on its stack then, as after a trap 3.
 */
#ifndef TOLL_BARE_ARCH_H
#define TOLL_BARE_ARCH_H

#include <linux/signal.h>

#include "places.h"

typedef struct {
  uint32_t r[32];                  /* pc in place of %g0; globals, outs, locals and ins of the program's window */
  uint32_t window[MOST_OLDER][16]; /* locals and ins of the windows before it, the youngest first */
  uint32_t psr, npc, y, older;     /* older: how many of them */
} registers;
_Static_assert(offsetof(registers, window) == AT_WINDOW && offsetof(registers, older) == AT_OLDER,
               "as start.S has them");
enum { FIRST_ARGUMENT = 8, CALL_NUMBER = 1, STACK_POINTER = 14, PROGRAM_COUNTER = 0, FRAME_POINTER = 30, LINK = 15 };

#define PLATFORM   "v8"
#define MACHINE    "sparc"
#define ELF_CPU    EM_SPARC
#define CAPABILITY 0

#define OFFSET_OF_PREAD(core) ((uint64_t)ARGUMENT(core, 4) << 32 | ARGUMENT(core, 5))
#define CALLS_OF_ARCH                                                                                                \
  [__NR_llseek] = call_llseek, [__NR_mmap2] = call_mmap, [__NR_clock_gettime64] = call_clock_gettime64,              \
  [__NR_clock_nanosleep_time64] = call_clock_nanosleep64, [__NR_futex_time64] = call_futex, [__NR_getuid] = nothing, \
  [__NR_geteuid] = nothing, [__NR_getgid] = nothing, [__NR_getegid] = nothing, [__NR_getrlimit] = call_getrlimit,    \
  [__NR_prlimit64] = call_prlimit64

/* ---- pages (appendix H) -------------------------------------------------------------------------------------------- */

typedef uint32_t page_entry;

/* Who may do what: of everybody 0 reads, 1 writes, 2 executes, 3 does all; 6 and 7 are the supervisor's alone. */
enum { TABLE = 1, PAGE = 2, KIND = 3, RIGHTS_SHIFT = 2, REFERENCED_AND_MODIFIED = 0x60, CACHED = 0x80 };
enum { SUPERVISORS = 4, SUPERVISOR_EXECUTES = 6, SUPERVISOR_ALL = 7 };

static inline page_entry entry_of_table(uintptr_t table) {
  return table >> 4 | TABLE;
}

static inline page_entry entry_of_large(uintptr_t in_board, page_entry more) {
  return in_board >> 4 | REFERENCED_AND_MODIFIED | SUPERVISOR_ALL << RIGHTS_SHIFT | PAGE | more;
}

static inline page_entry page_entry_of(uintptr_t in_board, unsigned may) {
  const page_entry rights = may ? (may & MAY_WRITE ? 1 : 0) | (may & MAY_EXECUTE ? 2 : 0) : SUPERVISOR_EXECUTES;
  return in_board >> 4 | CACHED | REFERENCED_AND_MODIFIED | rights << RIGHTS_SHIFT | PAGE;
}

static inline unsigned page_may(page_entry entry) {
  const page_entry rights = entry >> RIGHTS_SHIFT & 7;
  if (rights & SUPERVISORS) return 0;
  return MAY_READ | (rights & 1 ? MAY_WRITE : 0) | (rights & 2 ? MAY_EXECUTE : 0);
}

static inline bool page_is_real(page_entry entry) {
  return (entry & KIND) == PAGE;
}

static inline uintptr_t page_in_board(page_entry entry) {
  return entry >> 8 << 12;
}

static inline void page_written(uintptr_t address) {
  (void)address;
  __asm__ volatile("stbar" ::: "memory");
}

/* A store to where an address would be probed forgets its translation: here all of them (H.5.1). */
enum { FLUSH_ALL = 0x400 };
static inline void pages_forget_all(void) {
  __asm__ volatile("sta %%g0, [%0] 0x18" ::"r"(FLUSH_ALL) : "memory");
}
static inline void pages_forget(uintptr_t address) {
  (void)address;
  pages_forget_all();
}

/* ---- the program -------------------------------------------------------------------------------------------------- */

static inline void core_begin(registers *core, uintptr_t entry, uintptr_t stack) {
  enum { WINDOW_AND_ARGUMENTS = 96 };
  *core = (registers){.npc = entry + 4};
  core->r[PROGRAM_COUNTER] = entry;
  core->r[STACK_POINTER] = stack - WINDOW_AND_ARGUMENTS;
}
/* It is a register of the program. */
static inline void core_set_thread(uintptr_t pointer) {
  (void)pointer;
}

void bare_fpu_keep(uint32_t words[33]);
void bare_fpu_load(const uint32_t words[33]);
static inline void core_forget_fpu(void) {
  static const uint32_t at_rest[34] __attribute__((aligned(8)));
  bare_fpu_load(at_rest);
}
void bare_trap(registers *core, uint32_t kind);
_Noreturn void bare_lose(uint32_t instruction, uint32_t kind);

/* No program takes the vectors over here. */
static inline bool core_is_taken(void) {
  return false;
}
static inline void core_leave(void) {}
static inline void core_forget(void) {}

/* ---- signals ------------------------------------------------------------------------------------------------------- */

struct action {
  uint32_t handler, flags, restorer, mask[2];
};
/* As musl's port to the OpenRISC has it; %g0's place has the next program counter. Behind it, what only the way back
 * needs. */
struct context {
  uint32_t flags, link;
  stack_t stack;
  uint32_t r[32], pc, psr, oldmask, mask[32];
  uint32_t y, fpu[34] __attribute__((aligned(8)));
};
struct frame {
  uint32_t window_and_arguments[24];
  siginfo_t info;
  struct context context;
};
enum { FRAME_ALIGNMENT = 8, SA_RESTORER = 0x04000000 /* musl's; Linux's general headers have none */ };

#endif
