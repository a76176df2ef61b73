/* SPDX-License-Identifier: Apache-2.0
 *
 * What 64-bit CPUs have in common. Linux gives all of them the same calls, and nearly the same frame of a signal.
 */
#ifndef TOLL_BARE_COMMON_H
#define TOLL_BARE_COMMON_H

#include <asm/sigcontext.h>
#include <linux/signal.h>

#include "places.h"

typedef uint64_t page_entry;

static inline bool page_is_real(page_entry entry) {
  return entry & 1;
}

struct context { /* struct ucontext */
  uintptr_t flags, link;
  stack_t stack;
  uint64_t mask;
  uint8_t unused[1024 / 8 - sizeof(uint64_t)];
  struct sigcontext core;
};
struct frame { /* struct rt_sigframe */
  siginfo_t info;
  struct context context;
};
enum { FRAME_ALIGNMENT = 16 };

#define OFFSET_OF_PREAD(core) ARGUMENT(core, 3)
#define CALLS_OF_64_BITS                                                                                 \
  [__NR_lseek] = call_lseek, [__NR_mmap] = call_mmap, [__NR_getuid] = nothing, [__NR_geteuid] = nothing, \
  [__NR_getgid] = nothing, [__NR_getegid] = nothing, [__NR_getrlimit] = call_getrlimit,                  \
  [__NR_prlimit64] = call_prlimit64

/* No program takes the vectors over here. */
static inline bool core_is_taken(void) {
  return false;
}
static inline void core_leave(void) {}
static inline void core_forget(void) {}

/* What start.S calls after an exception of the supervisor itself. */
_Noreturn void bare_lose(uintptr_t instruction, uintptr_t address);

#endif
