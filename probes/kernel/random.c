/* SPDX-License-Identifier: Apache-2.0
 *
 * One random number from each of the generators that a C library has (lmbench: lat_rand), and from the kernel's.
 *
 * Each batch begins with the same seed and adds its numbers up, and the check draws the last batch again: a call that a
 * compiler took out of its loop would leave another sum. drand48 and lrand48 are held to the recurrence that POSIX
 * gives. rand and random take a lock, which costs more than their arithmetic; rand_r and the others of their kind have
 * their state from the caller, or share it unguarded. The kernel's numbers cannot be drawn twice: each must differ from
 * the previous one.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"

enum generator { RAND, RAND_R, RANDOM, LRAND48, DRAND48, KERNEL };
enum { SEED = 4711 };

struct drawn {
  uint64_t sum, last, count; /* results of the last batch */
  uint64_t refused, alike;
};

static uint64_t sum_rand(uint64_t count) {
  uint64_t sum = 0;
  srand(SEED);
  for (; count; count--) sum += (uint64_t)rand();
  return sum;
}
static uint64_t sum_rand_r(uint64_t count) {
  uint64_t sum = 0;
  unsigned state = SEED;
  for (; count; count--) sum += (uint64_t)rand_r(&state);
  return sum;
}
static uint64_t sum_random(uint64_t count) {
  uint64_t sum = 0;
  srandom(SEED);
  for (; count; count--) sum += (uint64_t)random();
  return sum;
}
static uint64_t sum_lrand48(uint64_t count) {
  uint64_t sum = 0;
  srand48(SEED);
  for (; count; count--) sum += (uint64_t)lrand48();
  return sum;
}
/* The numbers are multiples of 2^-48, and so whole again. */
static uint64_t sum_drand48(uint64_t count) {
  uint64_t sum = 0;
  srand48(SEED);
  for (; count; count--) sum += (uint64_t)(drand48() * 0x1p48);
  return sum;
}

static uint64_t (*const sums[])(uint64_t count) = {sum_rand, sum_rand_r, sum_random, sum_lrand48, sum_drand48};
static const char *const generators[] = {"rand", "rand_r", "random", "lrand48", "drand48", "kernel", NULL};

static bool of_kernel(uint64_t *number) {
  return syscall(SYS_getrandom, number, sizeof *number, 0) == (long)sizeof *number;
}

static enum toll_status prepare(struct toll_run *r) {
  struct drawn *drawn = r->state;
  if (toll_choice(r, "generator") != KERNEL) return TOLL_OK;
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  return of_kernel(&drawn->last) ? TOLL_OK : toll_skip(r, "the kernel gives no random numbers: %s", strerror(errno));
}

static void draw_from_kernel(struct drawn *drawn, uint64_t count) {
  for (uint64_t number = 0; count; count--) {
    drawn->refused += !of_kernel(&number);
    drawn->alike += number == drawn->last;
    drawn->last = number;
  }
}

static void draw(struct toll_run *r) {
  struct drawn *drawn = r->state;
  const unsigned generator = toll_choice(r, "generator");
  drawn->count = r->iterations;
  if (generator == KERNEL)
    draw_from_kernel(drawn, r->iterations);
  else
    drawn->sum = sums[generator](r->iterations);
}

/* X becomes 0x5DEECE66D X + 0xB modulo 2^48, and begins as the seed with 0x330E below it; lrand48 gives its upper 31 bits. */
static uint64_t sum_by_definition(uint64_t count, unsigned shift) {
  uint64_t sum = 0, x = (uint64_t)SEED << 16 | 0x330E;
  for (; count; count--) {
    x = (UINT64_C(0x5DEECE66D) * x + 0xB) & ((UINT64_C(1) << 48) - 1);
    sum += x >> shift;
  }
  return sum;
}

static enum toll_status check(struct toll_run *r) {
  struct drawn *drawn = r->state;
  const unsigned generator = toll_choice(r, "generator");
  if (drawn->refused) return toll_fail(r, "the kernel refused %llu numbers", (unsigned long long)drawn->refused);
  if (drawn->alike) return toll_wrong(r, "%llu numbers were the last one again", (unsigned long long)drawn->alike);
  if (generator == KERNEL) return TOLL_OK;
  const uint64_t expected = generator == LRAND48   ? sum_by_definition(drawn->count, 17)
                            : generator == DRAND48 ? sum_by_definition(drawn->count, 0)
                                                   : sums[generator](drawn->count);
  const uint64_t found = drawn->sum;
  drawn->sum = ~expected;
  return found == expected ? TOLL_OK : toll_wrong(r, "the numbers are not those of the generator");
}

static const struct toll_parameter parameters[] = {
    {.name = "generator", .kind = TOLL_CHOICE, .summary = "where the numbers come from", .choices = generators}, {0}};
static const struct toll_metric metrics[] = {
    {.name = "number", .unit = "ns", .summary = "one random number", .toll = "random number: {generator}"}, {0}};

const struct toll_probe toll_probe = {
    .question = "What does a random number cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct drawn),
    .prepare = prepare,
    .body = draw,
    .check = check,
    .enters = true,
    .revision = 1,
};
