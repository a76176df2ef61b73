/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that write: every byte of the span is stored, with a pattern that changes from pass to pass.
 *
 * A store that misses makes a write-back cache fetch the line first, so that twice the bytes travel; stores past the
 * caches (non-temporal) send each line once, but send it to memory even where it would have stayed in a cache. Measured
 * on a Zen 5: four or eight stores a turn are the same within 2 % at every level and width; in memory the string
 * instruction and the non-temporal stores reach 42 GB/s where all others reach 31.
 */
#ifndef MEMORY_WRITE_KERNELS_H
#define MEMORY_WRITE_KERNELS_H

#include "scalable.h"

/* The opaque value keeps the compiler from using vectors, since it must assume another word each time. */
#define STORE_WORD(place) \
  TOLL_OPAQUE(value);     \
  at[place] = value;
#define STORE_4_WORDS(place) STORE_WORD(place) STORE_WORD(place + 1) STORE_WORD(place + 2) STORE_WORD(place + 3)

TOLL_NOINLINE static void write_portable(struct span *span, uint64_t passes) {
  for (uint64_t pass = 1; pass <= passes; pass++) {
    unsigned long value = (unsigned long)pattern_of(span->passes + pass);
    word *at = (word *)(void *)span->target;
    for (size_t left = span->bytes / (8 * sizeof *at); left; left--, at += 8) {
      STORE_4_WORDS(0) STORE_4_WORDS(4)
    }
    TOLL_MEMORY();
  }
}

TOLL_NOINLINE static void write_sparse(struct span *span, uint64_t passes) {
  for (uint64_t pass = 1; pass <= passes; pass++) {
    uint32_t value = (uint32_t)pattern_of(span->passes + pass);
    half_word *at = (half_word *)(void *)span->target;
    for (size_t left = span->bytes / 64; left; left--, at += 16) {
      STORE_WORD(0) STORE_WORD(4) STORE_WORD(8) STORE_WORD(12)
    }
    TOLL_MEMORY();
  }
}

TOLL_NOINLINE static void write_libc(struct span *span, uint64_t passes) {
  for (uint64_t pass = 1; pass <= passes; pass++) {
    memset(span->target, (int)(pattern_of(span->passes + pass) & 255), span->bytes);
    TOLL_MEMORY();
  }
}

#define WRITE_KERNEL(name, target_cpu, width, store, done)                              \
  target_cpu TOLL_NOINLINE static void name(struct span *span, uint64_t passes) {       \
    typedef uint64_t lanes __attribute__((vector_size(width), may_alias));              \
    for (uint64_t pass = 1; pass <= passes; pass++) {                                   \
      lanes value = (lanes){0} + pattern_of(span->passes + pass);                       \
      lanes *at = (lanes *)(void *)span->target;                                        \
      for (size_t left = span->bytes / (4 * width); left; left--, at += 4) {            \
        store(at, value);                                                               \
        store(at + 1, value);                                                           \
        store(at + 2, value);                                                           \
        store(at + 3, value);                                                           \
      }                                                                                 \
      for (size_t left = span->bytes / width % 4; left; left--, at++) store(at, value); \
      done();                                                                           \
    }                                                                                   \
  }

#if defined(__x86_64__) || defined(__i386__)
TOLL_NOINLINE static void write_string(struct span *span, uint64_t passes) {
  for (uint64_t pass = 1; pass <= passes; pass++) {
    char *at = span->target;
    size_t left = span->bytes;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(left) : "a"((int)pattern_of(span->passes + pass)) : "memory");
  }
}

WRITE_KERNEL(write_sse2, TARGET_SSE2, 16, STORE, TOLL_MEMORY)
WRITE_KERNEL(write_avx2, TARGET_AVX2, 32, STORE, TOLL_MEMORY)
WRITE_KERNEL(write_avx512, TARGET_AVX512, 64, STORE, TOLL_MEMORY)
WRITE_KERNEL(write_sse2_nt, TARGET_SSE2, 16, NT_SSE2, NT_DONE)
WRITE_KERNEL(write_avx2_nt, TARGET_AVX2, 32, NT_AVX2, NT_DONE)
WRITE_KERNEL(write_avx512_nt, TARGET_AVX512, 64, NT_AVX512, NT_DONE)
#endif
#if defined(__ARM_NEON)
WRITE_KERNEL(write_neon, TARGET_NEON, 16, STORE, TOLL_MEMORY)
#endif
#if defined(__VSX__)
WRITE_KERNEL(write_vsx, TARGET_VSX, 16, STORE, TOLL_MEMORY)
#endif
#if defined(__aarch64__)
TOLL_NOINLINE static void write_neon_nt(struct span *span, uint64_t passes) {
  typedef uint64_t lanes __attribute__((vector_size(16), may_alias));
  for (uint64_t pass = 1; pass <= passes; pass++) {
    lanes value = (lanes){0} + pattern_of(span->passes + pass);
    lanes *at = (lanes *)(void *)span->target;
    for (size_t left = span->bytes / 64; left; left--, at += 4) {
      NT_NEON_PAIR(at, value, value);
      NT_NEON_PAIR(at + 2, value, value);
    }
    TOLL_MEMORY();
  }
}
#endif

#if defined(__aarch64__)
TOLL_NOINLINE static void write_sve(struct span *span, uint64_t passes) {
  const struct turns n = sve_turns(span->bytes);
  for (uint64_t pass = 1; pass <= passes; pass++) {
    char *at = span->target;
    uint64_t left = n.turns;
    __asm__ volatile(
        SVE("ptrue p0.d\n\t"
            "mov z16.d, %[value]\n\tmov z17.d, z16.d\n\tmov z18.d, z16.d\n\tmov z19.d, z16.d\n\t"
            "mov z20.d, z16.d\n\tmov z21.d, z16.d\n\tmov z22.d, z16.d\n\tmov z23.d, z16.d\n\t"
            "cbz %[left], 3f\n"
            "2:\n\t" SVE_8("st1d", "p0", "%[at]") "addvl %[at], %[at], #8\n\t"
                                                  "subs %[left], %[left], #1\n\tb.ne 2b\n"
                                                  "3:\n\twhilelo p1.d, %[left], %[rest]\n\tb.none 5f\n"
                                                  "4:\n\tst1d {z16.d}, p1, [%[at], %[left], lsl #3]\n\t"
                                                  "incd %[left]\n\twhilelo p1.d, %[left], %[rest]\n\tb.first 4b\n"
                                                  "5:")
        : [at] "+r"(at), [left] "+r"(left)
        : [value] "r"(pattern_of(span->passes + pass)), [rest] "r"(n.rest)
        : SVE_CLOBBERED);
  }
}

/* DCZID_EL0 has the block's size; what does not fill a block is stored. */
TOLL_NOINLINE static void write_dc_zva(struct span *span, uint64_t passes) {
  uint64_t id;
  __asm__("mrs %0, dczid_el0" : "=r"(id));
  const size_t block = (size_t)4 << (id & 15), whole = span->bytes / block * block;
  for (; passes; passes--) {
    for (char *at = span->target, *end = at + whole; at < end; at += block)
      __asm__ volatile("dc zva, %0" : : "r"(at) : "memory");
    memset(span->target + whole, 0, span->bytes - whole);
    TOLL_MEMORY();
  }
}
#endif
#if defined(__riscv) && __riscv_xlen == 64
TOLL_NOINLINE static void write_rvv(struct span *span, uint64_t passes) {
  for (uint64_t pass = 1; pass <= passes; pass++) {
    char *at = span->target;
    uint64_t left = span->bytes / 8, lanes;
    __asm__ volatile(RVV("vsetvli %[lanes], zero, e64, m8, ta, ma\n\t"
                         "vmv.v.x v0, %[value]\n"
                         "2:\n\tvsetvli %[lanes], %[left], e64, m8, ta, ma\n\t"
                         "vse64.v v0, (%[at])\n\t"
                         "sub %[left], %[left], %[lanes]\n\tslli %[lanes], %[lanes], 3\n\t"
                         "add %[at], %[at], %[lanes]\n\tbnez %[left], 2b")
                     : [at] "+r"(at), [left] "+r"(left), [lanes] "=&r"(lanes)
                     : [value] "r"(pattern_of(span->passes + pass))
                     : "memory");
  }
}
#endif

/* name, feature, function, lane, step, fetches no line */
#define WRITE_KERNELS(ENTRY)                                               \
  ENTRY(portable, NULL, write_portable, sizeof(long), sizeof(long), false) \
  ENTRY(sparse, NULL, write_sparse, 4, 16, false)                          \
  ENTRY(libc, NULL, write_libc, 4, 4, false)                               \
  ENTRY(string, NULL, ON_X86(write_string), 4, 4, true)                    \
  ENTRY(sse2, "sse2", ON_X86(write_sse2), 8, 8, false)                     \
  ENTRY(sse2_nt, "sse2", ON_X86(write_sse2_nt), 8, 8, true)                \
  ENTRY(avx2, "avx2", ON_X86(write_avx2), 8, 8, false)                     \
  ENTRY(avx2_nt, "avx2", ON_X86(write_avx2_nt), 8, 8, true)                \
  ENTRY(avx512, "avx512f", ON_X86(write_avx512), 8, 8, false)              \
  ENTRY(avx512_nt, "avx512f", ON_X86(write_avx512_nt), 8, 8, true)         \
  ENTRY(neon, "neon", ON_NEON(write_neon), 8, 8, false)                    \
  ENTRY(neon_nt, "neon", ON_AARCH64(write_neon_nt), 8, 8, true)            \
  ENTRY(sve, "sve", ON_AARCH64(write_sve), 8, 8, false)                    \
  ENTRY(dc_zva, "dczva", ON_AARCH64(write_dc_zva), 8, 8, true)             \
  ENTRY(rvv, "rvv", ON_RVV(write_rvv), 8, 8, false)                        \
  ENTRY(vsx, NULL, ON_VSX(write_vsx), 8, 8, false)
static const char *const write_kernel_names[] = {WRITE_KERNELS(KERNEL_NAME) "best", NULL};
static const struct kernel write_kernels[] = {WRITE_KERNELS(KERNEL_ROW)};

/* Every lane must hold what the last pass stored, and what lies between lanes what it held before any. */
static inline enum toll_status write_check(struct toll_run *r, const struct kernel *kernel, const struct span *span) {
  const uint32_t stored = kernel_zeroes(kernel) ? 0 : (uint32_t)pattern_of(span->passes);
  const half_word *words = (const half_word *)(const void *)span->target;
  if (kernel->lane == kernel->step && holds_only(span, stored)) return TOLL_OK;
  for (size_t i = 0; i < span->bytes / 4; i++)
    if (words[i] != (i * 4 % kernel->step < kernel->lane ? stored : mark_of(i)))
      return toll_wrong(r, "after %llu passes of %s word %zu is not as it should be", (unsigned long long)span->passes,
                        kernel->name, i);
  return TOLL_OK;
}

#endif
