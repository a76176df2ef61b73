/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bandwidth kernels share. A kernel goes through a span of memory so many times; each operation (read, write,
 * copy, update) has a list of them in its own header:
 *
 *   portable   plain C on unsigned long, the same source for every ABI: only these compare ABIs and architectures
 *   sparse     plain C on one 32-bit word in every 16 bytes, as lmbench's rd, wr, cp and rdwr do; lmbench counts all 16,
 *              here the 4 that are touched are counted, and the lines that travel are the bus bytes
 *   libc       what the C library makes of it
 *   string     x86's own string instruction: rep stosb, rep movsb
 *   sse2 ...   one source for every vector width; asked of the CPU at run time, all in one executable
 *   sve rvv    vectors as long as the CPU has them (scalable.h)
 *   ..._nt     the same with non-temporal stores; of those that read, with non-temporal loads
 *   dc_zva     aarch64's own instruction that zeroes a block; it writes nothing else
 *   best       the one of these that is fastest here, of this size, in a trial before the first sample
 *
 * lmbench's nine operations of bw_mem are here: rd wr cp rdwr are sparse, frd fwr fcp portable, bzero is libc's write and
 * bcopy libc's copy.
 *
 * Every list has the same names on every architecture; what does not exist is skipped with a sentence.
 */
#ifndef MEMORY_KERNELS_H
#define MEMORY_KERNELS_H

#include <float.h>
#include <string.h>

#include "clock_ns.h"
#include "large.h"

/* source and target: `bytes` each, whole lines of 64 bytes, apart from each other. */
struct span {
  char *target;
  const char *source;
  size_t bytes;
  uint64_t sum;    /* sum of all lanes read so far, modulo the width of a lane */
  uint64_t passes; /* made so far: a write stores pattern_of(passes), an update adds one to each lane in each */
};

/* Types with which portable kernels access memory of any type. */
typedef unsigned long word __attribute__((may_alias));
typedef uint32_t half_word __attribute__((may_alias));

typedef void kernel_run(struct span *span, uint64_t passes);

/* A lane is what the kernel adds to or sums up as one number; step is the distance of two lanes. */
struct kernel {
  const char *name, *feature; /* feature: as toll_cpu_has() knows it; NULL: none is needed */
  kernel_run *run;            /* NULL: not on this architecture */
  size_t lane, step;
  bool no_allocate; /* its stores fetch no line first: they fill lines whole, or are non-temporal */
};

static inline bool kernel_zeroes(const struct kernel *kernel) {
  return kernel->feature && strcmp(kernel->feature, "dczva") == 0;
}

#if defined(__x86_64__) || defined(__i386__)
#define ON_X86(kernel)       kernel
#define TARGET_SSE2          __attribute__((target("sse2")))
#define TARGET_AVX2          __attribute__((target("avx2")))
#define TARGET_AVX512        __attribute__((target("avx512f")))
#define NT_SSE2(at, value)   __asm__ volatile("movntdq %1, %0" : "=m"(*(at)) : "x"(value))
#define NT_AVX2(at, value)   __asm__ volatile("vmovntdq %1, %0" : "=m"(*(at)) : "x"(value))
#define NT_AVX512(at, value) __asm__ volatile("vmovntdq %1, %0" : "=m"(*(at)) : "v"(value))
/* Two words, non-temporal (MOVNTI, SSE2). */
#define NT_WORDS(at, value) \
  __asm__ volatile("movnti %2, %0\n\tmovnti %2, %1" : "=m"((at)[0]), "=m"((at)[1]) : "r"(value))
/* Non-temporal stores wait in write-combining buffers: a pass is done when they have left. */
#define NT_DONE() __asm__ volatile("sfence" : : : "memory")
#else
#define ON_X86(kernel) NULL
#endif

#if defined(__ARM_NEON)
#define ON_NEON(kernel) kernel
#define TARGET_NEON
#else
#define ON_NEON(kernel) NULL
#endif

#if defined(__aarch64__)
#define ON_AARCH64(kernel) kernel
/* A pair of stores is the only one that carries the hint (Arm ARM, STNP). */
#define NT_NEON_PAIR(at, first, second) \
  __asm__ volatile("stnp %q2, %q3, %0" : "=Q"((at)[0]), "=m"((at)[1]) : "w"(first), "w"(second))
#define NT_WORDS(at, value) __asm__ volatile("stnp %2, %2, %0" : "=Q"((at)[0]), "=m"((at)[1]) : "r"(value))
#else
#define ON_AARCH64(kernel) NULL
#endif

#if defined(__VSX__)
#define ON_VSX(kernel) kernel
#define TARGET_VSX
#else
#define ON_VSX(kernel) NULL
#endif

#if defined(__riscv) && __riscv_xlen == 64
#define ON_RVV(kernel) kernel
#else
#define ON_RVV(kernel) NULL
#endif

#define LOAD(at)         (*(at))
#define STORE(at, value) (*(at) = (value))
/* Non-temporal loads; GNU C's statement expressions make a value of them. */
#define NT_LOAD_AVX(at)                                               \
  ({                                                                  \
    lanes loaded;                                                     \
    __asm__ volatile("vmovntdqa %1, %0" : "=v"(loaded) : "m"(*(at))); \
    loaded;                                                           \
  })

/* The lists of kernels are written once, as ENTRY(name, feature, function, lane, step, fetches no line). */
struct kernels {
  const struct kernel *first;
  size_t count;
};
#define KERNELS(list)                                           ((struct kernels){list, sizeof list / sizeof list[0]})
#define KERNEL_NAME(name, ...)                                  #name,
#define KERNEL_ROW(name, feature, run, lane, step, no_allocate) {#name, feature, run, lane, step, no_allocate},

static inline size_t whole_lines(size_t bytes) {
  return bytes & ~(size_t)63;
}

static inline bool kernel_is_ready(const struct kernel *kernel) {
  return kernel->run && (!kernel->feature || toll_cpu_has(kernel->feature));
}

static inline enum toll_status kernel_ready(struct toll_run *r, const struct kernel *kernel) {
  if (!kernel->run) return toll_skip(r, "this architecture has no %s kernel", kernel->name);
  if (kernel->feature && !toll_cpu_has(kernel->feature)) return toll_skip(r, "this CPU has no %s", kernel->feature);
  return TOLL_OK;
}

/* Only kernels that process the whole span in a way that any program may want. */
static inline bool kernel_may_be_best(const struct kernel *kernel) {
  return kernel_is_ready(kernel) && kernel->lane == kernel->step && !kernel_zeroes(kernel);
}

/* The widest kernel with ordinary stores that this CPU runs; what an architecture has not is passed over. */
static inline const struct kernel *kernel_widest(const struct kernel *kernels, size_t count) {
  static const char *const names[] = {"avx512", "avx2", "sse2", "sve", "neon", "rvv", "vsx", "portable"};
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
    for (size_t k = 0; k < count; k++)
      if (strcmp(kernels[k].name, names[n]) == 0 && kernel_is_ready(&kernels[k])) return &kernels[k];
  return &kernels[0];
}

/* The share of a span that a kernel touches. */
static inline double kernel_share(const struct kernel *kernel) {
  return (double)kernel->lane / (double)kernel->step;
}

/* ---- what the bandwidth probes have in common ---- */

/* The axes. Half the octaves of a latency sweep will do: a knee is looked for where the latency has one. */
#define BANDWIDTH_PARAMETERS(what, names)                                                                 \
  {.name = "size",                                                                                        \
   .kind = TOLL_SIZE,                                                                                     \
   .summary = what,                                                                                       \
   .from = 1024,                                                                                          \
   .to = 4,                                                                                               \
   .to_scale = TOLL_TIMES_LAST_CACHE,                                                                     \
   .per_octave = 2,                                                                                       \
   .typical = "16384",                                                                                    \
   .refine = true},                                                                                       \
  {                                                                                                       \
    .name = "kernel", .kind = TOLL_CHOICE, .summary = "the loop", .choices = names, .typical = "portable" \
  }
/* The common state of bandwidth probes: the state of each begins with this. */
struct bandwidth {
  const struct kernel *kernel;
  struct span span;
  char *source;
  double huge_share;
};

/* Allocates a buffer. The share of it in huge pages is reported beside the rate; for two buffers, that of the
 * second. */
static inline char *bandwidth_buffer(struct toll_run *r, size_t bytes, unsigned colour) {
  struct bandwidth *b = (struct bandwidth *)r->state;
  char *memory = large_buffer(r, bytes, colour);
  if (memory) b->huge_share = huge_share(memory, bytes);
  return memory;
}

/* Chooses the kernel and the size of each of `sides` equal parts. `best`, which follows the last of the list, is found
 * by kernel_try() once there is memory. */
static inline enum toll_status bandwidth_prepare(struct toll_run *r, struct kernels list, unsigned sides) {
  struct bandwidth *b = (struct bandwidth *)r->state;
  const unsigned choice = toll_choice(r, "kernel");
  if (asked(r, "size", &b->span.bytes) != TOLL_OK) return toll_refused(r);
  b->span.bytes = whole_lines(b->span.bytes / sides);
  if (!b->span.bytes) return toll_fail(r, "a size below %u bytes holds no line", 64 * sides);
  if (choice == list.count) return toll_prepare_in_place(r);
  b->kernel = &list.first[choice];
  return kernel_ready(r, b->kernel);
}

/* The least time of a pass; a short span is passed repeatedly, so that the time is long enough for the clock. */
static inline double pass_ns(const struct kernel *kernel, struct span *span) {
  const size_t enough = (size_t)1 << 20;
  const uint64_t passes = span->bytes < enough ? enough / span->bytes : 1;
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC_RAW);
  kernel->run(span, passes);
  return (double)(toll_clock_ns(CLOCK_MONOTONIC_RAW) - began) / (double)passes;
}

/* Returns the fastest kernel; among kernels of about equal speed the last of the list, which is the widest, so that
 * chance does not choose. Passes are repeated for a quarter of a second, and their least time counts. */
static inline const struct kernel *fastest_of(struct kernels list, struct span *span) {
  enum { ROUNDS = 6, ENOUGH_NS = 250000000, MOST_KERNELS = 32 };
  const double clearly = 0.95;
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC_RAW);
  double least[MOST_KERNELS];
  size_t best = list.count;
  for (unsigned round = 0; round < ROUNDS; round++) {
    if (round && toll_clock_ns(CLOCK_MONOTONIC_RAW) - began >= ENOUGH_NS) break;
    for (size_t k = 0; k < list.count; k++) {
      const double took = kernel_may_be_best(&list.first[k]) ? pass_ns(&list.first[k], span) : DBL_MAX;
      if (!round || took < least[k]) least[k] = took;
    }
  }
  for (size_t k = list.count; k-- > 0;)
    if (least[k] < (best < list.count ? clearly * least[best] : DBL_MAX)) best = k;
  return &list.first[best];
}

/* For prepare, before anything is marked: finds the best kernel where it was asked for. Where the clock counts
 * instructions, none is fast or slow, and the widest is taken. */
static inline void kernel_try(struct toll_run *r, struct kernels list) {
  struct bandwidth *b = (struct bandwidth *)r->state;
  if (b->kernel) return;
  struct span tried = b->span;
  b->kernel = toll_clock_is_real() ? fastest_of(list, &tried) : kernel_widest(list.first, list.count);
  toll_chose(r, "kernel", b->kernel->name);
}

static inline void bandwidth_body(struct toll_run *r) {
  struct bandwidth *b = (struct bandwidth *)r->state;
  b->kernel->run(&b->span, r->iterations);
  b->span.passes += r->iterations;
}

static inline void bandwidth_finish(struct toll_run *r) {
  toll_report(r, "huge_pages", ((const struct bandwidth *)r->state)->huge_share);
}

/* Bytes that the kernel touches; on the bus whole lines travel, `trips` times over. */
static inline void bandwidth_work(const struct toll_run *r, struct toll_work *work, double trips) {
  const struct bandwidth *b = (const struct bandwidth *)r->state;
  work->bytes = (double)b->span.bytes * kernel_share(b->kernel);
  work->bus_bytes = (double)b->span.bytes * trips;
}

/* ---- patterns ---- */

/* The pattern has equal bytes, so that memset and the string instruction can store it too. It is never zero, since
 * some memories write zeros faster. It differs between passes, so that the last pass is distinguished from the one
 * before. */
static inline uint64_t pattern_of(uint64_t passes) {
  return (1 + passes % 255) * UINT64_C(0x0101010101010101);
}

/* Returns the first value of a 32-bit word of a span: all words differ, in either byte order. */
static inline uint32_t mark_of(size_t word) {
  return (uint32_t)word * 2654435761u + 40503u;
}

static inline void span_mark(void *memory, size_t bytes) {
  uint32_t *words = (uint32_t *)memory;
  for (size_t i = 0; i < bytes / sizeof *words; i++) words[i] = mark_of(i);
}

/* The lane at an offset of a span that still holds its marks. */
static inline uint64_t marked_lane(size_t offset, size_t lane) {
  uint32_t words[2] = {mark_of(offset / 4), mark_of(offset / 4 + 1)};
  uint64_t both;
  memcpy(&both, words, sizeof both);
  return lane == sizeof both ? both : words[0];
}

static inline uint64_t lane_at(const char *at, size_t lane) {
  uint64_t both;
  uint32_t one;
  if (lane == sizeof both) return memcpy(&both, at, sizeof both), both;
  return memcpy(&one, at, sizeof one), one;
}

static inline uint64_t lane_mask(size_t lane) {
  return lane == 8 ? UINT64_MAX : UINT32_MAX;
}

/* Whether a span holds one 32-bit word throughout: then each word is the one after it. The C library compares several
 * lines at a time, where a loop that asks for each word which lane it is in takes 70 ms over 128 MiB. */
static inline bool holds_only(const struct span *span, uint32_t word) {
  return lane_at(span->target, 4) == word && memcmp(span->target, span->target + 4, span->bytes - 4) == 0;
}

#endif
