/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's calls (probes/runtime/bare): number in %g1, result or negative errno in %o0. All other registers but
 * the flags keep their value.
 */
#define __SYSCALL_LL_E(x) \
  ((union {               \
    long long ll;         \
    long l[2];            \
  }){.ll = x})            \
      .l[0],              \
      ((union {           \
        long long ll;     \
        long l[2];        \
      }){.ll = x})        \
          .l[1]
#define __SYSCALL_LL_O(x) __SYSCALL_LL_E((x))

static inline long __syscall6(long n, long a, long b, long c, long d, long e, long f) {
  register long g1 __asm__("g1") = n, o0 __asm__("o0") = a, o1 __asm__("o1") = b, o2 __asm__("o2") = c;
  register long o3 __asm__("o3") = d, o4 __asm__("o4") = e, o5 __asm__("o5") = f;
  __asm__ __volatile__("ta 0x10" : "+r"(o0) : "r"(g1), "r"(o1), "r"(o2), "r"(o3), "r"(o4), "r"(o5) : "memory", "cc");
  return o0;
}
static inline long __syscall0(long n) {
  return __syscall6(n, 0, 0, 0, 0, 0, 0);
}
static inline long __syscall1(long n, long a) {
  return __syscall6(n, a, 0, 0, 0, 0, 0);
}
static inline long __syscall2(long n, long a, long b) {
  return __syscall6(n, a, b, 0, 0, 0, 0);
}
static inline long __syscall3(long n, long a, long b, long c) {
  return __syscall6(n, a, b, c, 0, 0, 0);
}
static inline long __syscall4(long n, long a, long b, long c, long d) {
  return __syscall6(n, a, b, c, d, 0, 0);
}
static inline long __syscall5(long n, long a, long b, long c, long d, long e) {
  return __syscall6(n, a, b, c, d, e, 0);
}

#define IPC_64 0
