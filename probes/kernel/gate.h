/* SPDX-License-Identifier: Apache-2.0
 *
 * The second ways into the kernel of CPUs that have more than one. Each enters once for getppid, from a function of its
 * own as the ordinary gate (entry.h).
 */
#ifndef TOLL_KERNEL_GATE_H
#define TOLL_KERNEL_GATE_H

#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "toll.h"

#if defined(__x86_64__) || defined(__i386__)
#define GATE_INT80 1
/* Numbered as a 32-bit program would, whatever executes it. */
TOLL_NOINLINE static long gate_int80(void) {
  enum { GETPPID_OF_I386 = 64 };
  long answer = GETPPID_OF_I386;
#if defined(__x86_64__)
  __asm__ volatile("int $0x80" : "+a"(answer) : : "r8", "r9", "r10", "r11", "memory");
#else
  __asm__ volatile("int $0x80" : "+a"(answer) : : "memory");
#endif
  return answer;
}
#else
#define GATE_INT80 0
TOLL_NOINLINE static long gate_int80(void) {
  return -ENOSYS;
}
#endif

/* The address of the kernel's code in the program's address space that uses this CPU's fastest entry; 0 if there is
 * none. */
static inline uintptr_t gate_of_vdso(void) {
#if defined(__i386__)
  return (uintptr_t)getauxval(AT_SYSINFO);
#else
  return 0;
#endif
}

TOLL_NOINLINE static long gate_vdso(uintptr_t gate) {
  long answer = -ENOSYS;
#if defined(__i386__)
  answer = 64;
  __asm__ volatile("call *%1" : "+a"(answer) : "r"(gate) : "memory", "cc");
#else
  (void)gate;
#endif
  return answer;
}

#endif
