/* SPDX-License-Identifier: Apache-2.0
 *
 * The Euclidean distance of two points: subtraction, square and sum for each coordinate, one root for all.
 *
 * Four sums for the reason that the dot product has eight; a subtraction more for each element gives the adder two thirds
 * of the work, which tells an emulation whose addition is dearer than its multiplication (alignment and normalisation
 * are loops or shifts, the product is one instruction on most integer units).
 */
#include "vectors.h"

struct distance {
  size_t n;
  void *a, *b;
  double result;
};

TOLL_APART static float distance_float(const float *a, const float *b, size_t n) {
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (; n >= 4; a += 4, b += 4, n -= 4) {
    const float d0 = a[0] - b[0], d1 = a[1] - b[1], d2 = a[2] - b[2], d3 = a[3] - b[3];
    s0 += d0 * d0;
    s1 += d1 * d1;
    s2 += d2 * d2;
    s3 += d3 * d3;
  }
  for (; n; n--, a++, b++) s0 += (*a - *b) * (*a - *b);
  return sqrtf((s0 + s1) + (s2 + s3));
}

TOLL_APART static double distance_double(const double *a, const double *b, size_t n) {
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (; n >= 4; a += 4, b += 4, n -= 4) {
    const double d0 = a[0] - b[0], d1 = a[1] - b[1], d2 = a[2] - b[2], d3 = a[3] - b[3];
    s0 += d0 * d0;
    s1 += d1 * d1;
    s2 += d2 * d2;
    s3 += d3 * d3;
  }
  for (; n; n--, a++, b++) s0 += (*a - *b) * (*a - *b);
  return sqrt((s0 + s1) + (s2 + s3));
}

static enum toll_status prepare(struct toll_run *r) {
  struct distance *distance = r->state;
  uint64_t random = r->seed;
  distance->n = (size_t)toll_number(r, "n");
  distance->a = vectors_array(r, distance->n, 0);
  distance->b = vectors_array(r, distance->n, 1);
  if (!distance->a || !distance->b) return toll_refused(r);
  vectors_fill(r, distance->a, distance->n, &random);
  vectors_fill(r, distance->b, distance->n, &random);
  return TOLL_OK;
}

static void measure(struct toll_run *r) {
  struct distance *distance = r->state;
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  double result = 0;
  for (uint64_t i = r->iterations; i; i--)
    result = single ? distance_float(distance->a, distance->b, distance->n)
                    : distance_double(distance->a, distance->b, distance->n);
  distance->result = result;
}

/* Taken away after each look, so that the next one sees what was computed since. Squares do not cancel, so the
 * result's error is relative to itself. */
static enum toll_status check(struct toll_run *r) {
  struct distance *distance = r->state;
  long double squares = 0;
  for (size_t i = 0; i < distance->n; i++) {
    const long double difference = vectors_get(r, distance->a, i) - vectors_get(r, distance->b, i);
    squares += difference * difference;
  }
  const long double expected = sqrtl(squares);
  const double found = distance->result;
  distance->result = NAN;
  if (fabsl(found - expected) <= vectors_tolerance(r, distance->n, expected)) return TOLL_OK;
  return toll_wrong(r, "the distance is %.17g, not %.17g", found, (double)expected);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct distance *distance = r->state;
  work->flops = work->operations = 3.0 * (double)distance->n + 1;
  work->bytes =
      2.0 * (double)distance->n * (toll_choice(r, "precision") == PRECISION_FLOAT ? sizeof(float) : sizeof(double));
}

static const struct toll_parameter parameters[] = {VECTORS_N_PARAMETER(1 << 20), VECTORS_PRECISION_PARAMETER, {0}};
static const struct toll_metric metrics[] = {
    {.name = "rate",
     .unit = "flop/s",
     .better = TOLL_MORE,
     .summary = "subtractions, multiplications and additions a second",
     .means = "flops-of-n"},
    {.name = "operation", .unit = "ns", .summary = "one subtraction, multiplication or addition"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is the distance of two points, and where does its length leave a cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct distance),
    .prepare = prepare,
    .body = measure,
    .check = check,
    .work = work,
    .revision = 1,
};
