/* SPDX-License-Identifier: Apache-2.0
 *
 * Emulates the floating-point instructions of the old ARM ABI: those of an accelerator (FPA) that hardly any ARM core
 * had. Each one raises an undefined-instruction exception. In Linux of that time the kernel emulated it; here this file
 * does, called from a SIGILL handler or from an undefined-instruction vector. It is compiled for a core without an FPU,
 * so that its own arithmetic calls the soft-float library, as the kernel's did.
 *
 * Encodings: ARM 7500FE data sheet (ARM DDI 0077B), chapter 10. Covers the instructions that compilers emitted for
 * single and double precision: LDF STF, ADF MUF SUF RSF DVF RDF RMF, in single precision FML FDV FRD, MVF MNF ABS SQT,
 * FLT FIX, CMF CNF. All round to nearest, except FIX, which rounds as its instruction says, since C truncates. All
 * other instructions are refused, and the program ends by its trap: extended and packed precision with LFM and SFM,
 * which compilers used to save registers; other rounding modes; RND, POW, LOG, SIN and similar ones; the status and
 * control registers.
 *
 * A double in memory is mixed-endian: the word with sign and exponent comes first, each word in the byte order of the
 * machine. This was a main source of porting errors.
 */
#ifndef TOLL_FPA_H
#define TOLL_FPA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The accelerator's registers. The hardware held extended precision. Compilers used single and double only, and each
 * result is rounded to the precision of its instruction. */
struct fpa_registers {
  double f[8];
};
/* The core's registers as the trap left them; r[15] is the address of the trapped instruction. */
struct fpa_core {
  uint32_t r[16], cpsr;
};

/* An emulator with more privileges than the program defines the end of the program's addresses. */
#ifndef FPA_MEMORY_END
#define FPA_MEMORY_END UINTPTR_MAX
#endif

enum fpa_precision { FPA_SINGLE, FPA_DOUBLE, FPA_UNKNOWN };

static inline unsigned fpa_field(uint32_t instruction, unsigned low, unsigned bits) {
  return instruction >> low & ((1u << bits) - 1);
}

/* ---- memory ---- */

static inline double fpa_load(const uint32_t *words, enum fpa_precision precision) {
  float single;
  double value;
  if (precision == FPA_SINGLE) {
    memcpy(&single, words, sizeof single);
    return single;
  }
  uint64_t bits = (uint64_t)words[0] << 32 | words[1];
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline void fpa_store(uint32_t *words, enum fpa_precision precision, double value) {
  float single = (float)value;
  uint64_t bits;
  if (precision == FPA_SINGLE) {
    memcpy(words, &single, sizeof single);
    return;
  }
  memcpy(&bits, &value, sizeof bits);
  words[0] = (uint32_t)(bits >> 32);
  words[1] = (uint32_t)bits;
}

/* LDF, STF: cond 110P UXWL Rn YFd 0001 offset. The offset counts words; P indexes before, W writes back. */
static inline bool fpa_transfer(struct fpa_registers *fpa, struct fpa_core *core, uint32_t instruction) {
  static const enum fpa_precision precisions[4] = {FPA_SINGLE, FPA_DOUBLE, FPA_UNKNOWN, FPA_UNKNOWN};
  enum fpa_precision precision = precisions[fpa_field(instruction, 22, 1) << 1 | fpa_field(instruction, 15, 1)];
  unsigned base = fpa_field(instruction, 16, 4), offset = fpa_field(instruction, 0, 8) * 4;
  bool before = fpa_field(instruction, 24, 1), up = fpa_field(instruction, 23, 1);
  uint32_t start = core->r[base] + (base == 15 ? 8 : 0), moved = up ? start + offset : start - offset;
  uint32_t *words = (uint32_t *)(uintptr_t)(before ? moved : start);
  double *held = &fpa->f[fpa_field(instruction, 12, 3)];
  if (precision == FPA_UNKNOWN || (uintptr_t)words > FPA_MEMORY_END - sizeof(double)) return false;
  if (fpa_field(instruction, 20, 1))
    *held = fpa_load(words, precision);
  else
    fpa_store(words, precision, *held);
  if (!before || fpa_field(instruction, 21, 1)) core->r[base] = moved;
  return true;
}

/* ---- arithmetic ---- */

/* Bit 3 turns the second operand's register number into one of eight constants. */
static inline double fpa_second(const struct fpa_registers *fpa, uint32_t instruction) {
  static const double constants[8] = {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.5, 10.0};
  unsigned number = fpa_field(instruction, 0, 3);
  return fpa_field(instruction, 3, 1) ? constants[number] : fpa->f[number];
}

static inline enum fpa_precision fpa_precision_of(uint32_t instruction) {
  if (fpa_field(instruction, 19, 1)) return FPA_UNKNOWN;
  return fpa_field(instruction, 7, 1) ? FPA_DOUBLE : FPA_SINGLE;
}

static inline unsigned fpa_rounding_of(uint32_t instruction) {
  return fpa_field(instruction, 5, 2);
}

/* RMF: the IEEE 754 remainder of a and b; ties go to the even quotient. Each step is exact. Neither this function nor
 * the square root is inlined, since the registers that they need would then be saved at every instruction. */
__attribute__((noinline, unused)) static double fpa_remainder(double a, double b) {
  const double divisor = __builtin_fabs(b);
  double rest = __builtin_fabs(a), multiple = divisor;
  bool odd = false;
  if (!(rest < __builtin_inf()) || !(divisor > 0)) return __builtin_nan("");
  if (divisor == __builtin_inf()) return a;
  while (multiple <= rest / 2) multiple *= 2;
  for (; multiple >= divisor; multiple /= 2) {
    odd = rest >= multiple;
    if (odd) rest -= multiple;
  }
  if (rest > divisor - rest || (rest == divisor - rest && odd)) rest -= divisor;
  return __builtin_signbit(a) ? -rest : rest;
}

/* The integer square root of a 54-bit number times 2^27, truncated: one bit of the root for each two bits of the
 * number. */
static inline uint64_t fpa_root_bits(uint64_t number) {
  uint64_t root = 0, rest = 0;
  for (int pair = 26; pair >= -27; pair--) {
    rest = rest << 2 | (pair >= 0 ? number >> 2 * pair & 3 : 0);
    root <<= 1;
    if (rest > 2 * root) {
      rest -= 2 * root + 1;
      root |= 1;
    }
  }
  return root;
}

/* SQT without libm, which a supervisor does not have. The root has one bit more than a double. No root lies exactly
 * between two doubles, so this bit alone decides the rounding. */
__attribute__((noinline, unused)) static double fpa_root(double value) {
  double scale = 0x1p-26;
  if (value < 0) return __builtin_nan("");
  if (!(value > 0) || value == __builtin_inf()) return value;
  for (; value < 0x1p52; value *= 4) scale /= 2;
  for (; value >= 0x1p54; value /= 4) scale *= 2;
  return (double)((fpa_root_bits((uint64_t)value) + 1) >> 1) * scale;
}

/* FML, FDV and FRD are MUF, DVF and RDF with single precision. Only real hardware executes them faster. */
static inline unsigned fpa_not_fast(unsigned code) {
  return code == 0x09 ? 0x01 : code == 0x0a ? 0x04 : code == 0x0b ? 0x05 : code;
}

/* Single-precision instructions use single-precision arithmetic, as emulators of that time did. */
#define FPA_COMPUTE(name, Real)                                      \
  static inline bool name(unsigned code, Real a, Real b, Real *to) { \
    switch (code) {                                                  \
      case 0x00: *to = a + b; return true;                           \
      case 0x01: *to = a * b; return true;                           \
      case 0x02: *to = a - b; return true;                           \
      case 0x03: *to = b - a; return true;                           \
      case 0x04: *to = a / b; return true;                           \
      case 0x05: *to = b / a; return true;                           \
      case 0x08: *to = (Real)fpa_remainder(a, b); return true;       \
      case 0x10: *to = b; return true;                               \
      case 0x11: *to = -b; return true;                              \
      case 0x12: *to = (Real)__builtin_fabs(b); return true;         \
      case 0x14: *to = (Real)fpa_root(b); return true;               \
      default: return false;                                         \
    }                                                                \
  }
FPA_COMPUTE(fpa_compute_single, float)
FPA_COMPUTE(fpa_compute_double, double)

/* cond 1110 abcd eFn jFd 0001 fgh0 iFm: abcd the operation, j one operand or two, ef the precision. */
static inline bool fpa_operate(struct fpa_registers *fpa, uint32_t instruction) {
  unsigned code = fpa_field(instruction, 20, 4) | fpa_field(instruction, 15, 1) << 4;
  double first = fpa->f[fpa_field(instruction, 16, 3)], second = fpa_second(fpa, instruction);
  double *result = &fpa->f[fpa_field(instruction, 12, 3)];
  float single;
  if (fpa_rounding_of(instruction)) return false;
  switch (fpa_precision_of(instruction)) {
    case FPA_DOUBLE: return fpa_compute_double(code, first, second, result);
    case FPA_SINGLE:
      if (!fpa_compute_single(fpa_not_fast(code), (float)first, (float)second, &single)) return false;
      *result = single;
      return true;
    default: return false;
  }
}

/* ---- to and from the core's registers ---- */

/* N less, Z equal, C greater or equal, V unordered. */
static inline void fpa_compare(struct fpa_core *core, double a, double b) {
  uint32_t flags = a < b ? 8u : a == b ? 6u : a > b ? 2u : 1u;
  core->cpsr = (core->cpsr & 0x0fffffffu) | flags << 28;
}

/* Rounds to nearest, up, down or toward zero. A value out of range becomes the largest integer of its sign, and NaN the
 * largest integer, as in Linux's emulator. */
static inline int32_t fpa_to_integer(double value, unsigned rounding) {
  if (!(value < 0x1p31)) return INT32_MAX;
  if (value < -0x1p31 - 1) return INT32_MIN;
  int64_t whole = (int64_t)value; /* truncated; the remainder has the sign of the value and is exact */
  const double rest = value - (double)whole;
  if (rounding == 0 && (rest > 0.5 || (rest == 0.5 && whole & 1))) whole++;
  if (rounding == 0 && (rest < -0.5 || (rest == -0.5 && whole & 1))) whole--;
  if (rounding == 1 && rest > 0) whole++;
  if (rounding == 2 && rest < 0) whole--;
  return whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : (int32_t)whole;
}

/* FLT: in single precision an integer of more than 24 bits is rounded. */
static inline bool fpa_from_integer(double *to, int32_t value, uint32_t instruction) {
  const enum fpa_precision precision = fpa_precision_of(instruction);
  if (precision == FPA_UNKNOWN || fpa_rounding_of(instruction)) return false;
  *to = precision == FPA_SINGLE ? (double)(float)value : value;
  return true;
}

/* cond 1110 abcL eFn Rd 0001 fgh1 iFm: FLT, FIX, and with Rd 15 the comparisons CMF and CNF. */
static inline bool fpa_register_transfer(struct fpa_registers *fpa, struct fpa_core *core, uint32_t instruction) {
  unsigned code = fpa_field(instruction, 20, 4), rd = fpa_field(instruction, 12, 4);
  double *named = &fpa->f[fpa_field(instruction, 16, 3)], second = fpa_second(fpa, instruction);
  if (rd == 15 && (code == 0x9 || code == 0xd)) {
    fpa_compare(core, *named, second);
    return true;
  }
  if (rd == 15 && (code == 0xb || code == 0xf)) {
    fpa_compare(core, *named, -second);
    return true;
  }
  if (rd == 15) return false;
  if (code == 0x0) return fpa_from_integer(named, (int32_t)core->r[rd], instruction);
  if (code != 0x1) return false;
  core->r[rd] = (uint32_t)fpa_to_integer(second, fpa_rounding_of(instruction));
  return true;
}

/* ---- the trap ---- */

static inline bool fpa_condition_holds(uint32_t cpsr, unsigned condition) {
  bool n = cpsr >> 31 & 1, z = cpsr >> 30 & 1, c = cpsr >> 29 & 1, v = cpsr >> 28 & 1;
  const bool holds[8] = {z, c, n, v, c && !z, n == v, !z && n == v, true};
  return holds[condition >> 1] != (condition & 1);
}

/* Decodes and emulates the instruction at r[15], and advances r[15]. False if it is not a covered FPA instruction; then
 * nothing has changed except possibly an accelerator register. */
static inline bool fpa_emulate(struct fpa_registers *fpa, struct fpa_core *core) {
  uint32_t instruction = *(const uint32_t *)(uintptr_t)core->r[15];
  unsigned condition = fpa_field(instruction, 28, 4);
  bool done = true;
  if (fpa_field(instruction, 8, 4) != 1 || condition == 15) return false; /* coprocessor 1 */
  if (condition == 14 || fpa_condition_holds(core->cpsr, condition)) {
    if (fpa_field(instruction, 25, 3) == 6)
      done = fpa_transfer(fpa, core, instruction);
    else if (fpa_field(instruction, 24, 4) != 14)
      done = false;
    else if (fpa_field(instruction, 4, 1))
      done = fpa_register_transfer(fpa, core, instruction);
    else
      done = fpa_operate(fpa, instruction);
  }
  if (done) core->r[15] += 4;
  return done;
}

#endif
