/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets whether the kernel emulates a program's misaligned accesses silently. Without a request the kernel's default
 * applies.
 */
#ifndef TOLL_ALIGNMENT_MEND_H
#define TOLL_ALIGNMENT_MEND_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Trap 6 is "fix alignment" in the processor's supplement of the System V ABI; it cannot be taken back. */
static inline void align_mend(bool is_to) {
#ifdef SYS_sysmips
  enum { MIPS_FIXADE = 7 };
  syscall(SYS_sysmips, MIPS_FIXADE, is_to);
#elif defined(__sparc__) && !defined(__arch64__)
  if (is_to) __asm__ volatile("ta 6" ::: "memory");
#else
  (void)is_to;
#endif
}

#endif
