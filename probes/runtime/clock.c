/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock, its cost and resolution, and the control loop, whose rate is the core clock.
 */
#include <time.h>

#include "clock_ns.h"
#include "internal.h"

uint64_t toll_now_ns(void) {
  if (toll_counts_instructions()) return toll_counter_read();
  return toll_clock_ns(CLOCK_MONOTONIC_RAW);
}

static uint64_t paused_at, left_out;
static bool was_paused;
static void (*on_pause)(bool paused);

void toll_timer_watch(void (*pause)(bool paused)) {
  on_pause = pause;
}

void toll_timer_pause(void) {
  was_paused = true;
  paused_at = toll_now_ns();
  if (on_pause) on_pause(true);
}

void toll_timer_resume(void) {
  if (on_pause) on_pause(false);
  left_out += toll_now_ns() - paused_at;
}

bool toll_timer_was_paused(void) {
  return was_paused;
}

uint64_t toll_timed(struct toll_run *r, void (*body)(struct toll_run *r), uint64_t iterations) {
  left_out = 0;
  r->iterations = iterations;
  uint64_t start = toll_now_ns();
  body(r);
  return toll_now_ns() - start - left_out;
}

static double cost_of_reading(void) {
  enum { TRIALS = 8, READS = 64 };
  uint64_t least = UINT64_MAX;
  for (int trial = 0; trial < TRIALS; trial++) {
    uint64_t start = toll_now_ns();
    for (int i = 0; i < READS; i++) toll_now_ns();
    uint64_t took = toll_now_ns() - start;
    if (took < least) least = took;
  }
  return (double)least / (READS + 1);
}

/* The least observed step of the clock. If the clock is finer than the time of one reading, this is the time of a
 * reading, which limits a batch in the same way. */
static double resolution(void) {
  enum { STEPS = 64, LEAST_STEPS = 3, ENOUGH_NS = 20000000 };
  const uint64_t began = toll_now_ns();
  uint64_t least = UINT64_MAX, now = began;
  for (int i = 0; i < STEPS && (i < LEAST_STEPS || now - began < ENOUGH_NS); i++) {
    uint64_t start = toll_now_ns();
    do now = toll_now_ns();
    while (now == start);
    if (now - start < least) least = now - start;
  }
  return (double)least;
}

enum { BURST_NS = 10000 }; /* 300 readings of the clock, so that the cost of one is negligible */

/* The clock's step; and the same if it is longer than a burst, else 0. A clock that advances with the kernel's timer
 * tick cannot time a burst: a loop that crosses a tick would appear to take a whole tick. */
static uint64_t step_ns, coarse_step_ns;

struct toll_clock toll_clock_measure(void) {
  const struct toll_clock clock = {resolution(), cost_of_reading()};
  step_ns = (uint64_t)clock.resolution_ns;
  coarse_step_ns = step_ns > BURST_NS ? step_ns : 0;
  return clock;
}

/* Both operands are in registers, since some cores eliminate a chain of additions of constants at register renaming. */
#define ADD      \
  sum += addend; \
  TOLL_OPAQUE(sum);
#define ADD_8 ADD ADD ADD ADD ADD ADD ADD ADD

TOLL_NOINLINE void toll_control_loop(uint64_t turns) {
  unsigned long sum = 1, addend = 3;
  TOLL_OPAQUE(addend);
  for (unsigned long i = (unsigned long)turns; i; i--) {
    ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8
  }
  TOLL_USE(sum);
}

/* Independent chains of additions: more than a core has integer units, so that their rate falls when the sibling
 * hyperthread is busy. The rate of a single chain does not. Their operands are constants: a core that eliminates such
 * additions at register renaming reads the width of its renaming, which hyperthreads also share. On 32 bits, six chains
 * and the counter are the seven registers of ia32. Four chains did not use all units of a core of five: they read full
 * width in three quarters of a run whose costs a sibling raised by 60 to 80 %. */
#if __SIZEOF_POINTER__ == 8 && !defined(__arm__)
#define WIDE(each) each(a) each(b) each(c) each(d) each(e) each(f) each(g) each(h)
#else
#define WIDE(each) each(a) each(b) each(c) each(d) each(e) each(f)
#endif
#define BEGIN(name) unsigned long name = 1;
#define ADVANCE(name) \
  name += 3;          \
  TOLL_OPAQUE(name);
#define END(name) TOLL_USE(name);

TOLL_NOINLINE void toll_width_loop(uint64_t turns) {
  WIDE(BEGIN)
  for (unsigned long i = (unsigned long)turns; i; i--) {
    WIDE(ADVANCE) WIDE(ADVANCE) WIDE(ADVANCE) WIDE(ADVANCE) WIDE(ADVANCE) WIDE(ADVANCE) WIDE(ADVANCE) WIDE(ADVANCE)
  }
  WIDE(END)
}

#define COUNT(name) +1
enum { WIDTH_ADDS = 8 * (0 WIDE(COUNT)) };

static uint64_t time_loop(void (*loop)(uint64_t turns), uint64_t turns) {
  uint64_t start = toll_now_ns();
  loop(turns);
  return toll_now_ns() - start;
}

/* The number of turns of a loop that takes about this long. It is found once per process. The last step is timed again,
 * so that one interruption does not make every later burst too short. */
static uint64_t turns_of(void (*loop)(uint64_t turns), uint64_t ns) {
  enum { LEAST_STEPS = 16 };
  const uint64_t least_ns = coarse_step_ns ? LEAST_STEPS * coarse_step_ns : ns / 4;
  uint64_t turns = 16, took;
  while ((took = time_loop(loop, turns)) < least_ns) turns *= 2;
  const uint64_t again = time_loop(loop, turns), least = again && again < took ? again : took;
  return turns * ns / least + 1;
}

static uint64_t control_turns(void) {
  static uint64_t turns;
  if (!turns) turns = turns_of(toll_control_loop, BURST_NS);
  return turns;
}

struct toll_pace_reading toll_control_measure(unsigned trials, uint64_t ns) {
  enum { STEPS = 50, MOST_NS = 200000000, FEW = 3 };
  const uint64_t steps_ns = STEPS * step_ns < MOST_NS ? STEPS * step_ns : MOST_NS;
  const bool is_long = steps_ns > ns;
  uint64_t turns = control_turns() * (is_long ? steps_ns : ns) / BURST_NS + 1, least = UINT64_MAX;
  for (unsigned trial = 0; trial < (is_long && trials > FEW ? FEW : trials); trial++) {
    uint64_t took = time_loop(toll_control_loop, turns);
    if (took < least) least = took;
  }
  return (struct toll_pace_reading){turns * TOLL_CONTROL_ADDS, least};
}

/* A second in integers: fractions are far below the clock's resolution. */
static double rate(void (*loop)(uint64_t turns), uint64_t turns, unsigned adds) {
  uint64_t took = time_loop(loop, turns);
  return took ? (double)(uint64_t)((double)turns * adds * 1e9 / (double)took + 0.5) : 0;
}

double toll_width_measure(void) {
  static uint64_t turns;
  if (toll_counts_instructions() || coarse_step_ns) return 0;
  if (!turns) turns = turns_of(toll_width_loop, BURST_NS);
  return rate(toll_width_loop, turns, WIDTH_ADDS);
}

struct toll_burst toll_burst_measure(void) {
  if (toll_counts_instructions() || coarse_step_ns) return (struct toll_burst){0, 0};
  double chain = rate(toll_control_loop, control_turns(), TOLL_CONTROL_ADDS);
  return (struct toll_burst){chain, toll_width_measure()};
}

void toll_emit_clock(struct toll_clock clock) {
  toll_record_open("clock");
  toll_put_text("source", toll_counts_instructions() ? "emulator" : "monotonic_raw");
  toll_put_text("kind", toll_clock_kind());
  toll_put_real("resolution_ns", clock.resolution_ns);
  toll_put_real("cost_ns", clock.cost_ns);
  toll_record_close();
}

void toll_emit_control(const char *when, struct toll_pace_reading reading) {
  toll_record_open("control");
  toll_put_text("when", when);
  toll_put_count("adds", reading.adds);
  toll_put_count("ns", reading.ns);
  toll_record_close();
}
