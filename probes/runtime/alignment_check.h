/* SPDX-License-Identifier: Apache-2.0
 *
 * x86's alignment-check flag (EFLAGS.AC): the CPU refuses misaligned accesses of this program, the C library's and the
 * handler's too, so it is set around loops whose own accesses are aligned or are meant to trap.
 */
#ifndef TOLL_ALIGNMENT_CHECK_H
#define TOLL_ALIGNMENT_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#define TOLL_ALIGNMENT_CHECK 1
#ifdef __x86_64__
#define TOLL_FLAGS_READ  __builtin_ia32_readeflags_u64
#define TOLL_FLAGS_WRITE __builtin_ia32_writeeflags_u64
#else
#define TOLL_FLAGS_READ  __builtin_ia32_readeflags_u32
#define TOLL_FLAGS_WRITE __builtin_ia32_writeeflags_u32
#endif

/* No access of before or after is moved to where the flag is set: i386 aligns 64-bit numbers to four bytes, and SSE2
 * loads them at once. */
static inline void toll_check_alignment(bool on) {
  enum { AC = 1 << 18 };
  __asm__ volatile("" ::: "memory");
  TOLL_FLAGS_WRITE(on ? TOLL_FLAGS_READ() | AC : TOLL_FLAGS_READ() & ~(uintptr_t)AC);
  __asm__ volatile("" ::: "memory");
}
#endif

#endif
