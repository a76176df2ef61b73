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

#include "kernels.h"

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

#define READ_KERNEL(name, target, width, ahead)                                   \
  target TOLL_NOINLINE static void name(struct span *span, uint64_t passes) {     \
    typedef uint64_t lanes __attribute__((vector_size(width), may_alias));        \
    lanes a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0}; \
    for (; passes; passes--) {                                                    \
      const lanes *at = (const lanes *)(const void *)span->source;                \
      for (size_t left = span->bytes / (8 * width); left; left--, at += 8) {      \
        ahead a += at[0], b += at[1], c += at[2], d += at[3];                     \
        e += at[4], f += at[5], g += at[6], h += at[7];                           \
      }                                                                           \
      for (size_t left = span->bytes / width % 8; left; left--, at++) a += *at;   \
      TOLL_MEMORY();                                                              \
    }                                                                             \
    a += b + c + d + e + f + g + h;                                               \
    for (size_t i = 0; i < width / 8; i++) span->sum += a[i];                     \
  }

#if defined(__x86_64__) || defined(__i386__)
READ_KERNEL(read_sse2, TARGET_SSE2, 16, NOTHING_AHEAD)
READ_KERNEL(read_avx2, TARGET_AVX2, 32, NOTHING_AHEAD)
READ_KERNEL(read_avx2_prefetch, TARGET_AVX2, 32, KIB_AHEAD)
READ_KERNEL(read_avx512, TARGET_AVX512, 64, NOTHING_AHEAD)
#endif
#if defined(__ARM_NEON)
READ_KERNEL(read_neon, TARGET_NEON, 16, NOTHING_AHEAD)
#endif

/* name, feature, function, lane, step, fetches no line */
#define READ_KERNELS(ENTRY)                                               \
  ENTRY(portable, NULL, read_portable, sizeof(long), sizeof(long), false) \
  ENTRY(sparse, NULL, read_sparse, 4, 16, false)                          \
  ENTRY(sse2, "sse2", ON_X86(read_sse2), 8, 8, false)                     \
  ENTRY(avx2, "avx2", ON_X86(read_avx2), 8, 8, false)                     \
  ENTRY(avx2_prefetch, "avx2", ON_X86(read_avx2_prefetch), 8, 8, false)   \
  ENTRY(avx512, "avx512f", ON_X86(read_avx512), 8, 8, false)              \
  ENTRY(neon, "neon", ON_NEON(read_neon), 8, 8, false)
static const char *const read_kernel_names[] = {READ_KERNELS(KERNEL_NAME) NULL};
static const struct kernel read_kernels[] = {READ_KERNELS(KERNEL_ROW)};

/* What one pass over a marked span adds to its sum: found once, since every visit asks for it. */
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
