/* SPDX-License-Identifier: Apache-2.0
 *
 * The dot product of two vectors: one multiplication and one addition an element, two streams of loads.
 *
 * Eight sums are kept in the source, as no compiler may reorder floating-point additions by itself: with one sum the
 * rate would be the latency of an addition at every n, and the knees where the vectors leave a cache would drown in it.
 * Where each operation is emulated, n changes nothing until a soft-float library and the vectors compete for a cache:
 * that difference is what the old ARM ABI and EABI were told apart by (suite eabi-2007).
 */
#include "vectors.h"

struct dot {
  size_t n;
  void *a, *b;
  double result;
};

TOLL_APART static float dot_float(const float *a, const float *b, size_t n) {
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
  for (; n >= 8; a += 8, b += 8, n -= 8) {
    s0 += a[0] * b[0];
    s1 += a[1] * b[1];
    s2 += a[2] * b[2];
    s3 += a[3] * b[3];
    s4 += a[4] * b[4];
    s5 += a[5] * b[5];
    s6 += a[6] * b[6];
    s7 += a[7] * b[7];
  }
  for (; n; n--) s0 += *a++ * *b++;
  return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
}

TOLL_APART static double dot_double(const double *a, const double *b, size_t n) {
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
  for (; n >= 8; a += 8, b += 8, n -= 8) {
    s0 += a[0] * b[0];
    s1 += a[1] * b[1];
    s2 += a[2] * b[2];
    s3 += a[3] * b[3];
    s4 += a[4] * b[4];
    s5 += a[5] * b[5];
    s6 += a[6] * b[6];
    s7 += a[7] * b[7];
  }
  for (; n; n--) s0 += *a++ * *b++;
  return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
}

static enum toll_status prepare(struct toll_run *r) {
  struct dot *dot = r->state;
  uint64_t random = r->seed;
  dot->n = (size_t)toll_number(r, "n");
  dot->a = vectors_array(r, dot->n, 0);
  dot->b = vectors_array(r, dot->n, 1);
  if (!dot->a || !dot->b) return toll_refused(r);
  vectors_fill(r, dot->a, dot->n, &random);
  vectors_fill(r, dot->b, dot->n, &random);
  return TOLL_OK;
}

static void multiply(struct toll_run *r) {
  struct dot *dot = r->state;
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  double result = 0;
  for (uint64_t i = r->iterations; i; i--)
    result = single ? dot_float(dot->a, dot->b, dot->n) : dot_double(dot->a, dot->b, dot->n);
  dot->result = result;
}

/* Taken away after each look, so that the next one sees what was computed since. */
static enum toll_status check(struct toll_run *r) {
  struct dot *dot = r->state;
  long double expected = 0, magnitude = 0;
  for (size_t i = 0; i < dot->n; i++) {
    const long double product = vectors_get(r, dot->a, i) * vectors_get(r, dot->b, i);
    expected += product;
    magnitude += fabsl(product);
  }
  const double found = dot->result;
  dot->result = NAN;
  if (fabsl(found - expected) <= vectors_tolerance(r, dot->n, magnitude)) return TOLL_OK;
  return toll_wrong(r, "the dot product is %.17g, not %.17g", found, (double)expected);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct dot *dot = r->state;
  work->flops = work->operations = 2.0 * (double)dot->n;
  work->bytes =
      2.0 * (double)dot->n * (toll_choice(r, "precision") == PRECISION_FLOAT ? sizeof(float) : sizeof(double));
}

static const struct toll_parameter parameters[] = {VECTORS_N_PARAMETER(1 << 20), VECTORS_PRECISION_PARAMETER, {0}};
static const struct toll_metric metrics[] = {{.name = "rate",
                                              .unit = "flop/s",
                                              .better = TOLL_MORE,
                                              .summary = "multiplications and additions a second",
                                              .means = "flops-of-n"},
                                             {.name = "operation",
                                              .unit = "ns",
                                              .summary = "one multiplication or addition",
                                              .toll = "floating-point operation, {precision} (dot product)"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is a dot product, and where does its length leave a cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct dot),
    .prepare = prepare,
    .body = multiply,
    .check = check,
    .work = work,
    .revision = 1,
};
