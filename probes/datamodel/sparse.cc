/* SPDX-License-Identifier: Apache-2.0
 *
 * A sparse system of equations, by Eigen: the heat equation on a square grid, as a finite-element program solves it.
 *
 * dealII of SPEC CPU is such a program, and the study of pointer width (suite x32-2013) saw it meet a tenth fewer page faults
 * on x32. One iteration is one solution by conjugate gradients without a preconditioner (Hestenes and Stiefel 1952): in
 * each step one product of the matrix with a vector, which reads each coefficient, its column, and an element of the vector.
 * The numbers are doubles under every ABI. The columns are of the type that indexes memory, std::ptrdiff_t, as dealII's are
 * (std::size_t): half of a matrix is indices with 64-bit pointers, and a third with 32-bit ones. Matrix and vectors are
 * made anew in each iteration, as a time step of such a program does, so that the pages are met anew where malloc gives them
 * back in between.
 *
 * The right-hand side is made from a solution that is known, against which what comes out is held.
 */
#include "heap_metrics.h"
#include "library.h"
#include "toll.h"

#if TOLL_CXX_LIBRARY && __has_include(<Eigen/SparseCore>)
#define EIGEN_MPL2_ONLY
#include <cmath>
#include <cstddef>

#include "blocks.h"

#include <Eigen/IterativeLinearSolvers>
#include <Eigen/SparseCore>

namespace {

enum { LEAST_SIDE = 8, MOST_SIDE = 20000, STEPS = 25, POINTS_OF_STENCIL = 5, VECTORS = 7 };

using Matrix = Eigen::SparseMatrix<double, Eigen::RowMajor, std::ptrdiff_t>;
using Vector = Eigen::VectorXd;

struct State {
  std::ptrdiff_t side;
  double residual;   /* residual of the last solution over the right-hand side */
  double checksum;   /* checksum of the first solution */
  uint64_t differed; /* later solutions that differ from the first in any bit */
  double matrix_bytes;
};

/* u - 0.2 x (sum of the four neighbours - 4 u): one step of heat, well conditioned. */
Matrix make_matrix(std::ptrdiff_t side) {
  const std::ptrdiff_t points = side * side;
  Matrix matrix(points, points);
  matrix.reserve(Eigen::Matrix<std::ptrdiff_t, Eigen::Dynamic, 1>::Constant(points, POINTS_OF_STENCIL));
  for (std::ptrdiff_t point = 0; point < points; point++) {
    const std::ptrdiff_t row = point / side, column = point % side;
    if (row > 0) matrix.insert(point, point - side) = -0.2;
    if (column > 0) matrix.insert(point, point - 1) = -0.2;
    matrix.insert(point, point) = 1.8;
    if (column + 1 < side) matrix.insert(point, point + 1) = -0.2;
    if (row + 1 < side) matrix.insert(point, point + side) = -0.2;
  }
  matrix.makeCompressed();
  return matrix;
}

Vector known_solution(std::ptrdiff_t points) {
  Vector known(points);
  for (std::ptrdiff_t i = 0; i < points; i++) known[i] = static_cast<double>(i % 1009) / 1009 - 0.5;
  return known;
}

enum toll_status prepare(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  const uint64_t side = toll_number(r, "side");
  if (side < LEAST_SIDE || side > MOST_SIDE)
    return toll_skip(r, "a grid has a side of %d to %d points here", LEAST_SIDE, MOST_SIDE);
  state->side = static_cast<std::ptrdiff_t>(side);
  const uint64_t of_point =
      POINTS_OF_STENCIL * (sizeof(double) + sizeof(std::ptrdiff_t)) + VECTORS * sizeof(double) + sizeof(std::ptrdiff_t);
  return toll_needs_memory(r, side * side * of_point);
}

void solve_once(State *state) {
  const Matrix matrix = make_matrix(state->side);
  const Vector known = known_solution(matrix.rows()), given = matrix * known;
  Eigen::ConjugateGradient<Matrix, Eigen::Lower | Eigen::Upper, Eigen::IdentityPreconditioner> solver;
  solver.setMaxIterations(STEPS).setTolerance(0);
  solver.compute(matrix);
  const Vector found = solver.solve(given);
  const double checksum = found.sum();
  if (state->checksum == 0) state->checksum = checksum;
  state->differed += checksum != state->checksum;
  state->residual = (found - known).norm() / known.norm();
  state->matrix_bytes = static_cast<double>(matrix.nonZeros()) * (sizeof(double) + sizeof(std::ptrdiff_t)) +
                        static_cast<double>(matrix.outerSize() + 1) * sizeof(std::ptrdiff_t);
}

void work_on(struct toll_run *r) {
  for (uint64_t i = r->iterations; i; i--) solve_once(static_cast<State *>(r->state));
}

enum toll_status check(struct toll_run *r) {
  const State *state = static_cast<const State *>(r->state);
  if (state->differed) return toll_wrong(r, "a later solution was not the first");
  if (!(state->residual < 1e-9)) return toll_wrong(r, "the solution is off by %.3g of itself", state->residual);
  return TOLL_OK;
}

void finish(struct toll_run *r) {
  const State *state = static_cast<const State *>(r->state);
  toll_report(r, "matrix", state->matrix_bytes);
  toll_report(r, "checksum", state->checksum);
  blocks::report(r);
}

}  // namespace

#else
#define ABSENT "Eigen"
#include "absent.h"
#endif

namespace {

const uint64_t sides[] = {100, 300, 1000, TOLL_END};
const struct toll_parameter parameters[] = {{.name = "side",
                                             .kind = TOLL_COUNT,
                                             .summary = "points along one side of the grid",
                                             .values = sides,
                                             .typical = "300"},
                                            {}};
const struct toll_metric metrics[] = {{.name = "solve",
                                       .unit = "ns",
                                       .summary = "the system made and solved",
                                       .means = "program",
                                       .toll = "solve a sparse system, grid of {side} x {side}"},
                                      {.name = "matrix",
                                       .unit = "B",
                                       .summary = "bytes of the matrix: coefficients, columns, rows",
                                       .source = TOLL_GAUGE},
                                      {.name = "checksum",
                                       .unit = "count",
                                       .better = TOLL_NEITHER,
                                       .summary = "sum of the solution",
                                       .source = TOLL_GAUGE},
                                      HEAP_METRICS,
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does pointer width cost a program of sparse matrices?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(State),
    .prepare = prepare,
    .body = work_on,
    .check = check,
    .finish = finish,
    .faults = true,
    .accounts = true,
    .library = "eigen",
    .revision = 2,
};
