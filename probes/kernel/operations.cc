/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU's own operations: how long one takes that waits for the one before, and how many go side by side.
 *
 * Every value passes through an empty assembly statement after each operation, so that no compiler can fold a chain to
 * its end, as it does with lmbench's integer additions (0.01 ns were once printed for them). The values stay where they
 * are: dividers of many CPUs are faster with small quotients, and floating-point numbers that grow or shrink end as
 * infinities and denormals, which some CPUs hand to microcode. So a floating-point addition is c - x, which swaps x and
 * c - x; a division is c / x, which swaps the factors of c; a remainder has its fixed point added. All are exact, in any
 * precision.
 *
 * Side by side go as many as the latency of an operation times how many the core begins in a cycle: 3 x 3 of Zen 5's integer
 * multiplications, 4 x 2 of Intel's additions of floating-point numbers, 3 x 4 of wide Arm cores. With ten an x86_64 program
 * still keeps all in registers; with 14 an addition, which copies c each time, takes half as long again (Zen 3). An ABI
 * with fewer registers keeps some in memory, as its programs must.
 *
 * The loop is written out eight times: its own counting takes the place of an addition on a core that makes four a cycle, or
 * six, and would be a tenth of what is timed.
 */
#include "toll.h"

namespace {

enum {
#if defined(__aarch64__) || defined(__riscv) || defined(__powerpc__) || defined(__mips__) || defined(__sparc__) || \
    defined(__loongarch__)
  SIDE_BY_SIDE = 16,
#else
  SIDE_BY_SIDE = 10,
#endif
  UNROLL = 8
};
#define UNROLLED _Pragma("GCC unroll 64")

/* ---- a value that the compiler may not look through, in the register where its operations are done ---- */

template <class Number>
inline void pass(Number &value) {
  TOLL_OPAQUE(value);
}
#if defined(__SSE2_MATH__)
#define FLOAT_REGISTER "+x"
#elif defined(__i386__)
#define FLOAT_REGISTER "+t"
#elif defined(__aarch64__) || (defined(__arm__) && defined(__ARM_FP) && !defined(__SOFTFP__))
#define FLOAT_REGISTER "+w"
#elif (defined(__riscv) && defined(__riscv_flen)) || defined(__powerpc__) || defined(__s390x__) || \
    defined(__sparc__) || defined(__mips_hard_float) || defined(__loongarch_hard_float)
#define FLOAT_REGISTER "+f"
#else
#define FLOAT_REGISTER "+r"
#endif
template <>
inline void pass<float>(float &value) {
  __asm__ volatile("" : FLOAT_REGISTER(value));
}
#if defined(__sparc__)
template <>
inline void pass<double>(double &value) {
  __asm__ volatile("" : "+e"(value));
}
#else
template <>
inline void pass<double>(double &value) {
  __asm__ volatile("" : FLOAT_REGISTER(value));
}
#endif

/* ---- the operations: what x becomes with operands c and d, and with which they begin ---- */

template <class Number>
struct Operands {
  Number x, c, d;
};

template <class Number>
struct Bit {
  static Number apply(Number x, Number c, Number) { return x ^ c; }
};
template <class Number>
struct Add {
  static Number apply(Number x, Number c, Number) { return x + c; }
};
template <class Number>
struct Subtract {
  static Number apply(Number x, Number c, Number) { return c - x; }
};
template <class Number>
struct Multiply {
  static Number apply(Number x, Number c, Number) { return x * c; }
};
template <class Number>
struct Divide {
  static Number apply(Number x, Number c, Number) { return c / x; }
};
template <class Number>
struct Remainder {
  static Number apply(Number x, Number c, Number d) { return c % x + d; }
};

/* lmbench's bogomflops: an addition, a subtraction, a multiplication and a division. Its divisor is the number itself,
 * whose only exact cycle is a fixed point, which a loop that does nothing keeps too. Divided by d, 1 and 2 alternate. */
template <class Number>
struct Bogo {
  static Number apply(Number x, Number c, Number d) { return (1 + x) * (c - x) / d; }
};

/* Two factors near the square root of the largest number. */
template <class Number>
struct Factors;
template <>
struct Factors<uint32_t> {
  static constexpr uint32_t first = 46337, second = 46339;
};
template <>
struct Factors<uint64_t> {
  static constexpr uint64_t first = 3037000493u, second = 3037000499u;
};

/* ---- chains ---- */

template <class Number, template <class> class Operation>
TOLL_NOINLINE Number chain(Operands<Number> with, uint64_t times) {
  Number x = with.x, c = with.c, d = with.d;
  pass(c);
  pass(d);
  for (; times; times--) {
    UNROLLED for (int i = 0; i < UNROLL; i++) {
      x = Operation<Number>::apply(x, c, d);
      pass(x);
    }
  }
  return x;
}

template <class Number, template <class> class Operation>
TOLL_NOINLINE Number many(Operands<Number> with, uint64_t times) {
  Number c = with.c, d = with.d, x[SIDE_BY_SIDE];
  UNROLLED for (int i = 0; i < SIDE_BY_SIDE; i++) x[i] = with.x;
  pass(c);
  pass(d);
  for (; times; times--) {
    UNROLLED for (int turn = 0; turn < UNROLL; turn++) {
      UNROLLED for (int i = 0; i < SIDE_BY_SIDE; i++) {
        x[i] = Operation<Number>::apply(x[i], c, d);
        pass(x[i]);
      }
    }
  }
  bool alike = true;
  UNROLLED for (int i = 1; i < SIDE_BY_SIDE; i++) alike = alike && x[i] == x[0];
  return alike ? x[0] : x[0] + 1;
}

/* The same through memory, as the definition says. */
template <class Number, template <class> class Operation>
Number defined(Operands<Number> with, uint64_t times) {
  volatile Number x = with.x;
  for (; times; times--) x = Operation<Number>::apply(x, with.c, with.d);
  return x;
}

/* ---- the visit ---- */

enum Mode { LATENCY, THROUGHPUT, DEFINED };

struct State {
  uint64_t last; /* iterations of the last batch */
  double result;
};

template <class Number, template <class> class Operation>
double run(Operands<Number> with, Mode mode, uint64_t times) {
  switch (mode) {
    case LATENCY: return static_cast<double>(chain<Number, Operation>(with, times));
    case THROUGHPUT: return static_cast<double>(many<Number, Operation>(with, times));
    default: return static_cast<double>(defined<Number, Operation>(with, times));
  }
}

enum Op { BIT, ADD, MULTIPLY, DIVIDE, REMAINDER, BOGO };

template <class Number>
double run_integer(unsigned op, Mode mode, uint64_t times) {
  constexpr Number a = Factors<Number>::first, b = Factors<Number>::second, c = a * b, most = static_cast<Number>(-1);
  switch (op) {
    case BIT: return run<Number, Bit>({a, b, 0}, mode, times);
    case ADD: return run<Number, Add>({a, b, 0}, mode, times);
    case MULTIPLY: return run<Number, Multiply>({a, b, 0}, mode, times);
    case DIVIDE: return run<Number, Divide>({a, c, 0}, mode, times);
    default: return run<Number, Remainder>({a, most, a - most % a}, mode, times);
  }
}

template <class Number>
double run_real(unsigned op, Mode mode, uint64_t times) {
  switch (op) {
    case ADD: return run<Number, Subtract>({1, 3, 0}, mode, times);
    case MULTIPLY: return run<Number, Multiply>({Number(1.6180339), 1, 0}, mode, times);
    case DIVIDE: return run<Number, Divide>({2, 6, 0}, mode, times);
    default: return run<Number, Bogo>({1, Number(2.5), Number(1.5)}, mode, times);
  }
}

enum Type { INT32, INT64, FLOAT, DOUBLE };

double run_any(const struct toll_run *r, Mode mode, uint64_t times) {
  const unsigned op = toll_choice(r, "op");
  switch (toll_choice(r, "type")) {
    case INT32: return run_integer<uint32_t>(op, mode, times);
    case INT64: return run_integer<uint64_t>(op, mode, times);
    case FLOAT: return run_real<float>(op, mode, times);
    default: return run_real<double>(op, mode, times);
  }
}

Mode mode_of(const struct toll_run *r) {
  return toll_choice(r, "mode") == LATENCY ? LATENCY : THROUGHPUT;
}

enum toll_status prepare(struct toll_run *r) {
  const unsigned op = toll_choice(r, "op");
  const bool is_real = toll_choice(r, "type") >= FLOAT;
  if (is_real && (op == BIT || op == REMAINDER)) return toll_skip(r, "a floating-point number has no such operation");
  if (!is_real && op == BOGO) return toll_skip(r, "lmbench's mixture is of floating-point numbers");
  return TOLL_OK;
}

void operate(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  state->result = run_any(r, mode_of(r), r->iterations);
  state->last = r->iterations;
}

enum toll_status check(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  const double expected = run_any(r, DEFINED, UNROLL * state->last), found = state->result;
  state->result = expected + 1;
  return found == expected ? TOLL_OK : toll_wrong(r, "the operations gave %.17g, not %.17g", found, expected);
}

void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = mode_of(r) == LATENCY ? UNROLL : UNROLL * SIDE_BY_SIDE;
}

const char *const types[] = {"int32", "int64", "float", "double", nullptr};
const char *const ops[] = {"bit", "add", "multiply", "divide", "remainder", "bogo", nullptr};
const char *const modes[] = {"latency", "throughput", nullptr};
const struct toll_parameter parameters[] = {
    {.name = "type", .kind = TOLL_CHOICE, .summary = "type of the numbers", .choices = types},
    {.name = "op", .kind = TOLL_CHOICE, .summary = "operation on the numbers", .choices = ops},
    {.name = "mode",
     .kind = TOLL_CHOICE,
     .summary = "each waits for the one before, or many go side by side",
     .choices = modes},
    {}};
const struct toll_metric metrics[] = {
    {.name = "operation", .unit = "ns", .summary = "one operation", .means = "operation"}, {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "How long does each of the CPU's operations take, and how many go side by side?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(State),
    .prepare = prepare,
    .body = operate,
    .check = check,
    .work = work,
    .revision = 3,
};
