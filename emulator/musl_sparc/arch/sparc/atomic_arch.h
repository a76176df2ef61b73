/* SPDX-License-Identifier: Apache-2.0
 *
 * The LEON3's compare and swap, which a program may use with its own address space alone (0xa).
 */
#define a_cas a_cas
static inline int a_cas(volatile int *p, int t, int s) {
  __asm__ __volatile__("casa [%1] 0xa, %2, %0" : "+r"(s) : "r"(p), "r"(t) : "memory");
  return s;
}
