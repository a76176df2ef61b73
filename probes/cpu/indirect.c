/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of an indirect call over the number of its possible targets. One call in a loop takes the address of the
 * next function from a list: in a cycle, which a predictor with a long enough history learns, or at random, which none
 * does. The control is the same loop with a list of one function.
 *
 * Before each call are conditional branches, one on each of the low bits of the call's number, each over one nop. The
 * predictors of some cores look at the outcomes of conditional branches alone: without them Zen 4 predicts no call of a
 * cycle of two functions. Of 12 branches it no longer remembers the first, and predicts none either. In random order the
 * bits say nothing of the next function.
 *
 * Each written function returns its own number, so that the sum proves that exactly the listed ones ran. They lie one in
 * each line. The list of random calls has 65536 entries: no history is as long, and the next entries are prefetched.
 */
#include <stdlib.h>

#include "code.h"

enum { LIST = 65536, FUNCTION = 64, HISTORY = 10, MOST = 1 << HISTORY };

typedef uint32_t (*function)(void);

struct calls {
  struct code code;
  function listed[LIST], first[LIST];
  uint64_t numbers[LIST + 1]; /* sums of the numbers of the first so many listed functions */
  uint64_t sum, made, sum_of_first, made_of_first;
};

static function function_at(const struct calls *c, uint64_t number) {
  return (function)(uintptr_t)(c->code.base + number * FUNCTION);
}

static enum toll_status prepare(struct toll_run *r) {
  struct calls *c = r->state;
  const uint64_t targets = toll_number(r, "targets");
  uint64_t random = r->seed;
  if (!targets || targets > MOST) return toll_fail(r, "1 to %d functions can be called", MOST);
  if (code_open(r, &c->code, (size_t)targets * FUNCTION, true) != TOLL_OK) return toll_refused(r);
  for (uint64_t i = 0; i < targets; i++) {
    c->code.at = c->code.base + i * FUNCTION;
    code_return(&c->code, (uint16_t)(i + 1));
  }
  for (uint64_t i = 0; i < LIST; i++) {
    const uint64_t number = toll_choice(r, "order") ? toll_random_below(&random, targets) : i % targets;
    c->listed[i] = function_at(c, number);
    c->first[i] = function_at(c, 0);
    c->numbers[i + 1] = c->numbers[i] + number + 1;
  }
  return code_seal(r, &c->code);
}

TOLL_NOINLINE static uint64_t call_listed(const function *listed, uint64_t first, uint64_t calls) {
  uint64_t sum = 0;
  for (uint64_t i = first; i < first + calls; i++) {
    _Pragma("GCC unroll 16") for (unsigned bit = 0; bit < HISTORY; bit++) {
      if (i >> bit & 1) TOLL_OPAQUE(sum);
    }
    sum += listed[i % LIST]();
  }
  return sum;
}

static void call(struct toll_run *r) {
  struct calls *c = r->state;
  c->sum += call_listed(c->listed, c->made, r->iterations);
  c->made += r->iterations;
}

static void call_first(struct toll_run *r) {
  struct calls *c = r->state;
  c->sum_of_first += call_listed(c->first, c->made_of_first, r->iterations);
  c->made_of_first += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct calls *c = r->state;
  const uint64_t expected = c->made / LIST * c->numbers[LIST] + c->numbers[c->made % LIST];
  if (c->sum == expected && c->sum_of_first == c->made_of_first) return TOLL_OK;
  return toll_wrong(r, "the numbers of the functions called add up to %llu, and not %llu", (unsigned long long)c->sum,
                    (unsigned long long)expected);
}

static const uint64_t numbers_of_targets[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, TOLL_END};
static const char *const orders[] = {"cycle", "random", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "targets",
     .kind = TOLL_COUNT,
     .summary = "functions that the call leads to",
     .values = numbers_of_targets,
     .typical = "16"},
    {.name = "order", .kind = TOLL_CHOICE, .summary = "order of the calls", .choices = orders, .typical = "random"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "call",
     .unit = "ns",
     .summary = "one indirect call and its return, after conditional branches",
     .toll = "10 branches and a call of one of {targets} functions, {order}"},
    {.name = "one", .unit = "ns", .summary = "the same call, always of one function", .source = TOLL_CONTROL},
    {.name = "extra_cycles",
     .unit = "cycle",
     .summary = "what several targets add to an indirect call",
     .source = TOLL_DIFFERENCE},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does an indirect call cost, by the number of functions that it leads to?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct calls),
    .prepare = prepare,
    .body = call,
    .control = call_first,
    .check = check,
    .alike = true,
    .revision = 1,
};
