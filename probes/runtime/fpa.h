/* SPDX-License-Identifier: Apache-2.0
 *
 * The old ARM ABI's floating point: instructions of an accelerator (FPA) that hardly any ARM core had. Each one is
 * undefined, traps, and is decoded and emulated by whoever catches it: on Linux of those days the kernel, here this
 * file, called from a SIGILL handler or from an undefined-instruction vector. It is compiled for a core without an FPU,
 * so that its own arithmetic is calls to the soft-float library, as the kernel's was.
 *
 * Encodings: ARM 7500FE data sheet (ARM DDI 0077B), chapter 10. Covered are the instructions that compilers emitted for
 * single and double precision: LDF STF, ADF MUF SUF RSF DVF RDF, MVF MNF ABS, FLT FIX, CMF CNF. What is not covered is
 * refused, and the program dies of its trap as it should.
 *
 * A double in memory is mixed-endian: the word with sign and exponent comes first, each word in the byte order of the
 * machine. Porters called that their biggest grief.
 */
#ifndef TOLL_FPA_H
#define TOLL_FPA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The accelerator's registers. It held extended precision; what compilers used was single and double, and each
 * result is rounded to what its instruction asks for. */
struct fpa_registers {
  double f[8];
};
/* The core's registers as the trap left them; r[15] is the address of the trapped instruction. */
struct fpa_core {
  uint32_t r[16], cpsr;
};

/* Who emulates with more rights than the program has says where the program's addresses end. */
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

/* In single precision the arithmetic itself is single, as an emulator of the time would do it. */
#define FPA_COMPUTE(name, Real)                                      \
  static inline bool name(unsigned code, Real a, Real b, Real *to) { \
    switch (code) {                                                  \
      case 0x00: *to = a + b; return true;                           \
      case 0x01: *to = a * b; return true;                           \
      case 0x02: *to = a - b; return true;                           \
      case 0x03: *to = b - a; return true;                           \
      case 0x04: *to = a / b; return true;                           \
      case 0x05: *to = b / a; return true;                           \
      case 0x10: *to = b; return true;                               \
      case 0x11: *to = -b; return true;                              \
      case 0x12: *to = b < 0 ? -b : b; return true;                  \
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
  switch (fpa_precision_of(instruction)) {
    case FPA_DOUBLE: return fpa_compute_double(code, first, second, result);
    case FPA_SINGLE:
      if (!fpa_compute_single(code, (float)first, (float)second, &single)) return false;
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

/* Rounds to nearest, or toward zero where the instruction asks for it (bits 6 and 5 both set). */
static inline int32_t fpa_to_integer(double value, unsigned rounding) {
  if (rounding == 3) return (int32_t)value;
  int32_t below = (int32_t)value - (value < 0 && (double)(int32_t)value != value);
  double rest = value - below;
  return below + (rest > 0.5 || (rest == 0.5 && (below & 1)));
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
  if (code == 0x0) {
    *named = fpa_precision_of(instruction) == FPA_SINGLE ? (double)(float)(int32_t)core->r[rd] : (int32_t)core->r[rd];
    return true;
  }
  if (code != 0x1 || rd == 15) return false;
  core->r[rd] = (uint32_t)fpa_to_integer(second, fpa_field(instruction, 5, 2));
  return true;
}

/* ---- the trap ---- */

static inline bool fpa_condition_holds(uint32_t cpsr, unsigned condition) {
  bool n = cpsr >> 31 & 1, z = cpsr >> 30 & 1, c = cpsr >> 29 & 1, v = cpsr >> 28 & 1;
  const bool holds[8] = {z, c, n, v, c && !z, n == v, !z && n == v, true};
  return holds[condition >> 1] != (condition & 1);
}

/* Decodes and emulates the instruction at r[15] and steps over it. False, with nothing changed but perhaps an accelerator
 * register, for what is no FPA instruction of the covered kinds. */
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
