/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that copy: every byte of the source to the target, which begins at other low address bits than the source, so
 * that no load seems to read what a store 4 KiB after it has just written.
 *
 * Measured on a Zen 5: two, four or eight vectors a turn are within 3 % of each other at every level; beyond the own
 * caches the string instruction is the fastest, since it fetches no line that it overwrites whole.
 */
#ifndef MEMORY_COPY_KERNELS_H
#define MEMORY_COPY_KERNELS_H

#include "scalable.h"

#define COPY_WORD(place) \
  value = from[place];   \
  TOLL_OPAQUE(value);    \
  to[place] = value;
#define COPY_4_WORDS(place) COPY_WORD(place) COPY_WORD(place + 1) COPY_WORD(place + 2) COPY_WORD(place + 3)

TOLL_NOINLINE static void copy_portable(struct span *span, uint64_t passes) {
  unsigned long value;
  for (; passes; passes--) {
    const word *from = (const word *)(const void *)span->source;
    word *to = (word *)(void *)span->target;
    for (size_t left = span->bytes / (8 * sizeof *to); left; left--, from += 8, to += 8) {
      COPY_4_WORDS(0) COPY_4_WORDS(4)
    }
    TOLL_MEMORY();
  }
}

TOLL_NOINLINE static void copy_sparse(struct span *span, uint64_t passes) {
  uint32_t value;
  for (; passes; passes--) {
    const half_word *from = (const half_word *)(const void *)span->source;
    half_word *to = (half_word *)(void *)span->target;
    for (size_t left = span->bytes / 64; left; left--, from += 16, to += 16) {
      COPY_WORD(0) COPY_WORD(4) COPY_WORD(8) COPY_WORD(12)
    }
    TOLL_MEMORY();
  }
}

TOLL_NOINLINE static void copy_libc(struct span *span, uint64_t passes) {
  for (; passes; passes--) {
    memmove(span->target, span->source, span->bytes);
    TOLL_MEMORY();
  }
}

#define COPY_4_VECTORS(place, store)                                                      \
  {                                                                                       \
    lanes a = from[place], b = from[place + 1], c = from[place + 2], d = from[place + 3]; \
    store(to + place, a);                                                                 \
    store(to + place + 1, b);                                                             \
    store(to + place + 2, c);                                                             \
    store(to + place + 3, d);                                                             \
  }

#define COPY_KERNEL(name, target_cpu, width, store, done)                               \
  target_cpu TOLL_NOINLINE static void name(struct span *span, uint64_t passes) {       \
    typedef uint64_t lanes __attribute__((vector_size(width), may_alias));              \
    for (; passes; passes--) {                                                          \
      const lanes *from = (const lanes *)(const void *)span->source;                    \
      lanes *to = (lanes *)(void *)span->target;                                        \
      for (size_t left = span->bytes / (8 * width); left; left--, from += 8, to += 8) { \
        COPY_4_VECTORS(0, store) COPY_4_VECTORS(4, store)                               \
      }                                                                                 \
      for (size_t left = span->bytes / width % 8; left; left--, from++, to++) {         \
        lanes a = *from;                                                                \
        store(to, a);                                                                   \
      }                                                                                 \
      done();                                                                           \
    }                                                                                   \
  }

#if defined(__x86_64__) || defined(__i386__)
TOLL_NOINLINE static void copy_string(struct span *span, uint64_t passes) {
  for (; passes; passes--) {
    const char *from = span->source;
    char *to = span->target;
    size_t left = span->bytes;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
  }
}

COPY_KERNEL(copy_sse2, TARGET_SSE2, 16, STORE, TOLL_MEMORY)
COPY_KERNEL(copy_avx2, TARGET_AVX2, 32, STORE, TOLL_MEMORY)
COPY_KERNEL(copy_avx512, TARGET_AVX512, 64, STORE, TOLL_MEMORY)
COPY_KERNEL(copy_sse2_nt, TARGET_SSE2, 16, NT_SSE2, NT_DONE)
COPY_KERNEL(copy_avx2_nt, TARGET_AVX2, 32, NT_AVX2, NT_DONE)
COPY_KERNEL(copy_avx512_nt, TARGET_AVX512, 64, NT_AVX512, NT_DONE)
#endif
#if defined(__ARM_NEON)
COPY_KERNEL(copy_neon, TARGET_NEON, 16, STORE, TOLL_MEMORY)
#endif
#if defined(__VSX__)
COPY_KERNEL(copy_vsx, TARGET_VSX, 16, STORE, TOLL_MEMORY)
#endif
#if defined(__aarch64__)
TOLL_NOINLINE static void copy_neon_nt(struct span *span, uint64_t passes) {
  typedef uint64_t lanes __attribute__((vector_size(16), may_alias));
  for (; passes; passes--) {
    const lanes *from = (const lanes *)(const void *)span->source;
    lanes *to = (lanes *)(void *)span->target;
    for (size_t left = span->bytes / 64; left; left--, from += 4, to += 4) {
      NT_NEON_PAIR(to, from[0], from[1]);
      NT_NEON_PAIR(to + 2, from[2], from[3]);
    }
    TOLL_MEMORY();
  }
}
#endif

#if defined(__aarch64__)
TOLL_NOINLINE static void copy_sve(struct span *span, uint64_t passes) {
  const struct turns n = sve_turns(span->bytes);
  for (; passes; passes--) {
    const char *from = span->source;
    char *to = span->target;
    uint64_t left = n.turns;
    __asm__ volatile(SVE("ptrue p0.d\n\t"
                         "cbz %[left], 3f\n"
                         "2:\n\t" SVE_8("ld1d", "p0/z", "%[from]") SVE_8(
                             "st1d", "p0", "%[to]") "addvl %[from], %[from], #8\n\taddvl %[to], %[to], #8\n\t"
                                                    "subs %[left], %[left], #1\n\tb.ne 2b\n"
                                                    "3:\n\twhilelo p1.d, %[left], %[rest]\n\tb.none 5f\n"
                                                    "4:\n\tld1d {z16.d}, p1/z, [%[from], %[left], lsl #3]\n\t"
                                                    "st1d {z16.d}, p1, [%[to], %[left], lsl #3]\n\t"
                                                    "incd %[left]\n\twhilelo p1.d, %[left], %[rest]\n\tb.first 4b\n"
                                                    "5:")
                     : [from] "+r"(from), [to] "+r"(to), [left] "+r"(left)
                     : [rest] "r"(n.rest)
                     : SVE_CLOBBERED);
  }
}
#endif
#if defined(__riscv) && __riscv_xlen == 64
TOLL_NOINLINE static void copy_rvv(struct span *span, uint64_t passes) {
  for (; passes; passes--) {
    const char *from = span->source;
    char *to = span->target;
    uint64_t left = span->bytes / 8, lanes;
    __asm__ volatile(RVV("2:\n\tvsetvli %[lanes], %[left], e64, m8, ta, ma\n\t"
                         "vle64.v v0, (%[from])\n\tvse64.v v0, (%[to])\n\t"
                         "sub %[left], %[left], %[lanes]\n\tslli %[lanes], %[lanes], 3\n\t"
                         "add %[from], %[from], %[lanes]\n\tadd %[to], %[to], %[lanes]\n\tbnez %[left], 2b")
                     : [from] "+r"(from), [to] "+r"(to), [left] "+r"(left), [lanes] "=&r"(lanes)
                     :
                     : "memory");
  }
}
#endif

/* name, feature, function, lane, step, fetches no line */
#define COPY_KERNELS(ENTRY)                                               \
  ENTRY(portable, NULL, copy_portable, sizeof(long), sizeof(long), false) \
  ENTRY(sparse, NULL, copy_sparse, 4, 16, false)                          \
  ENTRY(libc, NULL, copy_libc, 4, 4, false)                               \
  ENTRY(string, NULL, ON_X86(copy_string), 4, 4, true)                    \
  ENTRY(sse2, "sse2", ON_X86(copy_sse2), 8, 8, false)                     \
  ENTRY(sse2_nt, "sse2", ON_X86(copy_sse2_nt), 8, 8, true)                \
  ENTRY(avx2, "avx2", ON_X86(copy_avx2), 8, 8, false)                     \
  ENTRY(avx2_nt, "avx2", ON_X86(copy_avx2_nt), 8, 8, true)                \
  ENTRY(avx512, "avx512f", ON_X86(copy_avx512), 8, 8, false)              \
  ENTRY(avx512_nt, "avx512f", ON_X86(copy_avx512_nt), 8, 8, true)         \
  ENTRY(neon, "neon", ON_NEON(copy_neon), 8, 8, false)                    \
  ENTRY(neon_nt, "neon", ON_AARCH64(copy_neon_nt), 8, 8, true)            \
  ENTRY(sve, "sve", ON_AARCH64(copy_sve), 8, 8, false)                    \
  ENTRY(rvv, "rvv", ON_RVV(copy_rvv), 8, 8, false)                        \
  ENTRY(vsx, NULL, ON_VSX(copy_vsx), 8, 8, false)
static const char *const copy_kernel_names[] = {COPY_KERNELS(KERNEL_NAME) NULL};
static const struct kernel copy_kernels[] = {COPY_KERNELS(KERNEL_ROW)};

/* Writes a number into a handful of places of the source, from its first line to its last: the copies made from now on
 * are distinguished from those made before. */
static inline void copy_stamp(const struct span *span, char *source, uint32_t number) {
  const size_t places = 5;
  for (size_t i = 0; i < places; i++)
    *(half_word *)(void *)(source + (span->bytes / 64 - 1) * i / (places - 1) * 64) = number;
}

/* Every lane of the target must hold what the source holds, and what lies between lanes what it held before any. */
static inline enum toll_status copy_check(struct toll_run *r, const struct kernel *kernel, const struct span *span) {
  const half_word *from = (const half_word *)(const void *)span->source;
  const half_word *to = (const half_word *)(const void *)span->target;
  if (kernel->lane == kernel->step && memcmp(to, from, span->bytes) == 0) return TOLL_OK;
  for (size_t i = 0; i < span->bytes / 4; i++)
    if (to[i] != (i * 4 % kernel->step < kernel->lane ? from[i] : 0))
      return toll_wrong(r, "after %llu passes of %s word %zu was not copied as it should be",
                        (unsigned long long)span->passes, kernel->name, i);
  return TOLL_OK;
}

#endif
