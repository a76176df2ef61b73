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

#ifdef TOLL_FPA
extern "C" {
void fpa_fir_single(const fpa<float> *taps, const fpa<float> *input, fpa<float> *output, size_t n);
void fpa_fir_double(const fpa<double> *taps, const fpa<double> *input, fpa<double> *output, size_t n);
}
#endif

namespace {

#ifdef TOLL_FPA
void filter(const fpa<float> *h, const fpa<float> *x, fpa<float> *y, size_t n) {
  fpa_fir_single(h, x, y, n);
}
void filter(const fpa<double> *h, const fpa<double> *x, fpa<double> *y, size_t n) {
  fpa_fir_double(h, x, y, n);
}
#endif

template <class Number>
TOLL_NOINLINE void filter(const Number *h, const Number *x, Number *y, size_t n) {
  for (size_t i = 0; i < n; i += 4, x += 4, y += 4) {
    Number s0 = h[0] * x[0], s1 = h[0] * x[1], s2 = h[0] * x[2], s3 = h[0] * x[3];
    for (size_t k = 1; k < TAPS; k++) {
      s0 = s0 + h[k] * x[k];
      s1 = s1 + h[k] * x[k + 1];
      s2 = s2 + h[k] * x[k + 2];
      s3 = s3 + h[k] * x[k + 3];
    }
    y[0] = s0, y[1] = s1, y[2] = s2, y[3] = s3;
  }
}

struct fir {
  size_t n;
  void *taps, *input, *output;
  uint64_t iterations;

  template <class Number>
  void run() {
    for (uint64_t i = iterations; i; i--)
      filter(static_cast<const Number *>(taps), static_cast<const Number *>(input), static_cast<Number *>(output), n);
  }
};

enum toll_status prepare(struct toll_run *r) {
  struct fir *fir = static_cast<struct fir *>(r->state);
  uint64_t random = r->seed;
  fir->n = static_cast<size_t>(toll_number(r, "n"));
  if (fir->n < 4 || fir->n % 4) return toll_skip(r, "n is filtered in fours, and %zu is no multiple", fir->n);
  fir->taps = vectors_array(r, TAPS, 0);
  fir->input = vectors_array(r, fir->n + TAPS, 1);
  fir->output = vectors_array(r, fir->n, 2);
  if (!fir->taps || !fir->input || !fir->output) return toll_refused(r);
  vectors_fill(r, fir->taps, TAPS, &random);
  vectors_fill(r, fir->input, fir->n + TAPS, &random);
  return ways_prepare(r);
}

void body(struct toll_run *r) {
  struct fir *fir = static_cast<struct fir *>(r->state);
  fir->iterations = r->iterations;
  ways_run(r, vectors_single(r), *fir);
}

bool output_is_right(const struct toll_run *r, const struct fir *fir, size_t i) {
  long double expected = 0, magnitude = 0;
  for (size_t k = 0; k < TAPS; k++) {
    const long double product = vectors_get(r, fir->taps, k) * vectors_get(r, fir->input, i + k);
    expected += product;
    magnitude += fabsl(product);
  }
  return fabsl(vectors_get(r, fir->output, i) - expected) <= vectors_tolerance(r, TAPS, magnitude);
}

/* Checks every output, then clears them, so that the next check sees only new results. */
enum toll_status check(struct toll_run *r) {
  const struct fir *fir = static_cast<struct fir *>(r->state);
  for (size_t i = 0; i < fir->n; i++)
    if (!output_is_right(r, fir, i)) return toll_wrong(r, "output %zu of %zu is wrong", i, fir->n);
  vectors_forget(r, fir->output, fir->n);
  return TOLL_OK;
}

void work(const struct toll_run *r, struct toll_work *work) {
  work->flops = work->operations = 2 * static_cast<double>(TAPS * toll_number(r, "n"));
  work->footprint_bytes = static_cast<double>((2 * toll_number(r, "n") + 2 * TAPS) * vectors_width(r));
}

const struct toll_parameter parameters[] = {vectors_length(1 << 16), vectors_precision, vectors_way, {}};
const struct toll_metric metrics[] = {
    {.name = "rate",
     .unit = "flop/s",
     .better = TOLL_MORE,
     .summary = "multiplications and additions a second",
     .means = "flops-of-n"},
    {.name = "operation", .unit = "ns", .summary = "one multiplication or addition", .means = "operation-of-n"},
    {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "How fast is a filter of 32 taps, which is arithmetic and hardly any memory?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct fir),
    .prepare = prepare,
    .body = body,
    .check = check,
    .work = work,
    .revision = 2,
};
