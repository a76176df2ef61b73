/* SPDX-License-Identifier: Apache-2.0
 *
 * One source of a kernel, three ways to do its floating point:
 *
 *   hardware   the compiler's own operators, on an ABI whose compiler emits instructions of an FPU
 *   emulated   every operation is a call to the ABI's soft-float library
 *   trapped    every operation is an undefined instruction, which the kernel turns into SIGILL and a handler decodes,
 *              emulates with that library, and steps over: what a program pays whose FPU is not there
 *
 * A kernel is a template over its number type. The operands of a trapped operation travel in integer registers and the
 * operation in the byte (or immediate) of the undefined instruction, as a real coprocessor instruction carries both.
 * Built with TOLL_FPA, the trapped way is what it was on the old ARM ABI: kernels in assembly (NAME.arm.S) whose every
 * load, store and operation is an instruction of the accelerator that is not there, decoded by fpa.h: in a handler as above,
 * or where there is no Linux by the supervisor (runtime/bare), which has the trap first. The handler then waits in vain.
 */
#ifndef TOLL_FLOAT_WAYS_H
#define TOLL_FLOAT_WAYS_H

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "toll.h"
#ifdef TOLL_FPA
#include "fpa.h"
#endif

enum way { WAY_HARDWARE, WAY_EMULATED, WAY_TRAPPED };
static const char *const way_names[] = {"hardware", "emulated", "trapped", NULL};

/* ---- what this ABI has ---- */

/* The compiler's operators are calls here: no FPU instruction is ever emitted. */
#if defined(__SOFTFP__) || defined(__mips_soft_float) || defined(_SOFT_FLOAT) || defined(__riscv_float_abi_soft)
#define WAYS_COMPILER_CALLS 1
#else
#define WAYS_COMPILER_CALLS 0
#endif

/* A library of soft-float routines, under the names of its ABI. On 32-bit ARM it is part of libgcc whatever the float ABI,
 * and always called by the base convention (RTABI 4.1.2). Elsewhere with an FPU the build must say that it links one. */
#if defined(__arm__) && defined(__ARM_EABI__)
#define WAYS_LIBRARY                1
#define WAYS_CALL                   __attribute__((pcs("aapcs")))
#define WAYS_NAME(operation, width) __aeabi_##width##operation
#elif defined(TOLL_SOFT_FLOAT) || WAYS_COMPILER_CALLS
#define WAYS_LIBRARY 1
#define WAYS_CALL
#define WAYS_NAME(operation, width) WAYS_GNU_##width(operation)
#define WAYS_GNU_d(operation)       __##operation##df3
#define WAYS_GNU_f(operation)       __##operation##sf3
#else
#define WAYS_LIBRARY 0
#endif

#if WAYS_LIBRARY && !defined(TOLL_FPA) && (defined(__x86_64__) || defined(__i386__) || defined(__arm__))
#define WAYS_TRAP 1
#else
#define WAYS_TRAP 0
#endif

/* The way that a program compiled for this ABI uses by default. */
#if defined(TOLL_FPA)
#define WAYS_OWN "trapped"
#elif WAYS_COMPILER_CALLS
#define WAYS_OWN "emulated"
#else
#define WAYS_OWN "hardware"
#endif

#if WAYS_LIBRARY
extern "C" {
double WAYS_CALL WAYS_NAME(add, d)(double, double);
double WAYS_CALL WAYS_NAME(sub, d)(double, double);
double WAYS_CALL WAYS_NAME(mul, d)(double, double);
double WAYS_CALL WAYS_NAME(div, d)(double, double);
float WAYS_CALL WAYS_NAME(add, f)(float, float);
float WAYS_CALL WAYS_NAME(sub, f)(float, float);
float WAYS_CALL WAYS_NAME(mul, f)(float, float);
float WAYS_CALL WAYS_NAME(div, f)(float, float);
}

namespace library {
inline double add(double a, double b) {
  return WAYS_NAME(add, d)(a, b);
}
inline double sub(double a, double b) {
  return WAYS_NAME(sub, d)(a, b);
}
inline double mul(double a, double b) {
  return WAYS_NAME(mul, d)(a, b);
}
inline double div(double a, double b) {
  return WAYS_NAME(div, d)(a, b);
}
inline float add(float a, float b) {
  return WAYS_NAME(add, f)(a, b);
}
inline float sub(float a, float b) {
  return WAYS_NAME(sub, f)(a, b);
}
inline float mul(float a, float b) {
  return WAYS_NAME(mul, f)(a, b);
}
inline float div(float a, float b) {
  return WAYS_NAME(div, f)(a, b);
}
}  // namespace library

/* ---- emulated ---- */

template <class Real>
struct emulated {
  Real value;
};
template <class Real>
inline emulated<Real> operator+(emulated<Real> a, emulated<Real> b) {
  return {library::add(a.value, b.value)};
}
template <class Real>
inline emulated<Real> operator-(emulated<Real> a, emulated<Real> b) {
  return {library::sub(a.value, b.value)};
}
template <class Real>
inline emulated<Real> operator*(emulated<Real> a, emulated<Real> b) {
  return {library::mul(a.value, b.value)};
}
template <class Real>
inline emulated<Real> operator/(emulated<Real> a, emulated<Real> b) {
  return {library::div(a.value, b.value)};
}
#endif

/* ---- trapped ---- */

#if WAYS_TRAP
/* The operation's number in the instruction: bit 2 distinguishes double from float. */
enum { TRAP_ADD = 0, TRAP_SUB = 1, TRAP_MUL = 2, TRAP_DIV = 3, TRAP_DOUBLE = 4 };

namespace trap {
template <class Real>
inline Real result(unsigned code, Real a, Real b) {
  switch (code) {
    case TRAP_ADD: return library::add(a, b);
    case TRAP_SUB: return library::sub(a, b);
    case TRAP_MUL: return library::mul(a, b);
    default: return library::div(a, b);
  }
}

template <class Real, class Bits>
inline Bits emulate(unsigned code, Bits a, Bits b) {
  Real x, y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  x = result(code, x, y);
  memcpy(&a, &x, sizeof a);
  return a;
}

#if defined(__x86_64__)
/* UD2 is two bytes; the operation is the third. The operands are in RAX and RDX. */
template <unsigned Code>
inline uint64_t execute(uint64_t a, uint64_t b) {
  __asm__ volatile("ud2\n\t.byte %c2" : "+a"(a) : "d"(b), "i"(Code));
  return a;
}
inline void on_undefined(int, siginfo_t *, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  unsigned code = ((const unsigned char *)registers[REG_RIP])[2];
  uint64_t a = (uint64_t)registers[REG_RAX], b = (uint64_t)registers[REG_RDX];
  registers[REG_RAX] = (greg_t)(code & TRAP_DOUBLE ? emulate<double>(code & 3, a, b)
                                                   : emulate<float>(code & 3, (uint32_t)a, (uint32_t)b));
  registers[REG_RIP] += 3;
}
#elif defined(__i386__)
/* As above; the operands are in EDX:EAX and ECX:ESI, the upper halves unused by single precision. */
template <unsigned Code>
inline uint64_t execute(uint64_t a, uint64_t b) {
  uint32_t low = (uint32_t)b, high = (uint32_t)(b >> 32);
  __asm__ volatile("ud2\n\t.byte %c3" : "+A"(a) : "S"(low), "c"(high), "i"(Code));
  return a;
}
inline void on_undefined(int, siginfo_t *, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  unsigned code = ((const unsigned char *)registers[REG_EIP])[2];
  uint64_t a = (uint64_t)(uint32_t)registers[REG_EDX] << 32 | (uint32_t)registers[REG_EAX];
  uint64_t b = (uint64_t)(uint32_t)registers[REG_ECX] << 32 | (uint32_t)registers[REG_ESI];
  a = code & TRAP_DOUBLE ? emulate<double>(code & 3, a, b) : emulate<float>(code & 3, (uint32_t)a, (uint32_t)b);
  registers[REG_EAX] = (greg_t)(uint32_t)a;
  registers[REG_EDX] = (greg_t)(uint32_t)(a >> 32);
  registers[REG_EIP] += 3;
}
#elif defined(__arm__)
/* UDF (ARM ARM A8.8.247), permanently undefined: four bytes, the operation in the lowest bits of its immediate; not
 * with immediate 0 in Thumb state, which Linux takes for a breakpoint. The
 * operands are in R0:R1 and R2:R3, as the base procedure call passes two doubles. */
#ifdef __thumb__
#define TRAP_UNDEFINED ".inst.w 0xf7f0a010 | %c4"
#else
#define TRAP_UNDEFINED ".inst 0xe7f000f0 | %c4"
#endif
template <unsigned Code>
inline uint64_t execute(uint64_t a, uint64_t b) {
  register uint32_t r0 __asm__("r0") = (uint32_t)a, r1 __asm__("r1") = (uint32_t)(a >> 32);
  register uint32_t r2 __asm__("r2") = (uint32_t)b, r3 __asm__("r3") = (uint32_t)(b >> 32);
  __asm__ volatile(TRAP_UNDEFINED : "+r"(r0), "+r"(r1) : "r"(r2), "r"(r3), "i"(Code));
  return (uint64_t)r1 << 32 | r0;
}
inline void on_undefined(int, siginfo_t *, void *context) {
  mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
  const unsigned long thumb_state = 1ul << 5; /* CPSR.T: the immediate is in the second half-word */
  unsigned code = *(const uint16_t *)(m->arm_pc + (m->arm_cpsr & thumb_state ? 2 : 0)) & 15;
  uint64_t a = (uint64_t)m->arm_r1 << 32 | m->arm_r0, b = (uint64_t)m->arm_r3 << 32 | m->arm_r2;
  a = code & TRAP_DOUBLE ? emulate<double>(code & 3, a, b) : emulate<float>(code & 3, (uint32_t)a, (uint32_t)b);
  m->arm_r0 = (uint32_t)a;
  m->arm_r1 = (uint32_t)(a >> 32);
  m->arm_pc += 4;
}
#endif

template <unsigned Code>
inline double run(double a, double b) {
  uint64_t x, y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  x = execute<Code | TRAP_DOUBLE>(x, y);
  memcpy(&a, &x, sizeof a);
  return a;
}
template <unsigned Code>
inline float run(float a, float b) {
  uint32_t x, y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  x = (uint32_t)execute<Code>(x, y);
  memcpy(&a, &x, sizeof a);
  return a;
}
}  // namespace trap

template <class Real>
struct trapped {
  Real value;
};
template <class Real>
inline trapped<Real> operator+(trapped<Real> a, trapped<Real> b) {
  return {trap::run<TRAP_ADD>(a.value, b.value)};
}
template <class Real>
inline trapped<Real> operator-(trapped<Real> a, trapped<Real> b) {
  return {trap::run<TRAP_SUB>(a.value, b.value)};
}
template <class Real>
inline trapped<Real> operator*(trapped<Real> a, trapped<Real> b) {
  return {trap::run<TRAP_MUL>(a.value, b.value)};
}
template <class Real>
inline trapped<Real> operator/(trapped<Real> a, trapped<Real> b) {
  return {trap::run<TRAP_DIV>(a.value, b.value)};
}
#endif

/* ---- trapped, by the old ABI's own instructions ---- */

#ifdef TOLL_FPA
/* A number as the accelerator keeps it in memory. Only the kernels in assembly compute with it. */
template <class Real>
struct fpa {
  uint32_t words[sizeof(Real) / 4];
};

/* The accelerator's registers are kept between traps, as the kernel kept them for a process. */
inline void on_accelerator(int number, siginfo_t *, void *context) {
  static struct fpa_registers registers;
  mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
  struct fpa_core core;
  memcpy(core.r, &m->arm_r0, sizeof core.r); /* r0 to r15 are adjacent (asm/sigcontext.h) */
  core.cpsr = (uint32_t)m->arm_cpsr;
  if (!fpa_emulate(&registers, &core)) {
    signal(number, SIG_DFL); /* the next attempt ends the program, as an unknown instruction should */
    return;
  }
  memcpy(&m->arm_r0, core.r, sizeof core.r);
  m->arm_cpsr = core.cpsr;
}
#endif

/* ---- the visit's way ---- */

inline enum toll_status ways_catch(struct toll_run *r, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGILL, &action, NULL) == 0) return TOLL_OK;
  return toll_fail(r, "the handler of undefined instructions was refused");
}

inline bool ways_high_word_first(const struct toll_run *r) {
#ifdef TOLL_FPA
  return toll_choice(r, "way") == WAY_TRAPPED;
#else
  (void)r;
  return false;
#endif
}

/* Whether the visit's way exists for this ABI. Installs the handler if it is needed. */
inline enum toll_status ways_prepare(struct toll_run *r) {
  const unsigned way = toll_choice(r, "way");
  if (way == WAY_TRAPPED && toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  if (way == WAY_HARDWARE && WAYS_COMPILER_CALLS)
    return toll_skip(r, "this ABI's compiler emits no floating-point instruction: every operation is emulated");
  if (way == WAY_EMULATED && !WAYS_LIBRARY) return toll_skip(r, "no soft-float library is linked for this ABI");
#if defined(TOLL_FPA)
  if (way == WAY_TRAPPED) return ways_catch(r, on_accelerator);
#elif WAYS_TRAP
  if (way == WAY_TRAPPED) return ways_catch(r, trap::on_undefined);
#else
  if (way == WAY_TRAPPED) return toll_skip(r, "no decoder of trapped floating point was written for this architecture");
#endif
  return TOLL_OK;
}

/* Calls kernel.run<Number>() with the number type of the visit's way and precision. */
template <class Real, class Kernel>
inline void ways_run_as(unsigned way, Kernel &kernel) {
#if defined(TOLL_FPA)
  if (way == WAY_TRAPPED) return kernel.template run<fpa<Real>>();
#elif WAYS_TRAP
  if (way == WAY_TRAPPED) return kernel.template run<trapped<Real>>();
#endif
#if WAYS_LIBRARY && !WAYS_COMPILER_CALLS
  if (way == WAY_EMULATED) return kernel.template run<emulated<Real>>();
#endif
  (void)way;
  kernel.template run<Real>();
}

template <class Kernel>
inline void ways_run(const struct toll_run *r, bool single, Kernel &kernel) {
  if (single)
    ways_run_as<float>(toll_choice(r, "way"), kernel);
  else
    ways_run_as<double>(toll_choice(r, "way"), kernel);
}

#endif
