/* SPDX-License-Identifier: Apache-2.0
 *
 * The complex radix-2 transform: 10 operations a butterfly, n/2 log2 n butterflies, 5 n log2 n operations by everyone's
 * convention. Its strides of all powers of two meet every cache at its worst, where dot and distance meet it at its best.
 *
 * Trust before speed: some outputs are summed up from the definition, with an exact angle for each term, and all of them
 * together must have n times the input's energy (Parseval). The error allowed is Higham's bound for the transform's
 * relative error in the 2-norm, log2(n) times about 7 u (Accuracy and Stability, theorem 24.2), where a wrong twiddle
 * anywhere makes an error of order one.
 */
#include "vectors.h"

#ifdef TOLL_FPA
extern "C" {
/* All butterflies whose halves are `half` apart; the output holds the input in bit-reversed order before the first. */
void fpa_fft_single(fpa<float> *output, const fpa<float> *twiddles, size_t n, size_t half);
void fpa_fft_double(fpa<double> *output, const fpa<double> *twiddles, size_t n, size_t half);
}
#endif

namespace {

/* Decimation in time (Cooley and Tukey 1965). Complex numbers, real and imaginary part side by side; twiddles holds
 * exp(-2 pi i k / n) for k < n/2. */
#ifdef TOLL_FPA
void butterflies(fpa<float> *output, const fpa<float> *twiddles, size_t n, size_t half) {
  fpa_fft_single(output, twiddles, n, half);
}
void butterflies(fpa<double> *output, const fpa<double> *twiddles, size_t n, size_t half) {
  fpa_fft_double(output, twiddles, n, half);
}
#endif

template <class Number>
TOLL_NOINLINE void butterflies(Number *output, const Number *twiddles, size_t n, size_t half) {
  for (size_t start = 0; start < n; start += 2 * half)
    for (size_t k = 0; k < half; k++) {
      Number *a = output + 2 * (start + k), *b = a + 2 * half;
      const Number *twiddle = twiddles + n / half * k;
      const Number re = b[0] * twiddle[0] - b[1] * twiddle[1], im = b[0] * twiddle[1] + b[1] * twiddle[0];
      b[0] = a[0] - re, b[1] = a[1] - im;
      a[0] = a[0] + re, a[1] = a[1] + im;
    }
}

/* bit_reversed[k] is k with its bits reversed. The input is read in that order and not modified, so that a second
 * run transforms the same numbers and no value grows from run to run. */
template <class Number>
void transform(const Number *input, Number *output, const Number *twiddles, const uint32_t *bit_reversed, size_t n) {
  for (size_t k = 0; k < n; k++)
    memcpy(output + 2 * k, input + 2 * static_cast<size_t>(bit_reversed[k]), 2 * sizeof *output);
  for (size_t half = 1; half < n; half *= 2) butterflies(output, twiddles, n, half);
}

/* exp(-2 pi i k / n) for k < n, in the best available precision, for the definition. */
struct exact_twiddle {
  long double re, im;
};

struct fft {
  size_t n;
  unsigned stages;
  void *input, *output, *twiddles;
  uint32_t *bit_reversed;
  struct exact_twiddle *exact;
  uint64_t random; /* which outputs are looked at */
  uint64_t iterations;

  template <class Number>
  void run() {
    for (uint64_t i = iterations; i; i--)
      transform(static_cast<const Number *>(input), static_cast<Number *>(output),
                static_cast<const Number *>(twiddles), bit_reversed, n);
  }
};

const long double circle = 6.283185307179586476925286766559L;

void fill_turns(const struct toll_run *r, struct fft *fft) {
  for (size_t k = 0; k < fft->n / 2; k++) {
    const long double angle = circle * static_cast<long double>(k) / static_cast<long double>(fft->n);
    vectors_put(r, fft->twiddles, 2 * k, cos(static_cast<double>(angle)));
    vectors_put(r, fft->twiddles, 2 * k + 1, -sin(static_cast<double>(angle)));
  }
}

/* Computed once for a layout: each check needs tens of thousands of them, and computing the angles took 17 ms after
 * every visit of 20 ms. */
void fill_exact(struct fft *fft) {
  for (size_t k = 0; k < fft->n; k++) {
    const long double angle = circle * static_cast<long double>(k) / static_cast<long double>(fft->n);
    fft->exact[k] = {cosl(angle), -sinl(angle)};
  }
}

void fill_places(struct fft *fft) {
  for (size_t k = 1; k < fft->n; k++)
    fft->bit_reversed[k] = fft->bit_reversed[k / 2] / 2 | static_cast<uint32_t>((k & 1) << (fft->stages - 1));
}

enum toll_status prepare(struct toll_run *r) {
  struct fft *fft = static_cast<struct fft *>(r->state);
  fft->n = static_cast<size_t>(toll_number(r, "n"));
  if (fft->n < 2 || (fft->n & (fft->n - 1))) return toll_skip(r, "n is a power of two here, and %zu is none", fft->n);
  while (static_cast<size_t>(1) << fft->stages < fft->n) fft->stages++;
  fft->random = r->seed;
  fft->input = vectors_array(r, 2 * fft->n, 0);
  fft->output = vectors_array(r, 2 * fft->n, 1);
  fft->twiddles = vectors_array(r, fft->n, 2);
  struct toll_buffer_request reversed_request = {
      fft->n * sizeof *fft->bit_reversed, TOLL_PAGES_ANY, 0, 3, false, false};
  fft->bit_reversed = static_cast<uint32_t *>(toll_buffer(r, reversed_request));
  struct toll_buffer_request exact = {fft->n * sizeof *fft->exact, TOLL_PAGES_ANY, 0, 4, false, false};
  fft->exact = static_cast<struct exact_twiddle *>(toll_buffer(r, exact));
  if (!fft->input || !fft->output || !fft->twiddles || !fft->bit_reversed || !fft->exact) return toll_refused(r);
  vectors_fill(r, fft->input, 2 * fft->n, &fft->random);
  fill_turns(r, fft);
  fill_exact(fft);
  fill_places(fft);
  return ways_prepare(r);
}

void body(struct toll_run *r) {
  struct fft *fft = static_cast<struct fft *>(r->state);
  fft->iterations = r->iterations;
  ways_run(r, vectors_single(r), *fft);
}

struct total {
  long double sum, lost; /* part of the sum lost by rounding (Kahan) */
};

void add(struct total *total, long double value) {
  const long double corrected = value - total->lost, sum = total->sum + corrected;
  total->lost = (sum - total->sum) - corrected;
  total->sum = sum;
}

long double energy(const struct toll_run *r, const void *array, size_t count) {
  struct total total = {0, 0};
  for (size_t i = 0; i < count; i++) add(&total, vectors_get(r, array, i) * vectors_get(r, array, i));
  return total.sum;
}

/* The squared error of output k against its definition. */
long double error_of(const struct toll_run *r, const struct fft *fft, size_t k) {
  struct total re = {0, 0}, im = {0, 0};
  for (size_t j = 0; j < fft->n; j++) {
    const struct exact_twiddle twiddle = fft->exact[j * k % fft->n];
    const long double x = vectors_get(r, fft->input, 2 * j), y = vectors_get(r, fft->input, 2 * j + 1);
    add(&re, x * twiddle.re - y * twiddle.im);
    add(&im, x * twiddle.im + y * twiddle.re);
  }
  const long double u = vectors_get(r, fft->output, 2 * k) - re.sum;
  const long double v = vectors_get(r, fft->output, 2 * k + 1) - im.sum;
  return u * u + v * v;
}

/* All outputs of a short transform; of a long one a few, others each time, so that the definition's n terms for each
 * stay within the time of a visit. */
long double mean_square_error(const struct toll_run *r, struct fft *fft) {
  enum { ALL = 256, TERMS = 1 << 16 };
  const bool all = fft->n <= ALL;
  const size_t looks = all ? fft->n : TERMS / fft->n + 2;
  long double sum = 0;
  for (size_t i = 0; i < looks; i++) {
    const size_t k = all ? i : static_cast<size_t>(toll_random_below(&fft->random, fft->n));
    sum += error_of(r, fft, k);
  }
  return sum / static_cast<long double>(looks);
}

enum toll_status check(struct toll_run *r) {
  struct fft *fft = static_cast<struct fft *>(r->state);
  const long double u = (vectors_single(r) ? static_cast<double>(FLT_EPSILON) : DBL_EPSILON) / 2;
  const long double bound = 7 * u * fft->stages, input = energy(r, fft->input, 2 * fft->n);
  const long double error = sqrtl(mean_square_error(r, fft) / input); /* each output has the input's energy */
  const long double gained = energy(r, fft->output, 2 * fft->n) / (static_cast<long double>(fft->n) * input) - 1;
  vectors_forget(r, fft->output, 2 * fft->n);
  if (!(error <= bound))
    return toll_wrong(r, "outputs are off by %.3g, and at most by %.3g if right", static_cast<double>(error),
                      static_cast<double>(bound));
  if (!(fabsl(gained) <= 2 * bound + bound * bound))
    return toll_wrong(r, "the transform gained %.3g of energy", static_cast<double>(gained));
  return TOLL_OK;
}

void work(const struct toll_run *r, struct toll_work *work) {
  const struct fft *fft = static_cast<const struct fft *>(r->state);
  work->flops = work->operations = 5.0 * static_cast<double>(fft->n) * fft->stages;
  work->footprint_bytes = static_cast<double>(fft->n * (5 * vectors_width(r) + sizeof *fft->bit_reversed));
}

const struct toll_parameter parameters[] = {vectors_length(LONGEST_VECTOR, 1), vectors_precision, vectors_way, {}};
const struct toll_metric metrics[] = {
    {.name = "rate",
     .unit = "flop/s",
     .better = TOLL_MORE,
     .summary = "operations a second, 5 n log2 n of them to a transform",
     .means = "flops-of-n"},
    {.name = "operation", .unit = "ns", .summary = "one of the 5 n log2 n operations", .means = "operation-of-n"},
    {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "How fast is a Fourier transform, and where does its length leave a cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct fft),
    .prepare = prepare,
    .body = body,
    .check = check,
    .work = work,
    .revision = 2,
};
