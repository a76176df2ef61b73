/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration against a batch whose cost is known: the clock is the batch's own answer, so no machine is involved.
 */
#include "expect.h"
#include "sample.c"

TOLL_TEST_NAME("test.calibrate");

struct machine {
  uint64_t fixed_ns, each_ps, calls, disturb_every, disturbance_ns;
};

static uint64_t batch(void *context, uint64_t iterations) {
  struct machine *machine = context;
  bool disturbed = machine->disturb_every && ++machine->calls % machine->disturb_every == 0;
  return machine->fixed_ns + iterations * machine->each_ps / 1000 + (disturbed ? machine->disturbance_ns : 0);
}

static uint64_t found(struct machine machine, uint64_t quantum, uint64_t target_ns) {
  return toll_calibrate(batch, &machine, quantum, target_ns, UINT64_C(1) << 60);
}

static void expect_about(uint64_t value, uint64_t wanted) {
  EXPECT(value > wanted * 8 / 10 && value < wanted * 12 / 10);
}

static uint64_t slow(void *context, uint64_t iterations) {
  (void)context;
  uint64_t start = toll_now_ns();
  while (toll_now_ns() - start < 1000000) continue;
  return iterations; /* never long enough, so that only the deadline ends it */
}

/* Its first call finds its pages untouched: as slow as a batch that needs no second iteration. */
static uint64_t cold(void *context, uint64_t iterations) {
  uint64_t *calls = context;
  return ++*calls <= 1 ? 10000000 : iterations;
}

/* The caches are somebody else's until a batch has been through them. */
static uint64_t cold_at_first(void *context, uint64_t iterations) {
  uint64_t *calls = context;
  return iterations * (++*calls <= 1 ? 8 : 1);
}

static uint64_t kept(struct machine machine, uint64_t known, uint64_t quantum) {
  return settled_on(batch, &machine, known, 1000000, quantum);
}

static void expect_hints(void) {
  const struct machine nanosecond = {0, 1000, 0, 0, 0}, dear = {0, 30000000000, 0, 0, 0};
  EXPECT(kept(nanosecond, 1000000, 1) == 1000000);
  EXPECT(kept(nanosecond, 3900000, 1) == 3900000 && kept(nanosecond, 260000, 1) == 260000);
  EXPECT(kept(nanosecond, 4100000, 1) == 0); /* four times the wanted length, and a quarter of it */
  EXPECT(kept(nanosecond, 240000, 1) == 0);
  EXPECT(kept(nanosecond, 0, 1) == 0);
  EXPECT(kept(nanosecond, 1000000, 96) == 0 && kept(nanosecond, 960000, 96) == 960000);
  EXPECT(kept(dear, 1, 1) == 1); /* no batch is shorter than one iteration */
  EXPECT(kept(dear, 2, 1) == 0);
  uint64_t calls = 0;
  EXPECT(settled_on(cold_at_first, &calls, 1000000, 1000000, 1) == 1000000);
}

/* 16 samples of n, of which two pairs have half, in whole quanta. */
static void expect_lengths(void) {
  unsigned halves = 0;
  for (uint64_t i = 0; i < 16; i++) {
    halves += length_of(1000, 1, i) == 500;
    EXPECT(length_of(64, 64, i) == 64);
    EXPECT(length_of(1000, 1, i) == length_of(1000, 1, i ^ 1)); /* either order of n and 2n */
    EXPECT(length_of(192, 64, i) % 64 == 0);
  }
  EXPECT(halves == 4);
  EXPECT(length_of(1000, 1, 0) == 1000 && length_of(1, 1, 0) == 1);
}

int main(void) {
  expect_lengths();
  expect_about(found((struct machine){0, 1000, 0, 0, 0}, 1, 1000000), 1000000);
  expect_about(found((struct machine){0, 250, 0, 0, 0}, 1, 1000000), 4000000);
  expect_about(found((struct machine){500, 120000, 0, 0, 0}, 1, 1000000), 8330);
  EXPECT(found((struct machine){0, 30000000000, 0, 0, 0}, 1, 1000000) == 1);
  EXPECT(found((struct machine){0, 700, 0, 0, 0}, 96, 1000000) % 96 == 0);
  EXPECT(found((struct machine){0, 30000000000, 0, 0, 0}, 64, 1000000) == 64);
  /* Two trials of three are interrupted for longer than the target: the shortest still tells the truth. */
  expect_about(found((struct machine){0, 1000, 0, 2, 400000}, 1, 1000000), 1000000);
  /* What every batch pays once, as for waking companions, is no part of its iterations. */
  expect_about(found((struct machine){900000, 1000, 0, 0, 0}, 1, 1000000), 1000000);
  uint64_t calls = 0;
  expect_about(toll_calibrate(cold, &calls, 1, 1000000, UINT64_C(1) << 60), 1000000);
  expect_hints();
  EXPECT(toll_calibrate(slow, NULL, 1, 1000000000, 20000000) < UINT64_C(1) << 40);
  return failures;
}
