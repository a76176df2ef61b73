/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels share whose vectors are as long as the CPU has them: SVE (Arm ARM, DDI 0487, part A2) and RVV (The
 * RISC-V Vector Extension 1.0). They are assembly, since the compiler's own types for such vectors need the extension
 * for the whole file, and these executables also run on CPUs without it. Lanes are of 64 bits; a span is whole lines of
 * 64 bytes, and what is left of it after whole turns is done by lanes. The scalable registers are the compiler's only
 * in their low 128 bits (SVE), or not at all (RVV).
 */
#ifndef MEMORY_SCALABLE_H
#define MEMORY_SCALABLE_H

#include "kernels.h"

#if defined(__aarch64__)
#define SVE(code) ".arch_extension sve\n\t" code
#define SVE_CLOBBERED \
  "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23"
/* Eight vectors from or to [base], as z16 to z23. */
#define SVE_8(op, predicate, base)                                                                                     \
  op " {z16.d}, " predicate ", [" base "]\n\t" op " {z17.d}, " predicate ", [" base ", #1, mul vl]\n\t" op             \
     " {z18.d}, " predicate ", [" base ", #2, mul vl]\n\t" op " {z19.d}, " predicate ", [" base ", #3, mul vl]\n\t" op \
     " {z20.d}, " predicate ", [" base ", #4, mul vl]\n\t" op " {z21.d}, " predicate ", [" base ", #5, mul vl]\n\t" op \
     " {z22.d}, " predicate ", [" base ", #6, mul vl]\n\t" op " {z23.d}, " predicate ", [" base ", #7, mul vl]\n\t"

static inline size_t sve_lanes(void) {
  size_t lanes;
  __asm__(SVE("cntd %0") : "=r"(lanes));
  return lanes;
}

/* Turns of eight vectors, and the lanes that are left. */
struct turns {
  uint64_t turns, rest;
};

static inline struct turns sve_turns(size_t bytes) {
  const uint64_t lanes = bytes / 8, of_turn = 8 * sve_lanes();
  return (struct turns){lanes / of_turn, lanes % of_turn};
}
#endif

#if defined(__riscv) && __riscv_xlen == 64
#define RVV(code) ".option push\n\t.option arch, +v\n\t" code "\n\t.option pop"
#endif

#endif
