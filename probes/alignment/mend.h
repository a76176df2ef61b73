/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the kernel is to mend a program's misaligned accesses in silence. Where nothing is asked of it, it does what it
 * does.
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
