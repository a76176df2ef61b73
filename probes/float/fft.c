/* SPDX-License-Identifier: Apache-2.0
 *
 * The complex radix-2 transform: 10 operations a butterfly, n/2 log2 n butterflies, 5 n log2 n operations by everyone's
 * convention. Its strides of all powers of two meet every cache at its worst, where dot and distance meet it at its best.
 *
 * Trust before speed: some outputs are summed up from the definition, with an exact angle for each term, and all of them
 * together must have n times the input's energy (Parseval). The error allowed is Higham's bound for the transform's
 * relative error in the 2-norm, log2(n) times about 7 u (Accuracy and Stability, theorem 24.2), where a wrong turn
 * anywhere makes an error of order one.
 */
#include "vectors.h"

#define REAL      float
#define TRANSFORM transform_float
#include "transform.h"
#undef REAL
#undef TRANSFORM
#define REAL      double
#define TRANSFORM transform_double
#include "transform.h"

struct fft {
  size_t n;
  unsigned stages;
  void *input, *output, *turns;
  uint32_t *place;
  uint64_t random; /* which outputs are looked at */
};

static const long double circle = 6.283185307179586476925286766559L;

static void fill_turns(struct toll_run *r, struct fft *fft) {
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  for (size_t k = 0; k < fft->n / 2; k++) {
    const double angle = (double)(circle * (long double)k / (long double)fft->n), re = cos(angle), im = -sin(angle);
    if (single)
      ((float *)fft->turns)[2 * k] = (float)re, ((float *)fft->turns)[2 * k + 1] = (float)im;
    else
      ((double *)fft->turns)[2 * k] = re, ((double *)fft->turns)[2 * k + 1] = im;
  }
}

static void fill_places(struct fft *fft) {
  for (size_t k = 1; k < fft->n; k++) fft->place[k] = fft->place[k / 2] / 2 | (uint32_t)((k & 1) << (fft->stages - 1));
}

static enum toll_status prepare(struct toll_run *r) {
  struct fft *fft = r->state;
  fft->n = (size_t)toll_number(r, "n");
  if (fft->n < 2 || (fft->n & (fft->n - 1))) return toll_skip(r, "n is a power of two here, and %zu is none", fft->n);
  while ((size_t)1 << fft->stages < fft->n) fft->stages++;
  fft->random = r->seed;
  fft->input = vectors_array(r, 2 * fft->n, 0);
  fft->output = vectors_array(r, 2 * fft->n, 1);
  fft->turns = vectors_array(r, fft->n, 2);
  fft->place = toll_buffer(r, (struct toll_buffer_request){.bytes = fft->n * sizeof *fft->place, .colour = 3});
  if (!fft->input || !fft->output || !fft->turns || !fft->place) return toll_refused(r);
  vectors_fill(r, fft->input, 2 * fft->n, &fft->random);
  fill_turns(r, fft);
  fill_places(fft);
  return TOLL_OK;
}

static void transform(struct toll_run *r) {
  const struct fft *fft = r->state;
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  for (uint64_t i = r->iterations; i; i--)
    if (single)
      transform_float(fft->input, fft->output, fft->turns, fft->place, fft->n);
    else
      transform_double(fft->input, fft->output, fft->turns, fft->place, fft->n);
}

struct total {
  long double sum, lost; /* what rounding took from the sum (Kahan) */
};

static void add(struct total *total, long double value) {
  const long double corrected = value - total->lost, sum = total->sum + corrected;
  total->lost = (sum - total->sum) - corrected;
  total->sum = sum;
}

static long double energy(const struct toll_run *r, const void *array, size_t count) {
  struct total total = {0, 0};
  for (size_t i = 0; i < count; i++) add(&total, vectors_get(r, array, i) * vectors_get(r, array, i));
  return total.sum;
}

/* The squared error of output k against its definition. */
static long double error_of(const struct toll_run *r, const struct fft *fft, size_t k) {
  struct total re = {0, 0}, im = {0, 0};
  for (size_t j = 0; j < fft->n; j++) {
    const long double angle = circle * (long double)(j * k % fft->n) / (long double)fft->n;
    const long double c = cosl(angle), s = -sinl(angle);
    const long double x = vectors_get(r, fft->input, 2 * j), y = vectors_get(r, fft->input, 2 * j + 1);
    add(&re, x * c - y * s);
    add(&im, x * s + y * c);
  }
  const long double u = vectors_get(r, fft->output, 2 * k) - re.sum;
  const long double v = vectors_get(r, fft->output, 2 * k + 1) - im.sum;
  return u * u + v * v;
}

/* All outputs of a short transform; of a long one a few, others each time, so that the definition's n terms for each
 * stay within the time of a visit. */
static long double mean_square_error(const struct toll_run *r, struct fft *fft) {
  enum { ALL = 256, TERMS = 1 << 16 };
  const bool all = fft->n <= ALL;
  const size_t looks = all ? fft->n : TERMS / fft->n + 2;
  long double sum = 0;
  for (size_t i = 0; i < looks; i++) {
    const size_t k = all ? i : (size_t)toll_random_below(&fft->random, fft->n);
    sum += error_of(r, fft, k);
  }
  return sum / (long double)looks;
}

static enum toll_status check(struct toll_run *r) {
  struct fft *fft = r->state;
  const long double u = (toll_choice(r, "precision") == PRECISION_FLOAT ? FLT_EPSILON : DBL_EPSILON) / 2;
  const long double bound = 7 * u * (long double)fft->stages, input = energy(r, fft->input, 2 * fft->n);
  const long double error = sqrtl(mean_square_error(r, fft) / input); /* each output has the input's energy */
  const long double gained = energy(r, fft->output, 2 * fft->n) / ((long double)fft->n * input) - 1;
  vectors_forget(r, fft->output, 2 * fft->n);
  if (!(error <= bound))
    return toll_wrong(r, "outputs are off by %.3g, and at most by %.3g if right", (double)error, (double)bound);
  if (!(fabsl(gained) <= 2 * bound + bound * bound))
    return toll_wrong(r, "the transform gained %.3g of energy", (double)gained);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct fft *fft = r->state;
  work->flops = work->operations = 5.0 * (double)fft->n * fft->stages;
}

static const struct toll_parameter parameters[] = {VECTORS_N_PARAMETER(1 << 20), VECTORS_PRECISION_PARAMETER, {0}};
static const struct toll_metric metrics[] = {
    {.name = "rate",
     .unit = "flop/s",
     .better = TOLL_MORE,
     .summary = "operations a second, 5 n log2 n of them to a transform",
     .means = "flops-of-n"},
    {.name = "operation", .unit = "ns", .summary = "one of the 5 n log2 n operations"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is a Fourier transform, and where does its length leave a cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct fft),
    .prepare = prepare,
    .body = transform,
    .check = check,
    .work = work,
    .revision = 1,
};
