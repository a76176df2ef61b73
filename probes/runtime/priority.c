/* SPDX-License-Identifier: Apache-2.0
 *
 * Real-time priority while samples are taken. The kernel's own threads - what ends a process, frees its memory, counts
 * its read-copy-update periods - run on the measured CPU too, and at an ordinary priority they take it in the middle of
 * a sample: a quarter to a half of all samples met them, and one in fifty where they had to wait for the gap between
 * two visits.
 */
#include <sched.h>
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

/* A thread that runs for longer than the system leaves to real time is stopped for the rest of the period, in the middle
 * of a sample (sched_rt_runtime_us, Documentation/scheduler/sched-rt-group.rst). Without such a limit a probe that hangs
 * would take its CPU from everybody for ever. */
static bool is_sound(const struct toll_request *request) {
  enum { BATCHES = 4 };
  char text[32];
  uint64_t runtime_us;
  if (!toll_read_text("/proc/sys/kernel/sched_rt_runtime_us", text, sizeof text) || text[0] == '-') return false;
  if (!toll_read_number("/proc/sys/kernel/sched_rt_runtime_us", &runtime_us)) return false;
  return request->samples * request->sample_ns * BATCHES / 1000 < runtime_us / 2;
}

bool toll_priority_raise(const struct toll_probe *probe, const struct toll_request *request) {
  if (request->priority != TOLL_PRIORITY_REAL_TIME || !toll_clock_is_real()) return false;
  if (probe->switches || probe->sleeps || !toll_crew_is_spread()) return false;
  return is_sound(request) && set(SCHED_FIFO | SCHED_RESET_ON_FORK, 1);
}

void toll_priority_drop(void) {
  set(SCHED_OTHER, 0);
}
