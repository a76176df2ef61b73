/* SPDX-License-Identifier: Apache-2.0
 *
 * The four loops of STREAM2 (McCalpin): fill writes one vector, sum reads one, copy does both, and daxpy reads two and
 * writes one of them back, so that reads and writes can be separated where STREAM always mixes them.
 */
#include "stream.h"

STREAM_WIDTHS(copy, a)
STREAM_WIDTHS_NT(copy, a)

STREAM_WIDTHS(fill, s)
STREAM_WIDTHS_NT(fill, s)
STREAM_WIDTHS(daxpy, o + s * a)

/* Eight accumulators: an addition of doubles takes two to four cycles, and two loads begin in each. */
#define SUM_KERNEL(name, target_cpu, width)                                                \
  target_cpu TOLL_NOINLINE static void name(struct part *part, double scalar) {            \
    typedef double lanes __attribute__((vector_size(width), may_alias));                   \
    lanes a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};          \
    const lanes *x = (const lanes *)(const void *)part->x;                                 \
    (void)scalar;                                                                          \
    for (size_t left = part->count * sizeof(double) / (8 * width); left; left--, x += 8) { \
      a += x[0], b += x[1], c += x[2], d += x[3];                                          \
      e += x[4], f += x[5], g += x[6], h += x[7];                                          \
    }                                                                                      \
    a += b + c + d + e + f + g + h;                                                        \
    for (size_t i = 0; i < width / sizeof(double); i++) part->sum += a[i];                 \
  }

#if defined(__x86_64__) || defined(__i386__)
SUM_KERNEL(sum_base, TARGET_SSE2, 16)
SUM_KERNEL(sum_avx2, TARGET_AVX2, 32)
SUM_KERNEL(sum_avx512, TARGET_AVX512, 64)
#else
SUM_KERNEL(sum_base, , 16)
#endif

enum { FILL, COPY, DAXPY, SUM };

/* Non-temporal stores are used only for lines that the loop has not read. */
static const struct stream_kernel kernels[] = {
    [FILL] = {"fill", 1, 1, STREAM_RUNS(fill), STREAM_RUNS_NT(fill)},
    [COPY] = {"copy", 2, 1, STREAM_RUNS(copy), STREAM_RUNS_NT(copy)},
    [DAXPY] = {"daxpy", 3, 0, STREAM_RUNS(daxpy), STREAM_NONE},
    [SUM] = {"sum", 1, 0, STREAM_RUNS(sum), STREAM_NONE},
};

static enum toll_status prepare(struct toll_run *r) {
  return stream_prepare(r, kernels);
}

static double expected(const struct stream *s, const struct thread *own, size_t i) {
  switch (s->kernel - kernels) {
    case FILL: return last_scalar(own);
    case COPY: return x_of(i);
    default: return y_of(i) + own->scalars * x_of(i);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct stream *s = r->state;
  return s->kernel == &kernels[SUM] ? stream_check_sums(r) : stream_check(r, expected);
}

static const struct toll_role roles[] = {STREAM_ROLE, {0}};
static const char *const names[] = {"fill", "copy", "daxpy", "sum", NULL};
static const struct toll_parameter parameters[] = {STREAM_PARAMETERS(names), {0}};
static const struct toll_metric metrics[] = {{.name = "rate",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes a second as STREAM2 counts them, each vector once "
                                                         "for each time it is read or written"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How fast are reading and writing of long vectors, apart and together?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct stream),
    .prepare = prepare,
    .body = stream_body,
    .check = check,
    .work = stream_work,
    .roles = roles,
    .revision = 2,
};
