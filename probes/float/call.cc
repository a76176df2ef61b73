/* SPDX-License-Identifier: Apache-2.0
 *
 * Floating-point numbers through a call: where an ABI passes them, seen from a function that is handed two and returns one.
 *
 * An ABI may pass them in registers of the FPU (x86-64, hard ARM), in integer registers (ARM's softfp, which can so be
 * linked with code that has no FPU: each number is moved over and back), or through memory (ia32, whose result comes back
 * on the x87's stack whatever computes). The kernels of this family call no function and never see the difference.
 *
 * The function is kept apart from its caller, and each call waits for the sum that the one before returned. The control
 * adds in line, to the same chain. On a core that runs out of order the call itself hides behind the addition's latency,
 * and what is left is what stands in the chain: the way there and back.
 */
#include "toll.h"

namespace {

struct sums {
  double passed, in_line;
  uint64_t iterations;
  bool single;
};

template <class Real>
TOLL_NOINLINE Real add(Real a, Real b) {
  return a + b;
}

/* The sum starts at zero in each batch: as long as it is exact, it is the number of calls. */
template <class Real>
inline __attribute__((always_inline)) Real pass(uint64_t iterations) {
  Real sum = 0;
  for (uint64_t i = iterations; i; i--) sum = add(sum, Real(1));
  return sum;
}

/* Additions of floating-point numbers may not be regrouped, so the compiler keeps the chain. */
template <class Real>
TOLL_NOINLINE Real chain(uint64_t iterations) {
  Real sum = 0;
  for (uint64_t i = iterations; i; i--) sum = sum + Real(1);
  return sum;
}

enum toll_status prepare(struct toll_run *r) {
  static_cast<struct sums *>(r->state)->single = toll_choice(r, "precision") == 0;
  return TOLL_OK;
}

void body(struct toll_run *r) {
  struct sums *sums = static_cast<struct sums *>(r->state);
  sums->passed = sums->single ? double(pass<float>(r->iterations)) : pass<double>(r->iterations);
  sums->iterations = r->iterations;
}

void control(struct toll_run *r) {
  struct sums *sums = static_cast<struct sums *>(r->state);
  sums->in_line = sums->single ? double(chain<float>(r->iterations)) : chain<double>(r->iterations);
}

/* A float counts to 2^24 and no further, unless it is kept in a wider register. */
enum toll_status check(struct toll_run *r) {
  const struct sums *sums = static_cast<const struct sums *>(r->state);
  const double exact = sums->single ? 16777216.0 : 9007199254740992.0, asked = static_cast<double>(sums->iterations);
  if (asked <= exact ? sums->passed == asked : sums->passed >= exact) return TOLL_OK;
  return toll_wrong(r, "%llu calls added up to %.17g", static_cast<unsigned long long>(sums->iterations), sums->passed);
}

const char *const precisions[] = {"float", "double", NULL};
const struct toll_parameter parameters[] = {{.name = "precision",
                                             .kind = TOLL_CHOICE,
                                             .summary = "precision of the numbers",
                                             .choices = precisions,
                                             .typical = "double"},
                                            {}};
const struct toll_metric metrics[] = {{.name = "call",
                                       .unit = "ns",
                                       .summary = "two numbers handed to a function that returns their sum",
                                       .toll = "pass two numbers to a function, {precision}"},
                                      {.name = "extra",
                                       .unit = "ns",
                                       .summary = "time of the call less that of the addition in line",
                                       .source = TOLL_DIFFERENCE},
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does it cost to hand floating-point numbers to a function, where this ABI passes them?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct sums),
    .prepare = prepare,
    .body = body,
    .control = control,
    .check = check,
    .revision = 1,
};
