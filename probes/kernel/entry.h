/* SPDX-License-Identifier: Apache-2.0
 *
 * The ordinary way into the kernel: the gate that each ABI's C library takes, nearly always one instruction.
 *
 * It stands in a function of its own, as in a C library, and not in the loop that calls it. Where a kernel leaves through
 * return thunks (Linux's answer to speculative return stack overflow on AMD), the core's stack of return addresses holds
 * the kernel's own afterwards, and the program's first return after a call is mistaken: 47 of 163 ns on Zen 4, and 5 for
 * each further return. Every program returns from what it called the kernel in. In the loop itself the same call took 115
 * or 171 ns, by where a linker had put code that is not in the loop (docs/decisions/0028).
 *
 * The C library's syscall() would do as much and then translate the answer into errno.
 *
 * A 32-bit program on x86 does not know the fastest door of its CPU (sysenter or syscall). The kernel does, and hands it
 * code that goes through it, in the vDSO; C libraries call that, and fall back to the interrupt where there is none, as
 * under an emulator. The interrupt itself has its row in enter_gate.
 *
 * POWER9 has a second instruction, scv, which leaves fewer registers to be kept by the kernel. glibc takes it where the
 * kernel offers it (2.33); the older sc has its row in enter_gate.
 */
#ifndef TOLL_KERNEL_ENTRY_H
#define TOLL_KERNEL_ENTRY_H

#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"

#if defined(__i386__)
static uintptr_t kernel_gate;

__attribute__((naked)) static void kernel_interrupt(void) {
  __asm__("int $0x80\n\tret");
}

/* Runs before the first visit, like a C library's initialisation before main, so that the loop contains only the
 * call. */
__attribute__((constructor)) static void kernel_find_gate(void) {
  const uintptr_t offered = (uintptr_t)getauxval(AT_SYSINFO);
  kernel_gate = offered ? offered : (uintptr_t)kernel_interrupt;
}
#endif

/* Added to a probe's revision where the ordinary gate has become another one: scv on POWER. */
#if defined(__powerpc64__)
enum { KERNEL_GATE_REVISION = 1 };
#else
enum { KERNEL_GATE_REVISION = 0 };
#endif

#if defined(__powerpc64__)
enum { KERNEL_OFFERS_SCV = 0x00100000 }; /* PPC_FEATURE2_SCV of AT_HWCAP2 */
static bool kernel_has_scv;

__attribute__((constructor)) static void kernel_find_scv(void) {
  kernel_has_scv = getauxval(AT_HWCAP2) & KERNEL_OFFERS_SCV;
}

/* It answers with a negative errno, as most kernels do, where sc sets a bit of the condition register. */
TOLL_NOINLINE static long kernel_enter_by_scv(long number, long first, long second) {
  register long r0 __asm__("r0") = number;
  register long r3 __asm__("r3") = first;
  register long r4 __asm__("r4") = second;
  __asm__ volatile(".machine push\n\t.machine power9\n\tscv 0\n\t.machine pop"
                   : "+r"(r0), "+r"(r3), "+r"(r4)
                   :
                   : "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "cr1", "cr5", "cr6", "cr7", "lr", "ctr",
                     "xer", "memory");
  return r3;
}
#endif

#if defined(__powerpc__)
TOLL_NOINLINE static long kernel_enter_by_sc(long number, long first, long second) {
  register long r0 __asm__("r0") = number;
  register long r3 __asm__("r3") = first;
  register long r4 __asm__("r4") = second;
  __asm__ volatile("sc\n\tbns+ 1f\n\tneg 3, 3\n1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4)
                   :
                   : "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
  return r3;
}
#endif

#ifdef __loongarch__
#define NOT_KEPT \
  "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8" /* registers that the kernel does not keep */
#endif

/* Enters the kernel once with two operands. Returns the result, a negative errno on error. */
TOLL_NOINLINE static long kernel_enter(long number, long first, long second) {
#if defined(__x86_64__)
  long answer;
  __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(first), "S"(second) : "rcx", "r11", "memory");
  return answer;
#elif defined(__i386__)
  long answer;
  __asm__ volatile("call *%1" : "=a"(answer) : "m"(kernel_gate), "a"(number), "b"(first), "c"(second) : "memory", "cc");
  return answer;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = first;
  register long x1 __asm__("x1") = second;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory", "cc");
  return x0;
#elif defined(__arm__)
  register long r7 __asm__("r7") = number;
  register long r0 __asm__("r0") = first;
  register long r1 __asm__("r1") = second;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1) : "memory", "cc");
  return r0;
#elif defined(__riscv)
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = first;
  register long a1 __asm__("a1") = second;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1) : "memory");
  return a0;
#elif defined(__loongarch__)
  register long a7 __asm__("$a7") = number;
  register long a0 __asm__("$a0") = first;
  register long a1 __asm__("$a1") = second;
  __asm__ volatile("syscall 0" : "+r"(a0) : "r"(a7), "r"(a1) : NOT_KEPT, "memory");
  return a0;
#elif defined(__powerpc64__)
  return kernel_has_scv ? kernel_enter_by_scv(number, first, second) : kernel_enter_by_sc(number, first, second);
#elif defined(__powerpc__)
  return kernel_enter_by_sc(number, first, second);
#elif defined(__s390x__)
  register long r1 __asm__("r1") = number;
  register long r2 __asm__("r2") = first;
  register long r3 __asm__("r3") = second;
  __asm__ volatile("svc 0" : "+r"(r2) : "r"(r1), "r"(r3) : "memory", "cc");
  return r2;
#elif defined(__mips__)
  register long v0 __asm__("$2") = number;
  register long a0 __asm__("$4") = first;
  register long a1 __asm__("$5") = second;
  register long refused __asm__("$7") = 0;
  __asm__ volatile("syscall"
                   : "+r"(v0), "+r"(refused)
                   : "r"(a0), "r"(a1)
                   : "$1", "$3", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25", "hi", "lo",
                     "memory");
  return refused ? -v0 : v0;
#elif defined(__sparc__) && defined(__arch64__)
  register long g1 __asm__("g1") = number;
  register long o0 __asm__("o0") = first;
  register long o1 __asm__("o1") = second;
  __asm__ volatile("t 0x6d\n\tbcs,a,pt %%xcc, 1f\n\tsub %%g0, %0, %0\n1:"
                   : "+r"(o0)
                   : "r"(g1), "r"(o1)
                   : "memory", "cc");
  return o0;
#else
  long answer = syscall(number, first, second);
  return answer == -1 ? -errno : answer;
#endif
}

#endif
