/* SPDX-License-Identifier: Apache-2.0
 *
 * The dot product of two vectors: one multiplication and one addition an element, two streams of loads.
 *
 * Eight sums are kept in the source, as no compiler may reorder floating-point additions by itself: with one sum the
 * rate would be limited by the latency of an addition at every n, and the knees at the capacities of the caches would
 * not show. If each operation is emulated, n has no effect until a soft-float library and the vectors compete for a
 * cache: this difference distinguished the old ARM ABI from EABI (suite eabi-2007).
 */
#include "vectors.h"

#ifdef TOLL_FPA
extern "C" {
void fpa_dot_single(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result);
void fpa_dot_double(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result);
}
#endif

namespace {

#ifdef TOLL_FPA
void multiply(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result) {
  fpa_dot_single(a, b, n, result);
}
void multiply(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result) {
  fpa_dot_double(a, b, n, result);
}
#endif

/* n is a multiple of eight. */
template <class Number>
TOLL_NOINLINE void multiply(const Number *a, const Number *b, size_t n, Number *result) {
  Number s0 = a[0] * b[0], s1 = a[1] * b[1], s2 = a[2] * b[2], s3 = a[3] * b[3];
  Number s4 = a[4] * b[4], s5 = a[5] * b[5], s6 = a[6] * b[6], s7 = a[7] * b[7];
  for (n -= 8, a += 8, b += 8; n; a += 8, b += 8, n -= 8) {
    s0 = s0 + a[0] * b[0];
    s1 = s1 + a[1] * b[1];
    s2 = s2 + a[2] * b[2];
    s3 = s3 + a[3] * b[3];
    s4 = s4 + a[4] * b[4];
    s5 = s5 + a[5] * b[5];
    s6 = s6 + a[6] * b[6];
    s7 = s7 + a[7] * b[7];
  }
  *result = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
}

struct dot {
  size_t n;
  void *a, *b, *result;
  uint64_t iterations;

  template <class Number>
  void run() {
    for (uint64_t i = iterations; i; i--)
      multiply(static_cast<const Number *>(a), static_cast<const Number *>(b), n, static_cast<Number *>(result));
  }
};

enum toll_status prepare(struct toll_run *r) {
  struct dot *dot = static_cast<struct dot *>(r->state);
  uint64_t random = r->seed;
  dot->n = static_cast<size_t>(toll_number(r, "n"));
  if (dot->n < 8 || dot->n % 8) return toll_skip(r, "n is taken in eights, and %zu is no multiple", dot->n);
  dot->a = vectors_array(r, dot->n, 0);
  dot->b = vectors_array(r, dot->n, 1);
  dot->result = vectors_array(r, 1, 2);
  if (!dot->a || !dot->b || !dot->result) return toll_refused(r);
  vectors_fill(r, dot->a, dot->n, &random);
  vectors_fill(r, dot->b, dot->n, &random);
  return ways_prepare(r);
}

void body(struct toll_run *r) {
  struct dot *dot = static_cast<struct dot *>(r->state);
  dot->iterations = r->iterations;
  ways_run(r, vectors_single(r), *dot);
}

enum toll_status check(struct toll_run *r) {
  const struct dot *dot = static_cast<struct dot *>(r->state);
  long double expected = 0, magnitude = 0;
  for (size_t i = 0; i < dot->n; i++) {
    const long double product = vectors_get(r, dot->a, i) * vectors_get(r, dot->b, i);
    expected += product;
    magnitude += fabsl(product);
  }
  const long double found = vectors_get(r, dot->result, 0);
  vectors_forget(r, dot->result, 1);
  if (fabsl(found - expected) <= vectors_tolerance(r, dot->n, magnitude)) return TOLL_OK;
  return toll_wrong(r, "the dot product is %.17g, not %.17g", static_cast<double>(found),
                    static_cast<double>(expected));
}

void work(const struct toll_run *r, struct toll_work *work) {
  const double n = static_cast<double>(toll_number(r, "n"));
  work->flops = work->operations = 2 * n;
  work->bytes = work->footprint_bytes = 2 * n * static_cast<double>(vectors_width(r));
}

const struct toll_parameter parameters[] = {vectors_length(LONGEST_VECTOR), vectors_precision, vectors_way, {}};
const struct toll_metric metrics[] = {{.name = "rate",
                                       .unit = "flop/s",
                                       .better = TOLL_MORE,
                                       .summary = "multiplications and additions a second",
                                       .means = "flops-of-n"},
                                      {.name = "operation",
                                       .unit = "ns",
                                       .summary = "one multiplication or addition",
                                       .means = "operation-of-n",
                                       .toll = "floating-point operation, {precision}, {way} (dot product)"},
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "How fast is a dot product, and where does its length leave a cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct dot),
    .prepare = prepare,
    .body = body,
    .check = check,
    .work = work,
    .enters = true,
    .revision = 2,
};
