/* SPDX-License-Identifier: Apache-2.0
 *
 * Real-time priority while samples are taken. Kernel threads that reap processes, free memory and end RCU grace periods
 * run on the measured CPU too. At normal priority they preempted a quarter to a half of all samples; at real-time
 * priority they wait for the gap between two visits and disturb one sample in fifty.
 */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif

/* C libraries differ in whether they pass these on: musl does not. */
static bool set(int policy, int priority) {
  const struct sched_param parameter = {.sched_priority = priority};
  return syscall(SYS_sched_setscheduler, 0, policy, &parameter) == 0;
}

/* A real-time thread that exceeds sched_rt_runtime_us is stopped for the rest of the period, in the middle of a sample
 * (Documentation/scheduler/sched-rt-group.rst). Without that limit a probe that hangs would block its CPU. */
static bool is_sound(const struct toll_request *request) {
  enum { BATCHES = 4 };
  char text[32];
  uint64_t runtime_us;
  if (!toll_read_text("/proc/sys/kernel/sched_rt_runtime_us", text, sizeof text) || text[0] == '-') return false;
  if (!toll_read_number("/proc/sys/kernel/sched_rt_runtime_us", &runtime_us)) return false;
  return request->samples * request->sample_ns * BATCHES / 1000 < runtime_us / 2;
}

bool toll_priority_raise(const struct toll_probe *probe, const struct toll_request *request, bool has_own_cpu) {
  if (request->priority != TOLL_PRIORITY_REAL_TIME || !toll_clock_is_real()) return false;
  if (probe->switches || probe->sleeps || !has_own_cpu) return false;
  return is_sound(request) && toll_priority_join();
}

bool toll_priority_join(void) {
  return set(SCHED_FIFO | SCHED_RESET_ON_FORK, 1);
}

/* Timers of a real-time process have no slack, and its children begin without any (Linux 6.18), also at normal priority.
 * The host measures at real-time priority: a sleep took 25 us too long in place of 67. An ordinary process cannot ask for
 * no slack, since 0 asks for the default. So it is given what Linux gives the first process. */
void toll_priority_restore_slack(void) {
  enum { USUAL_NS = 50000 };
  if (syscall(SYS_sched_getscheduler, 0) == SCHED_OTHER && prctl(PR_GET_TIMERSLACK) == 0)
    prctl(PR_SET_TIMERSLACK, USUAL_NS, 0, 0, 0);
}

/* A user whose limit allows real-time priority may not take back that children begin without it (sched(7)). */
void toll_priority_drop(void) {
  if (!set(SCHED_OTHER, 0)) set(SCHED_OTHER | SCHED_RESET_ON_FORK, 0);
  toll_priority_restore_slack();
}
