/* SPDX-License-Identifier: Apache-2.0
 *
 * A finite impulse response filter of 32 taps over n outputs: the kernel with which users of ARM without an FPU compared
 * trapped and soft floating point, and found a factor of ten (suite eabi-2007).
 *
 * 64 operations for each element that is loaded anew: it stays inside the first cache whatever n is, so it is the
 * arithmetic alone, where dot and distance are arithmetic and memory. Four outputs go at once, since the sums of one
 * output would wait for each other.
 */
#include "vectors.h"

enum { TAPS = 32 };

struct fir {
  size_t n;
  void *taps, *input, *output;
};

TOLL_APART static void filter_float(const float *h, const float *x, float *y, size_t n) {
  for (size_t i = 0; i + 4 <= n; i += 4, x += 4, y += 4) {
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (size_t k = 0; k < TAPS; k++) {
      s0 += h[k] * x[k];
      s1 += h[k] * x[k + 1];
      s2 += h[k] * x[k + 2];
      s3 += h[k] * x[k + 3];
    }
    y[0] = s0, y[1] = s1, y[2] = s2, y[3] = s3;
  }
}

TOLL_APART static void filter_double(const double *h, const double *x, double *y, size_t n) {
  for (size_t i = 0; i + 4 <= n; i += 4, x += 4, y += 4) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (size_t k = 0; k < TAPS; k++) {
      s0 += h[k] * x[k];
      s1 += h[k] * x[k + 1];
      s2 += h[k] * x[k + 2];
      s3 += h[k] * x[k + 3];
    }
    y[0] = s0, y[1] = s1, y[2] = s2, y[3] = s3;
  }
}

static enum toll_status prepare(struct toll_run *r) {
  struct fir *fir = r->state;
  uint64_t random = r->seed;
  fir->n = (size_t)toll_number(r, "n");
  if (fir->n < 4 || fir->n % 4) return toll_skip(r, "n is filtered in fours, and %zu is not a multiple", fir->n);
  fir->taps = vectors_array(r, TAPS, 0);
  fir->input = vectors_array(r, fir->n + TAPS, 1);
  fir->output = vectors_array(r, fir->n, 2);
  if (!fir->taps || !fir->input || !fir->output) return toll_refused(r);
  vectors_fill(r, fir->taps, TAPS, &random);
  vectors_fill(r, fir->input, fir->n + TAPS, &random);
  return TOLL_OK;
}

static void filter(struct toll_run *r) {
  const struct fir *fir = r->state;
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  for (uint64_t i = r->iterations; i; i--)
    if (single)
      filter_float(fir->taps, fir->input, fir->output, fir->n);
    else
      filter_double(fir->taps, fir->input, fir->output, fir->n);
}

static bool output_is_right(const struct toll_run *r, const struct fir *fir, size_t i) {
  long double expected = 0, magnitude = 0;
  for (size_t k = 0; k < TAPS; k++) {
    const long double product = vectors_get(r, fir->taps, k) * vectors_get(r, fir->input, i + k);
    expected += product;
    magnitude += fabsl(product);
  }
  return fabsl(vectors_get(r, fir->output, i) - expected) <= vectors_tolerance(r, TAPS, magnitude);
}

/* Every output; then they are forgotten, so that the next look sees what was computed since. */
static enum toll_status check(struct toll_run *r) {
  const struct fir *fir = r->state;
  for (size_t i = 0; i < fir->n; i++)
    if (!output_is_right(r, fir, i)) return toll_wrong(r, "output %zu of %zu is wrong", i, fir->n);
  vectors_forget(r, fir->output, fir->n);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct fir *fir = r->state;
  work->flops = work->operations = 2.0 * TAPS * (double)fir->n;
}

static const struct toll_parameter parameters[] = {VECTORS_N_PARAMETER(1 << 16), VECTORS_PRECISION_PARAMETER, {0}};
static const struct toll_metric metrics[] = {
    {.name = "rate",
     .unit = "flop/s",
     .better = TOLL_MORE,
     .summary = "multiplications and additions a second",
     .means = "flops-of-n"},
    {.name = "operation", .unit = "ns", .summary = "one multiplication or addition"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is a filter of 32 taps, which is arithmetic and hardly any memory?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct fir),
    .prepare = prepare,
    .body = filter,
    .check = check,
    .work = work,
    .revision = 1,
};
