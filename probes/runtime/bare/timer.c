/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that read the clock, sleep, or set the program's own timer.
 */
#include <asm/signal.h>
#include <linux/errno.h>
#include <linux/time.h>

#include "calls.h"

static uint64_t timer_due = UINT64_MAX, timer_period;

/* Two words of the program's: seconds, and the rest in units of so many ns. */
static intptr_t tell_time(uintptr_t to, uint32_t unit_ns) {
  uintptr_t *result = memory_of_program(to, sizeof(uintptr_t[2]), MAY_WRITE);
  const struct bare_time now = clock_time();
  if (!result) return -EFAULT;
  result[0] = now.seconds;
  result[1] = unit_ns == 1 ? now.ns : now.ns / unit_ns;
  return 0;
}

intptr_t call_clock_gettime64(registers *core) {
  uint64_t *result = memory_of_program(ARGUMENT(core, 1), sizeof(uint64_t[2]), MAY_WRITE);
  const struct bare_time now = clock_time();
  if (!result) return -EFAULT;
  result[0] = now.seconds;
  result[1] = now.ns;
  return 0;
}

intptr_t call_clock_gettime(registers *core) {
  return tell_time(ARGUMENT(core, 1), 1);
}

intptr_t call_gettimeofday(registers *core) {
  return tell_time(ARGUMENT(core, 0), 1000);
}

void calls_attend_timer(void) {
  if (clock_ns() >= timer_due) {
    signals_raise(SIGALRM);
    timer_due = timer_period ? timer_due + timer_period : UINT64_MAX;
  }
  clock_alarm(timer_due);
}

static uint64_t ns_of(const uintptr_t timeval[2]) {
  return timeval[0] * 1000000000ull + timeval[1] * 1000ull;
}

intptr_t call_setitimer(registers *core) {
  const uintptr_t *wanted = memory_of_program(ARGUMENT(core, 1), sizeof(uintptr_t[4]), MAY_READ);
  uintptr_t *old = memory_of_program(ARGUMENT(core, 2), sizeof(uintptr_t[4]), MAY_WRITE);
  if (ARGUMENT(core, 0) != ITIMER_REAL) return -EINVAL;
  if (!wanted || (ARGUMENT(core, 2) && !old)) return -EFAULT;
  if (ARGUMENT(core, 2)) memset(old, 0, sizeof(uintptr_t[4]));
  const uint64_t first = ns_of(wanted + 2);
  timer_period = ns_of(wanted);
  timer_due = first ? clock_ns() + first : UINT64_MAX;
  clock_alarm(timer_due);
  return 0;
}

/* The core sleeps, and virtual time with it jumps to the alarm. */
static intptr_t sleep_until(uint64_t end) {
  while (clock_ns() < end) {
    clock_alarm(end < timer_due ? end : timer_due);
    board_wait();
    calls_attend_timer();
    if (signals_wait()) return -EINTR;
  }
  return 0;
}

static intptr_t sleep_for(uint64_t ns, bool absolute) {
  return sleep_until(absolute ? ns : clock_ns() + ns);
}

intptr_t call_nanosleep(registers *core) {
  const uintptr_t *wanted = memory_of_program(ARGUMENT(core, 0), sizeof(uintptr_t[2]), MAY_READ);
  return wanted ? sleep_for(wanted[0] * 1000000000ull + wanted[1], false) : -EFAULT;
}

intptr_t call_clock_nanosleep(registers *core) {
  const uintptr_t *wanted = memory_of_program(ARGUMENT(core, 2), sizeof(uintptr_t[2]), MAY_READ);
  return wanted ? sleep_for(wanted[0] * 1000000000ull + wanted[1], ARGUMENT(core, 1) & 1) : -EFAULT;
}

intptr_t call_clock_nanosleep64(registers *core) {
  const uint64_t *wanted = memory_of_program(ARGUMENT(core, 2), sizeof(uint64_t[2]), MAY_READ);
  return wanted ? sleep_for(wanted[0] * 1000000000 + wanted[1], ARGUMENT(core, 1) & 1) : -EFAULT;
}

void timer_clear(void) {
  timer_due = UINT64_MAX;
  timer_period = 0;
}
