/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that update: every lane of the span is read, one is added, and it is written back to its place. The store's
 * line is already in the cache, so that no line is loaded needlessly: the advantage over writing is the cost of
 * write-allocate.
 */
#ifndef MEMORY_UPDATE_KERNELS_H
#define MEMORY_UPDATE_KERNELS_H

#include "kernels.h"

#define UPDATE_WORD(place) \
  value = at[place] + 1;   \
  TOLL_OPAQUE(value);      \
  at[place] = value;
#define UPDATE_4_WORDS(place) UPDATE_WORD(place) UPDATE_WORD(place + 1) UPDATE_WORD(place + 2) UPDATE_WORD(place + 3)

TOLL_NOINLINE static void update_portable(struct span *span, uint64_t passes) {
  unsigned long value;
  for (; passes; passes--) {
    word *at = (word *)(void *)span->target;
    for (size_t left = span->bytes / (8 * sizeof *at); left; left--, at += 8) {
      UPDATE_4_WORDS(0) UPDATE_4_WORDS(4)
    }
    TOLL_MEMORY();
  }
}

TOLL_NOINLINE static void update_sparse(struct span *span, uint64_t passes) {
  uint32_t value;
  for (; passes; passes--) {
    half_word *at = (half_word *)(void *)span->target;
    for (size_t left = span->bytes / 64; left; left--, at += 16) {
      UPDATE_WORD(0) UPDATE_WORD(4) UPDATE_WORD(8) UPDATE_WORD(12)
    }
    TOLL_MEMORY();
  }
}

/* Eight a turn: four were a fifth slower with 16-byte vectors, whose turn is then short beside the loop's own work. */
#define UPDATE_4_VECTORS(place)                                             \
  {                                                                         \
    lanes a = at[place] + one, b = at[place + 1] + one;                     \
    lanes c = at[place + 2] + one, d = at[place + 3] + one;                 \
    at[place] = a, at[place + 1] = b, at[place + 2] = c, at[place + 3] = d; \
  }

#define UPDATE_KERNEL(name, target_cpu, width)                                    \
  target_cpu TOLL_NOINLINE static void name(struct span *span, uint64_t passes) { \
    typedef uint64_t lanes __attribute__((vector_size(width), may_alias));        \
    const lanes one = (lanes){0} + 1;                                             \
    for (; passes; passes--) {                                                    \
      lanes *at = (lanes *)(void *)span->target;                                  \
      for (size_t left = span->bytes / (8 * width); left; left--, at += 8) {      \
        UPDATE_4_VECTORS(0) UPDATE_4_VECTORS(4)                                   \
      }                                                                           \
      for (size_t left = span->bytes / width % 8; left; left--, at++) *at += one; \
      TOLL_MEMORY();                                                              \
    }                                                                             \
  }

#if defined(__x86_64__) || defined(__i386__)
UPDATE_KERNEL(update_sse2, TARGET_SSE2, 16)
UPDATE_KERNEL(update_avx2, TARGET_AVX2, 32)
UPDATE_KERNEL(update_avx512, TARGET_AVX512, 64)
#endif
#if defined(__ARM_NEON)
UPDATE_KERNEL(update_neon, TARGET_NEON, 16)
#endif
#if defined(__VSX__)
UPDATE_KERNEL(update_vsx, TARGET_VSX, 16)
#endif

/* name, feature, function, lane, step, fetches no line */
#define UPDATE_KERNELS(ENTRY)                                               \
  ENTRY(portable, NULL, update_portable, sizeof(long), sizeof(long), false) \
  ENTRY(sparse, NULL, update_sparse, 4, 16, false)                          \
  ENTRY(sse2, "sse2", ON_X86(update_sse2), 8, 8, false)                     \
  ENTRY(avx2, "avx2", ON_X86(update_avx2), 8, 8, false)                     \
  ENTRY(avx512, "avx512f", ON_X86(update_avx512), 8, 8, false)              \
  ENTRY(neon, "neon", ON_NEON(update_neon), 8, 8, false)                    \
  ENTRY(vsx, NULL, ON_VSX(update_vsx), 8, 8, false)
static const char *const update_kernel_names[] = {UPDATE_KERNELS(KERNEL_NAME) "best", NULL};
static const struct kernel update_kernels[] = {UPDATE_KERNELS(KERNEL_ROW)};

/* Returns whether every 64-bit lane holds its mark and one more for each pass. The portable vectors need no branch
 * between them, so that the loop waits for memory alone. */
static inline bool holds_passes(const struct span *span) {
  typedef uint32_t words __attribute__((vector_size(16), may_alias));
  typedef uint64_t lanes __attribute__((vector_size(16), may_alias));
  words marks = {mark_of(0), mark_of(1), mark_of(2), mark_of(3)};
  lanes wrong = {0, 0};
  const lanes *at = (const lanes *)(const void *)span->target;
  for (size_t left = span->bytes / sizeof *at; left; left--, at++, marks += mark_of(4) - mark_of(0))
    wrong |= *at ^ ((lanes)marks + span->passes);
  return !(wrong[0] | wrong[1]);
}

/* Every lane must hold its mark and one more for each pass, and what lies between lanes its mark alone. */
static inline enum toll_status update_check(struct toll_run *r, const struct kernel *kernel, const struct span *span) {
  if (kernel->lane == 8 && kernel->step == 8 && holds_passes(span)) return TOLL_OK;
  size_t beyond = 0; /* an updated lane: bytes modulo the step, whose division takes longer than all the rest */
  for (size_t offset = 0; offset < span->bytes; offset += kernel->lane) {
    uint64_t expected = marked_lane(offset, kernel->lane) + (beyond ? 0 : span->passes);
    beyond = beyond + kernel->lane < kernel->step ? beyond + kernel->lane : 0;
    if ((lane_at(span->target + offset, kernel->lane) ^ expected) & lane_mask(kernel->lane))
      return toll_wrong(r, "after %llu passes of %s the lane at %zu is not as it should be",
                        (unsigned long long)span->passes, kernel->name, offset);
  }
  return TOLL_OK;
}

#endif
