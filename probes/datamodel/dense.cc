/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense linear algebra, by Eigen: a matrix factorised and a system solved, which is where pointers should cost nothing.
 *
 * The study of pointer width (suite x32-2013) ran the vector and matrix tests of ROOT's stress programs, whose arrays
 * are of doubles under every ABI: neither memory nor time has a reason to differ between x86-64 and x32, beyond the
 * code that the compiler makes of indices. ia32 has eight vector registers in place of sixteen. So this row would show
 * an error of the others.
 *
 * One iteration is an LU decomposition with row exchanges (Golub and Van Loan 2013, algorithm 3.4.1), and one solution by
 * it, made anew as a program makes them. Floating-point sums may be ordered by vector length: the answer is held to the
 * residual and not to its bits.
 */
#include "heap_metrics.h"
#include "library.h"
#include "toll.h"

#if TOLL_CXX_LIBRARY && __has_include(<Eigen/LU>)
#define EIGEN_MPL2_ONLY
#include <cmath>

#include "blocks.h"

#include <Eigen/LU>

namespace {

enum { LEAST_ORDER = 4, MOST_ORDER = 20000, MATRICES = 2 };

struct State {
  Eigen::Index order;
  double residual;
  uint64_t seed;
};

double uniform(uint64_t *random) {
  return static_cast<double>(toll_random(random) >> 11) * 0x1p-53 - 0.5;
}

enum toll_status prepare(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  const uint64_t order = toll_number(r, "order");
  if (order < LEAST_ORDER || order > MOST_ORDER)
    return toll_skip(r, "a matrix has an order of %d to %d here", LEAST_ORDER, MOST_ORDER);
  state->order = static_cast<Eigen::Index>(order);
  state->seed = r->seed;
  return toll_needs_memory(r, MATRICES * order * order * sizeof(double));
}

void solve_once(State *state) {
  uint64_t random = state->seed;
  Eigen::MatrixXd matrix(state->order, state->order);
  for (Eigen::Index i = 0; i < matrix.size(); i++) matrix.data()[i] = uniform(&random);
  const Eigen::VectorXd given = matrix.rowwise().sum();
  const Eigen::VectorXd found = matrix.partialPivLu().solve(given);
  state->residual = (found.array() - 1).abs().maxCoeff();
}

void work_on(struct toll_run *r) {
  for (uint64_t i = r->iterations; i; i--) solve_once(static_cast<State *>(r->state));
}

/* The rows add up to the right-hand side: the solution is one everywhere. A random matrix of this order loses as many digits
 * as its condition has, which is its order for most (Edelman 1988), and a thousand times that for one in a thousand. */
enum toll_status check(struct toll_run *r) {
  const State *state = static_cast<const State *>(r->state);
  if (!(state->residual < 1e-5)) return toll_wrong(r, "the solution is off by %.3g", state->residual);
  return TOLL_OK;
}

void work(const struct toll_run *r, struct toll_work *work) {
  const double order = static_cast<double>(static_cast<const State *>(r->state)->order);
  work->flops = 2.0 / 3.0 * order * order * order;
}

void finish(struct toll_run *r) {
  blocks::report(r);
}

}  // namespace

#else
#define ABSENT "Eigen"
#include "absent.h"
#endif

namespace {

const uint64_t orders[] = {100, 200, 500, TOLL_END};
const struct toll_parameter parameters[] = {
    {.name = "order", .kind = TOLL_COUNT, .summary = "rows of the matrix", .values = orders, .typical = "200"}, {}};
const struct toll_metric metrics[] = {{.name = "solve",
                                       .unit = "ns",
                                       .summary = "the system made and solved",
                                       .means = "program",
                                       .toll = "solve {order} equations"},
                                      HEAP_METRICS,
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "Does pointer width cost a program of dense matrices anything?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(State),
    .prepare = prepare,
    .body = work_on,
    .check = check,
    .finish = finish,
    .work = work,
    .faults = true,
    .enters = true,
    .accounts = true,
    .library = "eigen",
    .revision = 2,
};
