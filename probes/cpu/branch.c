/* SPDX-License-Identifier: Apache-2.0
 *
 * What a mispredicted conditional branch costs. Two branches in each iteration depend on two bits that no predictor knows
 * before they are computed: of xorshift64 (Marsaglia: Xorshift RNGs, 2003), whose period of 2^64 - 1 exceeds any history.
 * Each is therefore mispredicted half of the time, one of the two in an iteration, and what the iteration takes above the
 * control is one misprediction.
 *
 * The control computes the same bits by the same instructions, and a mask then selects others that alternate: 00, 11, 00,
 * 11, which every predictor of the last decades learns, and which are taken as often as random ones. Both ways from a
 * branch to where they meet have two instructions, so a misprediction saves and costs no other work.
 */
#include "toll.h"

#if defined(__x86_64__) || defined(__i386__)
#define BRANCH(bits, bit, made)                                              \
  __asm__("test %2, %1\n\tje 1f\n\tadd $1, %0\n\tjmp 2f\n1:\tnop\n\tnop\n2:" \
          : "+r"(made)                                                       \
          : "r"(bits), "i"(1 << (bit))                                       \
          : "cc")
#elif defined(__aarch64__)
#define BRANCH(bits, bit, made) \
  __asm__("tbz %1, %2, 1f\n\tadd %0, %0, #1\n\tb 2f\n1:\tnop\n\tnop\n2:" : "+r"(made) : "r"(bits), "i"(bit))
#else
#define UNSUPPORTED
#define BRANCH(bits, bit, made) ((made) += (bits) >> (bit)&1)
#endif

struct branches {
  uint64_t random, expected, drawn, ones;
  unsigned long made;
};

static enum toll_status prepare(struct toll_run *r) {
#ifdef UNSUPPORTED
  return toll_skip(r, "unsupported here: the branches of this probe are written for x86 and aarch64 alone");
#endif
  ((struct branches *)r->state)->random = r->seed | 1;
  return TOLL_OK;
}

/* mask: all bits for random branches, no bits for alternating ones. */
TOLL_NOINLINE static void branch(struct branches *b, uint64_t iterations, uint64_t mask) {
  uint64_t random = b->random, expected = b->expected, alternating = 0;
  unsigned long made = b->made;
  for (; iterations; iterations--) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    alternating = ~alternating;
    const unsigned long bits = (unsigned long)((random & mask) | (alternating & ~mask));
    BRANCH(bits, 0, made);
    BRANCH(bits, 1, made);
    expected += (bits & 1) + (bits >> 1 & 1);
  }
  b->random = random;
  b->made = made;
  b->expected = expected;
}

static void guess(struct toll_run *r) {
  struct branches *b = r->state;
  const uint64_t before = b->expected;
  branch(b, r->iterations, UINT64_MAX);
  b->ones += b->expected - before;
  b->drawn += 2 * r->iterations;
}

static void know(struct toll_run *r) {
  branch(r->state, r->iterations, 0);
}

/* Half of the random bits are ones: n / 2 of n, with a standard deviation of sqrt(n) / 2. A deviation of six
 * standard deviations does not occur. */
static enum toll_status check(struct toll_run *r) {
  const struct branches *b = r->state;
  const double off = 2 * (double)b->ones - (double)b->drawn;
  if (b->made != (unsigned long)b->expected)
    return toll_wrong(r, "%llu branches were not taken, and not %llu", (unsigned long long)b->made,
                      (unsigned long long)b->expected);
  if (off * off > 36 * (double)b->drawn)
    return toll_wrong(r, "%llu of %llu random branches were not taken, and not half of them",
                      (unsigned long long)b->ones, (unsigned long long)b->drawn);
  return TOLL_OK;
}

static const struct toll_metric metrics[] = {
    {.name = "penalty",
     .unit = "ns",
     .summary = "one mispredicted conditional branch",
     .source = TOLL_DIFFERENCE,
     .toll = "mispredict a branch"},
    {.name = "penalty_cycles",
     .unit = "cycle",
     .summary = "one mispredicted conditional branch",
     .source = TOLL_DIFFERENCE,
     .means = "mispredicted-branch"},
    {.name = "random", .unit = "ns", .summary = "an iteration with two random branches, one of them mispredicted"},
    {.name = "alternating",
     .unit = "ns",
     .summary = "an iteration with two branches that are both predicted",
     .source = TOLL_CONTROL},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does a mispredicted branch cost?",
    .metrics = metrics,
    .state_bytes = sizeof(struct branches),
    .prepare = prepare,
    .body = guess,
    .control = know,
    .check = check,
    .alike = true,
    .revision = 1,
};
