/* SPDX-License-Identifier: Apache-2.0
 *
 * What STREAM (McCalpin 1995) and STREAM2 have in common: long vectors of doubles, far larger than the caches, a loop
 * over them shared out among threads, and a barrier after each pass, so that the slowest thread's time counts.
 *
 * Bytes are counted as STREAM does: each vector once for each time that the loop names it. An ordinary store also fetches
 * the line that it overwrites; the bus bytes count that too.
 */
#ifndef MEMORY_STREAM_H
#define MEMORY_STREAM_H

#include <stdatomic.h>

#include "kernels.h"

#define MOST_THREADS 512

/* A thread's part of the vectors. */
struct part {
  double *out;
  const double *x, *y;
  size_t count;
  double sum;
};

typedef void stream_run(struct part *part, double scalar);

/* Data of one thread. */
struct thread {
  struct part part;
  uint64_t batches, passes;
  double scalars; /* the sum of the scalars of all passes */
  uint32_t waits;
  bool touched;
  char padding[128];
};

struct stream_kernel {
  const char *name;
  double vectors, stored; /* how many vectors the loop names, and how many it stores without reading them */
  stream_run *base, *avx2, *avx512, *base_nt, *avx2_nt, *avx512_nt;
};

struct stream {
  const struct stream_kernel *kernel;
  stream_run *run;
  bool non_temporal;
  unsigned threads;
  size_t bytes, part_bytes; /* sizes of one vector, and of one thread's part of it */
  char *vectors[3];         /* out, x, y */
  _Atomic uint32_t arrived, generation;
  struct thread thread[MOST_THREADS];
};

static inline double x_of(size_t i) {
  return (double)(1 + i % 1000);
}
static inline double y_of(size_t i) {
  return (double)(2 + i % 777);
}
/* Another scalar each batch tells what a batch stored from what the one before it stored. Small whole numbers stay exact
 * in every sum here. */
static inline double scalar_of(uint64_t batch) {
  return (double)(3 + batch % 8);
}

/* One source for every width. expression: of a, b and o (what stands at the same place of x, y and
 * out; what the expression does not name is not loaded) and the scalar s. */
#define STREAM_KERNEL(name, target_cpu, width, store, done, expression)            \
  target_cpu TOLL_NOINLINE static void name(struct part *part, double scalar) {    \
    typedef double lanes __attribute__((vector_size(width), may_alias));           \
    const lanes s = (lanes){0} + scalar;                                           \
    const lanes *x = (const lanes *)(const void *)part->x;                         \
    const lanes *y = (const lanes *)(const void *)part->y;                         \
    lanes *out = (lanes *)(void *)part->out;                                       \
    for (size_t left = part->count * sizeof(double) / (4 * width); left; left--) { \
      STREAM_AT(0, store, expression)                                              \
      STREAM_AT(1, store, expression)                                              \
      STREAM_AT(2, store, expression)                                              \
      STREAM_AT(3, store, expression)                                              \
      x += 4, y += 4, out += 4;                                                    \
    }                                                                              \
    (void)s;                                                                       \
    done();                                                                        \
  }
#define STREAM_AT(i, store, expression)         \
  {                                             \
    const lanes a = x[i], b = y[i], o = out[i]; \
    const lanes value = expression;             \
    (void)a, (void)b, (void)o;                  \
    store(out + i, value);                      \
  }

/* Every width of one kernel; on what has no vectors the base is what the compiler makes of 16 bytes. */
#if defined(__x86_64__) || defined(__i386__)
#define STREAM_WIDTHS(name, expression)                                       \
  STREAM_KERNEL(name##_base, TARGET_SSE2, 16, STORE, TOLL_MEMORY, expression) \
  STREAM_KERNEL(name##_avx2, TARGET_AVX2, 32, STORE, TOLL_MEMORY, expression) \
  STREAM_KERNEL(name##_avx512, TARGET_AVX512, 64, STORE, TOLL_MEMORY, expression)
#define STREAM_WIDTHS_NT(name, expression)                                     \
  STREAM_KERNEL(name##_base_nt, TARGET_SSE2, 16, NT_SSE2, NT_DONE, expression) \
  STREAM_KERNEL(name##_avx2_nt, TARGET_AVX2, 32, NT_AVX2, NT_DONE, expression) \
  STREAM_KERNEL(name##_avx512_nt, TARGET_AVX512, 64, NT_AVX512, NT_DONE, expression)
#define STREAM_RUNS(name)    name##_base, name##_avx2, name##_avx512
#define STREAM_RUNS_NT(name) name##_base_nt, name##_avx2_nt, name##_avx512_nt
#define BASE_FEATURE         "sse2"
#else
#define STREAM_WIDTHS(name, expression) STREAM_KERNEL(name##_base, , 16, STORE, TOLL_MEMORY, expression)
#define STREAM_WIDTHS_NT(name, expression)
#define STREAM_RUNS(name)    name##_base, NULL, NULL
#define STREAM_RUNS_NT(name) NULL, NULL, NULL
#define BASE_FEATURE         NULL
#endif
#define STREAM_NONE NULL, NULL, NULL

/* ---- setting up ---- */

static inline stream_run *widest_run(stream_run *base, stream_run *avx2, stream_run *avx512) {
  if (avx512 && toll_cpu_has("avx512f")) return avx512;
  if (avx2 && toll_cpu_has("avx2")) return avx2;
  const char *feature = BASE_FEATURE;
  return !feature || toll_cpu_has(feature) ? base : NULL;
}

static inline enum toll_status stream_choose(struct toll_run *r, const struct stream_kernel *kernels) {
  struct stream *s = (struct stream *)r->state;
  const struct stream_kernel *k = s->kernel = &kernels[toll_choice(r, "kernel")];
  s->non_temporal = toll_choice(r, "stores") != 0;
  s->run = s->non_temporal ? widest_run(k->base_nt, k->avx2_nt, k->avx512_nt) : widest_run(k->base, k->avx2, k->avx512);
  if (!s->run)
    return toll_skip(r, "there is no loop of %s%s here", k->name, s->non_temporal ? " with non-temporal stores" : "");
  return TOLL_OK;
}

static inline unsigned stream_companions(const struct toll_run *r) {
  return (unsigned)toll_number(r, "threads") - 1;
}

static inline enum toll_status stream_prepare(struct toll_run *r, const struct stream_kernel *kernels) {
  struct stream *s = (struct stream *)r->state;
  uint64_t threads = toll_number(r, "threads");
  size_t size;
  if (threads > r->cpu_count)
    return toll_skip(r, "%llu threads need as many CPUs, and this run may use %u", (unsigned long long)threads,
                     r->cpu_count);
  if (threads < 1 || threads > MOST_THREADS) return toll_fail(r, "threads are 1 to %d", MOST_THREADS);
  if (asked(r, "size", &size) != TOLL_OK) return toll_refused(r);
  if (stream_choose(r, kernels) != TOLL_OK) return toll_refused(r);
  s->threads = (unsigned)threads;
  s->part_bytes = whole_huge_pages(for_all_caches(r, size, s->threads) / s->threads);
  if (!s->part_bytes) return toll_fail(r, "the size holds nothing for each thread");
  s->bytes = s->part_bytes * s->threads;
  for (unsigned v = 0; v < 3; v++)
    if (!(s->vectors[v] = large_buffer(r, s->bytes, 0))) return toll_refused(r);
  return TOLL_OK;
}

/* ---- running ---- */

/* Each vector begins in another place of its page: lines of all three at the same offset would meet in one set. A part
 * ends as much before the next thread's pages. */
#define VECTOR_SHIFT(v) ((v)*576)
#define KEPT_FREE       512 /* elements */

static inline void stream_touch(struct stream *s, struct thread *own, unsigned worker) {
  size_t first = worker * s->part_bytes, elements = s->part_bytes / sizeof(double);
  double *part[3];
  for (unsigned v = 0; v < 3; v++) {
    touch_here(s->vectors[v] + first, s->part_bytes);
    part[v] = (double *)(void *)(s->vectors[v] + first + VECTOR_SHIFT(v));
  }
  own->part = (struct part){.out = part[0], .x = part[1], .y = part[2], .count = elements - KEPT_FREE};
  for (size_t i = 0; i < own->part.count; i++) {
    part[0][i] = y_of(i);
    part[1][i] = x_of(i);
    part[2][i] = y_of(i);
  }
  own->touched = true;
}

/* All threads of a pass wait for the last one. */
static inline void stream_wait(struct stream *s) {
  uint32_t generation = atomic_load(&s->generation);
  if (atomic_fetch_add(&s->arrived, 1) + 1 == s->threads) {
    atomic_store(&s->arrived, 0);
    atomic_fetch_add(&s->generation, 1);
  }
  while (atomic_load(&s->generation) == generation) toll_relax();
}

static inline void stream_body(struct toll_run *r) {
  struct stream *s = (struct stream *)r->state;
  struct thread *own = &s->thread[r->worker];
  if (!own->touched) stream_touch(s, own, r->worker);
  double scalar = scalar_of(own->batches++);
  for (uint64_t left = r->iterations; left; left--) {
    s->run(&own->part, scalar);
    stream_wait(s);
  }
  own->passes += r->iterations;
  own->scalars += scalar * (double)r->iterations;
}

/* ---- proof ---- */

/* Returns the expected value of element i of `out`. */
typedef double stream_expected(const struct stream *s, const struct thread *own, size_t i);

static inline enum toll_status stream_check_sums(struct toll_run *r) {
  const struct stream *s = (const struct stream *)r->state;
  for (unsigned t = 0; t < s->threads; t++) {
    double once = 0;
    for (size_t i = 0; i < s->thread[t].part.count; i++) once += x_of(i);
    if (!s->thread[t].passes || s->thread[t].part.sum != once * (double)s->thread[t].passes)
      return toll_wrong(r, "thread %u did not add up its part of the vector in each pass", t);
  }
  return TOLL_OK;
}

static inline enum toll_status stream_check(struct toll_run *r, stream_expected *expected) {
  const struct stream *s = (const struct stream *)r->state;
  for (unsigned t = 0; t < s->threads; t++) {
    const struct thread *own = &s->thread[t];
    if (!own->passes) return toll_wrong(r, "thread %u made no pass", t);
    for (size_t i = 0; i < own->part.count; i++)
      if (own->part.out[i] != expected(s, own, i))
        return toll_wrong(r, "element %zu of thread %u is not what %s makes it", i, t, s->kernel->name);
  }
  return TOLL_OK;
}

static inline double last_scalar(const struct thread *own) {
  return scalar_of(own->batches - 1);
}

static inline void stream_work(const struct toll_run *r, struct toll_work *work) {
  const struct stream *s = (const struct stream *)r->state;
  double vector = (double)(s->part_bytes - KEPT_FREE * sizeof(double)) * s->threads;
  work->bytes = vector * s->kernel->vectors;
  work->bus_bytes = work->bytes + (s->non_temporal ? 0 : vector * s->kernel->stored);
}

static const char *const stream_stores[] = {"ordinary", "non_temporal", NULL};
#define STREAM_PARAMETERS(names)                                                                 \
  {.name = "kernel", .kind = TOLL_CHOICE, .summary = "the loop", .choices = names},              \
      {.name = "threads",                                                                        \
       .kind = TOLL_COUNT,                                                                       \
       .summary = "threads, one a CPU",                                                          \
       .from = 1,                                                                                \
       .to = 1,                                                                                  \
       .to_scale = TOLL_TIMES_CPUS,                                                              \
       .per_octave = 1},                                                                         \
      {.name = "size",                                                                           \
       .kind = TOLL_SIZE,                                                                        \
       .summary = "bytes of one vector, for each last cache that the threads have between them", \
       .from = 16 << 20,                                                                         \
       .to = 4,                                                                                  \
       .to_scale = TOLL_TIMES_LAST_CACHE,                                                        \
       .per_octave = 1,                                                                          \
       .typical = "4xLAST"},                                                                     \
  {                                                                                              \
    .name = "stores", .kind = TOLL_CHOICE, .summary = "ordinary stores, or non-temporal stores", \
    .choices = stream_stores                                                                     \
  }
#define STREAM_ROLE \
  { .name = "thread", .body = stream_body, .worker = TOLL_THREAD, .pace = TOLL_LOCKSTEP, .count = stream_companions }

#endif
