/* SPDX-License-Identifier: Apache-2.0
 *
 * The Euclidean distance of two points, squared: subtraction, square and sum for each coordinate. The root is left out:
 * there is one for all coordinates, and the soft-float libraries here have none.
 *
 * Four sums for the reason that the dot product has eight; with one more subtraction for each element the adder has two
 * thirds of the work, which shows an emulation whose addition is slower than its multiplication (alignment and
 * normalisation are loops or shifts, the product is one instruction on most integer units).
 */
#include "vectors.h"

#ifdef TOLL_FPA
extern "C" {
void fpa_distance_single(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result);
void fpa_distance_double(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result);
}
#endif

namespace {

#ifdef TOLL_FPA
void measure(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result) {
  fpa_distance_single(a, b, n, result);
}
void measure(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result) {
  fpa_distance_double(a, b, n, result);
}
#endif

template <class Number>
inline Number squared(Number difference) {
  return difference * difference;
}

/* n is a multiple of four. */
template <class Number>
TOLL_NOINLINE void measure(const Number *a, const Number *b, size_t n, Number *result) {
  Number s0 = squared(a[0] - b[0]), s1 = squared(a[1] - b[1]), s2 = squared(a[2] - b[2]), s3 = squared(a[3] - b[3]);
  for (n -= 4, a += 4, b += 4; n; a += 4, b += 4, n -= 4) {
    s0 = s0 + squared(a[0] - b[0]);
    s1 = s1 + squared(a[1] - b[1]);
    s2 = s2 + squared(a[2] - b[2]);
    s3 = s3 + squared(a[3] - b[3]);
  }
  *result = (s0 + s1) + (s2 + s3);
}

struct distance {
  size_t n;
  void *a, *b, *result;
  uint64_t iterations;

  template <class Number>
  void run() {
    for (uint64_t i = iterations; i; i--)
      measure(static_cast<const Number *>(a), static_cast<const Number *>(b), n, static_cast<Number *>(result));
  }
};

enum toll_status prepare(struct toll_run *r) {
  struct distance *distance = static_cast<struct distance *>(r->state);
  uint64_t random = r->seed;
  distance->n = static_cast<size_t>(toll_number(r, "n"));
  if (distance->n < 4 || distance->n % 4)
    return toll_skip(r, "n is taken in fours, and %zu is no multiple", distance->n);
  distance->a = vectors_array(r, distance->n, 0);
  distance->b = vectors_array(r, distance->n, 1);
  distance->result = vectors_array(r, 1, 2);
  if (!distance->a || !distance->b || !distance->result) return toll_refused(r);
  vectors_fill(r, distance->a, distance->n, &random);
  vectors_fill(r, distance->b, distance->n, &random);
  return ways_prepare(r);
}

void body(struct toll_run *r) {
  struct distance *distance = static_cast<struct distance *>(r->state);
  distance->iterations = r->iterations;
  ways_run(r, vectors_single(r), *distance);
}

/* Squares do not cancel, so the result's error is relative to itself. */
enum toll_status check(struct toll_run *r) {
  const struct distance *distance = static_cast<struct distance *>(r->state);
  long double expected = 0;
  for (size_t i = 0; i < distance->n; i++) {
    const long double difference = vectors_get(r, distance->a, i) - vectors_get(r, distance->b, i);
    expected += difference * difference;
  }
  const long double found = vectors_get(r, distance->result, 0);
  vectors_forget(r, distance->result, 1);
  if (fabsl(found - expected) <= vectors_tolerance(r, distance->n, expected)) return TOLL_OK;
  return toll_wrong(r, "the squared distance is %.17g, not %.17g", static_cast<double>(found),
                    static_cast<double>(expected));
}

void work(const struct toll_run *r, struct toll_work *work) {
  const double n = static_cast<double>(toll_number(r, "n"));
  work->flops = work->operations = 3 * n;
  work->bytes = work->footprint_bytes = 2 * n * static_cast<double>(vectors_width(r));
}

const struct toll_parameter parameters[] = {vectors_length(LONGEST_VECTOR), vectors_precision, vectors_way, {}};
const struct toll_metric metrics[] = {{.name = "rate",
                                       .unit = "flop/s",
                                       .better = TOLL_MORE,
                                       .summary = "subtractions, multiplications and additions a second",
                                       .means = "flops-of-n"},
                                      {.name = "operation",
                                       .unit = "ns",
                                       .summary = "one subtraction, multiplication or addition",
                                       .means = "operation-of-n"},
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "How fast is the distance of two points, and where does its length leave a cache?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct distance),
    .prepare = prepare,
    .body = body,
    .check = check,
    .work = work,
    .revision = 2,
};
