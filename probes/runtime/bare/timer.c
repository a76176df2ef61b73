/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that read the clock, sleep, or set the program's own timer.
 */
#include <asm/signal.h>
#include <linux/errno.h>
#include <linux/time.h>

#include "calls.h"

static uint64_t timer_due = UINT64_MAX, timer_period;

int32_t call_clock_gettime64(struct fpa_core *core) {
  uint32_t *told = memory_of_program(core->r[1], 16, MAY_WRITE);
  struct bare_time now = clock_time();
  if (!told) return -EFAULT;
  told[0] = now.seconds;
  told[1] = 0;
  told[2] = now.ns;
  told[3] = 0;
  return 0;
}

int32_t call_clock_gettime(struct fpa_core *core) {
  uint32_t *told = memory_of_program(core->r[1], 8, MAY_WRITE);
  struct bare_time now = clock_time();
  if (!told) return -EFAULT;
  told[0] = now.seconds;
  told[1] = now.ns;
  return 0;
}

int32_t call_gettimeofday(struct fpa_core *core) {
  uint32_t *told = memory_of_program(core->r[0], 8, MAY_WRITE);
  struct bare_time now = clock_time();
  if (!told) return -EFAULT;
  told[0] = now.seconds;
  told[1] = now.ns / 1000;
  return 0;
}

void calls_attend_timer(void) {
  if (clock_ns() >= timer_due) {
    signals_raise(SIGALRM);
    timer_due = timer_period ? timer_due + timer_period : UINT64_MAX;
  }
  clock_alarm(timer_due);
}

static uint64_t ns_of(const uint32_t timeval[2]) {
  return timeval[0] * 1000000000ull + timeval[1] * 1000ull;
}

int32_t call_setitimer(struct fpa_core *core) {
  const uint32_t *wanted = memory_of_program(core->r[1], 16, MAY_READ);
  uint32_t *old = memory_of_program(core->r[2], 16, MAY_WRITE);
  if (core->r[0] != ITIMER_REAL) return -EINVAL;
  if (!wanted || (core->r[2] && !old)) return -EFAULT;
  if (core->r[2]) memset(old, 0, 16);
  const uint64_t first = ns_of(wanted + 2);
  timer_period = ns_of(wanted);
  timer_due = first ? clock_ns() + first : UINT64_MAX;
  clock_alarm(timer_due);
  return 0;
}

/* The core sleeps, and virtual time with it jumps to the alarm. */
static int32_t sleep_until(uint64_t end) {
  while (clock_ns() < end) {
    clock_alarm(end < timer_due ? end : timer_due);
    board_wait();
    calls_attend_timer();
    if (signals_wait()) return -EINTR;
  }
  return 0;
}

static int32_t sleep_for(uint64_t ns, bool absolute) {
  return sleep_until(absolute ? ns : clock_ns() + ns);
}

int32_t call_nanosleep(struct fpa_core *core) {
  const uint32_t *wanted = memory_of_program(core->r[0], 8, MAY_READ);
  return wanted ? sleep_for(wanted[0] * 1000000000ull + wanted[1], false) : -EFAULT;
}

int32_t call_clock_nanosleep(struct fpa_core *core) {
  const uint32_t *wanted = memory_of_program(core->r[2], 8, MAY_READ);
  return wanted ? sleep_for(wanted[0] * 1000000000ull + wanted[1], core->r[1] & 1) : -EFAULT;
}

int32_t call_clock_nanosleep64(struct fpa_core *core) {
  const uint32_t *wanted = memory_of_program(core->r[2], 16, MAY_READ);
  return wanted ? sleep_for(wanted[0] * 1000000000ull + wanted[2], core->r[1] & 1) : -EFAULT;
}

void timer_clear(void) {
  timer_due = UINT64_MAX;
  timer_period = 0;
}
