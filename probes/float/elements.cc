/* SPDX-License-Identifier: Apache-2.0
 *
 * Division beside multiplication: each element of one vector by that of another, the same loads and stores around both.
 *
 * The elements are independent: an FPU shows the throughput of its divider, which on most is not pipelined, and a
 * library the cost of its loop of subtractions or its table. The study's kernels never divide. A program that divides
 * takes several times as long as they show, by a factor that differs between library, trap and FPU.
 */
#include "vectors.h"

#ifdef TOLL_FPA
extern "C" {
void fpa_multiply_single(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result);
void fpa_multiply_double(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result);
void fpa_divide_single(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result);
void fpa_divide_double(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result);
}
#endif

namespace {

enum { MULTIPLY, DIVIDE };

#ifdef TOLL_FPA
void products(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result) {
  fpa_multiply_single(a, b, n, result);
}
void products(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result) {
  fpa_multiply_double(a, b, n, result);
}
void quotients(const fpa<float> *a, const fpa<float> *b, size_t n, fpa<float> *result) {
  fpa_divide_single(a, b, n, result);
}
void quotients(const fpa<double> *a, const fpa<double> *b, size_t n, fpa<double> *result) {
  fpa_divide_double(a, b, n, result);
}
#endif

template <class Number>
TOLL_NOINLINE void products(const Number *a, const Number *b, size_t n, Number *result) {
  for (size_t i = 0; i < n; i++) result[i] = a[i] * b[i];
}

template <class Number>
TOLL_NOINLINE void quotients(const Number *a, const Number *b, size_t n, Number *result) {
  for (size_t i = 0; i < n; i++) result[i] = a[i] / b[i];
}

struct elements {
  size_t n;
  void *a, *b, *result;
  uint64_t iterations;
  bool divide;

  template <class Number>
  void run() {
    const Number *left = static_cast<const Number *>(a), *right = static_cast<const Number *>(b);
    for (uint64_t i = iterations; i; i--)
      if (divide)
        quotients(left, right, n, static_cast<Number *>(result));
      else
        products(left, right, n, static_cast<Number *>(result));
  }
};

/* From 1 to 2, or their negatives: no quotient leaves the range, and none is by zero. */
void fill_apart_from_zero(const struct toll_run *r, void *array, size_t count, uint64_t *random) {
  for (size_t i = 0; i < count; i++) {
    const double value = vectors_random(random);
    vectors_put(r, array, i, value < 0 ? value - 1 : value + 1);
  }
}

enum toll_status prepare(struct toll_run *r) {
  struct elements *elements = static_cast<struct elements *>(r->state);
  uint64_t random = r->seed;
  elements->n = static_cast<size_t>(toll_number(r, "n"));
  elements->divide = toll_choice(r, "op") == DIVIDE;
  if (!elements->n) return toll_skip(r, "there is nothing to do in no element");
  elements->a = vectors_array(r, elements->n, 0);
  elements->b = vectors_array(r, elements->n, 1);
  elements->result = vectors_array(r, elements->n, 2);
  if (!elements->a || !elements->b || !elements->result) return toll_refused(r);
  vectors_fill(r, elements->a, elements->n, &random);
  fill_apart_from_zero(r, elements->b, elements->n, &random);
  return ways_prepare(r);
}

void body(struct toll_run *r) {
  struct elements *elements = static_cast<struct elements *>(r->state);
  elements->iterations = r->iterations;
  ways_run(r, vectors_single(r), *elements);
}

/* One operation is rounded once. */
enum toll_status check(struct toll_run *r) {
  const struct elements *elements = static_cast<struct elements *>(r->state);
  for (size_t i = 0; i < elements->n; i++) {
    const long double a = vectors_get(r, elements->a, i), b = vectors_get(r, elements->b, i);
    const long double expected = elements->divide ? a / b : a * b, found = vectors_get(r, elements->result, i);
    if (!(fabsl(found - expected) <= vectors_tolerance(r, 1, fabsl(expected))))
      return toll_wrong(r, "element %zu of %zu is %.17g, not %.17g", i, elements->n, static_cast<double>(found),
                        static_cast<double>(expected));
  }
  vectors_forget(r, elements->result, elements->n);
  return TOLL_OK;
}

void work(const struct toll_run *r, struct toll_work *work) {
  const double n = static_cast<double>(toll_number(r, "n"));
  work->flops = work->operations = n;
  work->bytes = work->footprint_bytes = 3 * n * static_cast<double>(vectors_width(r));
}

const char *const operations[] = {"multiply", "divide", NULL};
const struct toll_parameter parameters[] = {
    vectors_length(1 << 16),
    vectors_precision,
    vectors_way,
    {.name = "op", .kind = TOLL_CHOICE, .summary = "what is done to each pair of elements", .choices = operations},
    {}};
const struct toll_metric metrics[] = {{.name = "rate",
                                       .unit = "flop/s",
                                       .better = TOLL_MORE,
                                       .summary = "multiplications or divisions a second",
                                       .means = "flops-of-n"},
                                      {.name = "operation",
                                       .unit = "ns",
                                       .summary = "one multiplication or division",
                                       .means = "operation-of-n",
                                       .toll = "floating-point {op}, {precision}, {way}"},
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does a floating-point division cost beside a multiplication?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct elements),
    .prepare = prepare,
    .body = body,
    .check = check,
    .work = work,
    .revision = 1,
};
