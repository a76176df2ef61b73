/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that read: every word of the span is loaded and added up.
 *
 * Measured on a Zen 5 (two 64-byte loads a cycle) with 4, 8 and 16 accumulators, one to eight streams at once, whole
 * pages side by side, and prefetches 512 B to 4 KiB ahead into each level: eight vector accumulators on one stream reach
 * 94 % of what the load ports could do in L1, and are within 2 % of the best of all of these in L2 and memory, small
 * pages or huge. Only in a last cache that is shared did prefetching 1 KiB ahead do better, by a tenth, at half the speed
 * in L1: so it is a kernel of its own.
 */
#ifndef MEMORY_READ_KERNELS_H
#define MEMORY_READ_KERNELS_H

#include "scalable.h"

#define ADD_WORD(sum, place) \
  sum += at[place];          \
  TOLL_OPAQUE(sum);
#define ADD_4_WORDS(place) ADD_WORD(a, place) ADD_WORD(b, place + 1) ADD_WORD(c, place + 2) ADD_WORD(d, place + 3)

/* Four accumulators for words, where vectors take eight: an integer addition takes one cycle, so four already keep four
 * load ports busy, and with eight the seven registers of 32-bit x86 overflow into the stack, at half the speed (31
 * against 58 GB/s). The opaque sums keep the compiler from making vectors of them for one ABI and not for another. */
TOLL_NOINLINE static void read_portable(struct span *span, uint64_t passes) {
  unsigned long a = 0, b = 0, c = 0, d = 0;
  for (; passes; passes--) {
    const word *at = (const word *)(const void *)span->source;
    for (size_t left = span->bytes / (16 * sizeof *at); left; left--, at += 16) {
      ADD_4_WORDS(0) ADD_4_WORDS(4) ADD_4_WORDS(8) ADD_4_WORDS(12)
    }
    for (size_t left = span->bytes / sizeof *at % 16; left; left--, at++) a += *at;
    TOLL_MEMORY();
  }
  span->sum += (unsigned long)(a + b + c + d);
}

TOLL_NOINLINE static void read_sparse(struct span *span, uint64_t passes) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  for (; passes; passes--) {
    const half_word *at = (const half_word *)(const void *)span->source;
    for (size_t left = span->bytes / 64; left; left--, at += 16) {
      ADD_WORD(a, 0) ADD_WORD(b, 4) ADD_WORD(c, 8) ADD_WORD(d, 12)
    }
    TOLL_MEMORY();
  }
  span->sum += (uint32_t)(a + b + c + d);
}

#define NOTHING_AHEAD
#define KIB_AHEAD \
  for (size_t line = 0; line < 8 * sizeof *at; line += 64) __builtin_prefetch((const char *)at + 1024 + line);

#define READ_KERNEL(name, target, width, load, ahead)                                 \
  target TOLL_NOINLINE static void name(struct span *span, uint64_t passes) {         \
    typedef uint64_t lanes __attribute__((vector_size(width), may_alias));            \
    lanes a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};     \
    for (; passes; passes--) {                                                        \
      const lanes *at = (const lanes *)(const void *)span->source;                    \
      for (size_t left = span->bytes / (8 * width); left; left--, at += 8) {          \
        ahead a += load(at), b += load(at + 1), c += load(at + 2), d += load(at + 3); \
        e += load(at + 4), f += load(at + 5), g += load(at + 6), h += load(at + 7);   \
      }                                                                               \
      for (size_t left = span->bytes / width % 8; left; left--, at++) a += *at;       \
      TOLL_MEMORY();                                                                  \
    }                                                                                 \
    a += b + c + d + e + f + g + h;                                                   \
    for (size_t i = 0; i < width / 8; i++) span->sum += a[i];                         \
  }

#if defined(__x86_64__) || defined(__i386__)
READ_KERNEL(read_sse2, TARGET_SSE2, 16, LOAD, NOTHING_AHEAD)
READ_KERNEL(read_avx2, TARGET_AVX2, 32, LOAD, NOTHING_AHEAD)
READ_KERNEL(read_avx2_prefetch, TARGET_AVX2, 32, LOAD, KIB_AHEAD)
READ_KERNEL(read_avx2_nt, TARGET_AVX2, 32, NT_LOAD_AVX, NOTHING_AHEAD)
READ_KERNEL(read_avx512, TARGET_AVX512, 64, LOAD, NOTHING_AHEAD)
READ_KERNEL(read_avx512_nt, TARGET_AVX512, 64, NT_LOAD_AVX, NOTHING_AHEAD)
#endif
#if defined(__ARM_NEON)
READ_KERNEL(read_neon, TARGET_NEON, 16, LOAD, NOTHING_AHEAD)
#endif
#if defined(__VSX__)
READ_KERNEL(read_vsx, TARGET_VSX, 16, LOAD, NOTHING_AHEAD)
#endif
#if defined(__aarch64__)
/* A pair of loads is the only one that carries the hint (Arm ARM, LDNP). */
TOLL_NOINLINE static void read_neon_nt(struct span *span, uint64_t passes) {
  typedef uint64_t lanes __attribute__((vector_size(16), may_alias));
  lanes sums[4] = {{0}}, loaded[4];
  for (; passes; passes--) {
    const lanes *at = (const lanes *)(const void *)span->source;
    for (size_t left = span->bytes / sizeof loaded; left; left--, at += 4) {
      for (unsigned i = 0; i < 4; i += 2)
        __asm__ volatile("ldnp %q0, %q1, %2" : "=w"(loaded[i]), "=w"(loaded[i + 1]) : "Q"(at[i]), "m"(at[i + 1]));
      for (unsigned i = 0; i < 4; i++) sums[i] += loaded[i];
    }
    TOLL_MEMORY();
  }
  sums[0] += sums[1] + sums[2] + sums[3];
  span->sum += sums[0][0] + sums[0][1];
}
#endif

#if defined(__aarch64__)
TOLL_NOINLINE static void read_sve(struct span *span, uint64_t passes) {
  const struct turns n = sve_turns(span->bytes);
  const char *at;
  uint64_t left, sum;
  if (!passes) return;
  __asm__ volatile(
      SVE("ptrue p0.d\n\t"
          "mov z0.d, #0\n\tmov z1.d, #0\n\tmov z2.d, #0\n\tmov z3.d, #0\n\t"
          "mov z4.d, #0\n\tmov z5.d, #0\n\tmov z6.d, #0\n\tmov z7.d, #0\n"
          "1:\n\tmov %[at], %[source]\n\t"
          "mov %[left], %[turns]\n\t"
          "cbz %[left], 3f\n"
          "2:\n\t" SVE_8("ld1d", "p0/z",
                         "%[at]") "add z0.d, z0.d, z16.d\n\tadd z1.d, z1.d, z17.d\n\t"
                                  "add z2.d, z2.d, z18.d\n\tadd z3.d, z3.d, z19.d\n\t"
                                  "add z4.d, z4.d, z20.d\n\tadd z5.d, z5.d, z21.d\n\t"
                                  "add z6.d, z6.d, z22.d\n\tadd z7.d, z7.d, z23.d\n\t"
                                  "addvl %[at], %[at], #8\n\t"
                                  "subs %[left], %[left], #1\n\tb.ne 2b\n"
                                  "3:\n\twhilelo p1.d, %[left], %[rest]\n\tb.none 5f\n"
                                  "4:\n\tld1d {z16.d}, p1/z, [%[at], %[left], lsl #3]\n\t"
                                  "add z0.d, p1/m, z0.d, z16.d\n\t"
                                  "incd %[left]\n\twhilelo p1.d, %[left], %[rest]\n\tb.first 4b\n"
                                  "5:\n\tsubs %[passes], %[passes], #1\n\tb.ne 1b\n\t"
                                  "add z0.d, z0.d, z1.d\n\tadd z2.d, z2.d, z3.d\n\tadd z4.d, z4.d, z5.d\n\t"
                                  "add z6.d, z6.d, z7.d\n\tadd z0.d, z0.d, z2.d\n\tadd z4.d, z4.d, z6.d\n\t"
                                  "add z0.d, z0.d, z4.d\n\tuaddv d0, p0, z0.d\n\tfmov %[sum], d0")
      : [at] "=&r"(at), [left] "=&r"(left), [sum] "=r"(sum), [passes] "+r"(passes)
      : [source] "r"(span->source), [turns] "r"(n.turns), [rest] "r"(n.rest)
      : SVE_CLOBBERED);
  span->sum += sum;
}
#endif
#if defined(__riscv) && __riscv_xlen == 64
TOLL_NOINLINE static void read_rvv(struct span *span, uint64_t passes) {
  const char *at;
  uint64_t left, lanes, sum;
  if (!passes) return;
  /* Tails stay as they are: a shorter last vector must not take from the sum what it does not add to. */
  __asm__ volatile(RVV("vsetvli %[lanes], zero, e64, m8, ta, ma\n\t"
                       "vmv.v.i v0, 0\n"
                       "1:\n\tmv %[at], %[source]\n\tmv %[left], %[all]\n"
                       "2:\n\tvsetvli %[lanes], %[left], e64, m8, tu, ma\n\t"
                       "vle64.v v8, (%[at])\n\tvadd.vv v0, v0, v8\n\t"
                       "sub %[left], %[left], %[lanes]\n\tslli %[lanes], %[lanes], 3\n\t"
                       "add %[at], %[at], %[lanes]\n\tbnez %[left], 2b\n\t"
                       "addi %[passes], %[passes], -1\n\tbnez %[passes], 1b\n\t"
                       "vsetvli %[lanes], zero, e64, m8, ta, ma\n\t"
                       "vmv.s.x v8, zero\n\tvredsum.vs v8, v0, v8\n\tvmv.x.s %[sum], v8")
                   : [at] "=&r"(at), [left] "=&r"(left), [lanes] "=&r"(lanes), [sum] "=r"(sum), [passes] "+r"(passes)
                   : [source] "r"(span->source), [all] "r"(span->bytes / 8)
                   : "memory");
  span->sum += sum;
}
#endif

/* name, feature, function, lane, step, fetches no line */
#define READ_KERNELS(ENTRY)                                               \
  ENTRY(portable, NULL, read_portable, sizeof(long), sizeof(long), false) \
  ENTRY(sparse, NULL, read_sparse, 4, 16, false)                          \
  ENTRY(sse2, "sse2", ON_X86(read_sse2), 8, 8, false)                     \
  ENTRY(avx2_nt, "avx2", ON_X86(read_avx2_nt), 8, 8, false)               \
  ENTRY(avx2_prefetch, "avx2", ON_X86(read_avx2_prefetch), 8, 8, false)   \
  ENTRY(avx2, "avx2", ON_X86(read_avx2), 8, 8, false)                     \
  ENTRY(avx512_nt, "avx512f", ON_X86(read_avx512_nt), 8, 8, false)        \
  ENTRY(avx512, "avx512f", ON_X86(read_avx512), 8, 8, false)              \
  ENTRY(neon_nt, "neon", ON_AARCH64(read_neon_nt), 8, 8, false)           \
  ENTRY(neon, "neon", ON_NEON(read_neon), 8, 8, false)                    \
  ENTRY(sve, "sve", ON_AARCH64(read_sve), 8, 8, false)                    \
  ENTRY(rvv, "rvv", ON_RVV(read_rvv), 8, 8, false)                        \
  ENTRY(vsx, NULL, ON_VSX(read_vsx), 8, 8, false)
static const char *const read_kernel_names[] = {READ_KERNELS(KERNEL_NAME) "best", NULL};
static const struct kernel read_kernels[] = {READ_KERNELS(KERNEL_ROW)};

/* Returns what one pass over a marked span adds to its sum. It is computed once, since every visit needs it. */
static inline uint64_t read_expected(const struct kernel *kernel, size_t bytes) {
  static const struct kernel *known_kernel;
  static size_t known_bytes;
  static uint64_t sum;
  if (known_kernel == kernel && known_bytes == bytes) return sum;
  known_kernel = kernel, known_bytes = bytes, sum = 0;
  for (size_t offset = 0; offset < bytes; offset += kernel->step) sum += marked_lane(offset, kernel->lane);
  return sum;
}

/* Each pass must have added every lane once. */
static inline enum toll_status read_check(struct toll_run *r, const struct kernel *kernel, const struct span *span) {
  uint64_t expected = read_expected(kernel, span->bytes) * span->passes;
  if ((span->sum ^ expected) & lane_mask(kernel->lane))
    return toll_wrong(r, "%llu passes of %s did not add up what the memory holds", (unsigned long long)span->passes,
                      kernel->name);
  return TOLL_OK;
}

#endif
