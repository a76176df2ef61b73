/* SPDX-License-Identifier: Apache-2.0
 *
 * One reading of the system's clock, as a program makes it, beside the same reading by a real system call.
 *
 * Where the kernel's clock source can be read from user mode, the C library reads it in the vDSO and never enters the
 * kernel; with a slow source (an emulated timer, a time-stamp counter that was found unstable) or a library without
 * support for the vDSO, the ordinary reading is as expensive as a system call, for every program that reads the clock.
 * Both readings are made inside the same sample: their ratio shows which way this program uses.
 */
#define _GNU_SOURCE 1
#include <time.h>

#include "entry.h"
#include "toll.h"

/* On a 32-bit ABI whose time_t is 64 bit wide, the library asks by another number with another structure; here the
 * kernel is asked in the width that its oldest call has. */
#ifdef SYS_clock_gettime
enum { CLOCK_CALL = SYS_clock_gettime };
struct kernel_time {
  long seconds, nanoseconds;
};
#else
enum { CLOCK_CALL = SYS_clock_gettime64 };
struct kernel_time {
  int64_t seconds, nanoseconds;
};
#endif

struct readings {
  uint64_t last_ns, steps_back;
};

static uint64_t by_library(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t by_system_call(void) {
  struct kernel_time now = {0, 0};
  kernel_enter(CLOCK_CALL, CLOCK_MONOTONIC, (long)&now);
  return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

static void note(struct readings *readings, uint64_t now_ns) {
  readings->steps_back += now_ns <= readings->last_ns / 2 || now_ns < readings->last_ns;
  readings->last_ns = now_ns;
}

static enum toll_status prepare(struct toll_run *r) {
  return toll_needs_kernel(r);
}

static void read_by_library(struct toll_run *r) {
  uint64_t now_ns = 0;
  for (uint64_t i = r->iterations; i; i--) now_ns = by_library();
  note(r->state, now_ns);
}

static void read_by_system_call(struct toll_run *r) {
  uint64_t now_ns = 0;
  for (uint64_t i = r->iterations; i; i--) now_ns = by_system_call();
  note(r->state, now_ns);
}

/* The reading by a system call is the kernel's work, and so is the other where the vDSO gives way to it. */
/* The two readings are of one clock: taken alternately, their values never decrease. */
static enum toll_status check(struct toll_run *r) {
  struct readings *readings = r->state;
  note(readings, by_library());
  note(readings, by_system_call());
  note(readings, by_library());
  if (readings->steps_back)
    return toll_wrong(r, "the monotonic clock went back %llu times", (unsigned long long)readings->steps_back);
  return TOLL_OK;
}

static const struct toll_metric metrics[] = {{.name = "read",
                                              .unit = "ns",
                                              .summary = "clock_gettime of the monotonic clock by the C library",
                                              .means = "clock-read",
                                              .toll = "read the clock"},
                                             {.name = "system_call",
                                              .unit = "ns",
                                              .summary = "the same by a system call, past any vDSO",
                                              .source = TOLL_CONTROL,
                                              .toll = "read the clock by a system call"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does reading the clock cost, and does it enter the kernel?",
    .metrics = metrics,
    .state_bytes = sizeof(struct readings),
    .prepare = prepare,
    .body = read_by_library,
    .control = read_by_system_call,
    .check = check,
    .control_calls = 1,
    .revision = 3,
};
