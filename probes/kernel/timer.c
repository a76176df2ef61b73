/* SPDX-License-Identifier: Apache-2.0
 *
 * How late a sleeping program is woken by its timer, as rt-tests' cyclictest asks: the program sleeps until the next of a
 * row of appointed times, and compares its clock with the appointment.
 *
 * Most of it is the slack that the kernel allows itself (50 us for an ordinary program, so that timers may share an
 * interrupt), the way out of idle, and in a guest the hypervisor's own timer. A distribution whose tail matters more
 * than its middle: the median, the 99th percentile, the maximum and a histogram of each visit are reported, of 1000
 * samples or more.
 * An appointment that has passed already is late by as much, and the row begins anew after it.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"
#include "wait.h"

enum slack { USUAL, LEAST, NO };
enum { LEAST_APPOINTMENTS = 1000, MOST_APPOINTMENTS = 1 << 16, BINS = 7 };
#define LONGEST_NS UINT64_C(3000000000) /* longest total of appointments that no sample requested */

struct timer {
  uint64_t interval_ns, next_ns, kept, early;
  uint32_t *late_ns; /* lateness of the first MOST_APPOINTMENTS */
};

/* Above the threads of interrupts (50), as what has to react in time is, and below those that guard the system (99). Its
 * timers have no slack, and ring from the interrupt itself (Documentation/timers/hrtimers.rst). C libraries differ in
 * whether they pass this on: musl does not. */
static bool join_real_time(void) {
  enum { PRIORITY = 90 };
  const struct sched_param parameter = {.sched_priority = PRIORITY};
  return syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &parameter) == 0;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct timer *timer = r->state;
  timer->interval_ns = toll_number(r, "interval") * 1000;
  if (!timer->interval_ns) return toll_skip(r, "an interval of nothing is no appointment");
  timer->late_ns = toll_buffer(r, (struct toll_buffer_request){.bytes = MOST_APPOINTMENTS * sizeof *timer->late_ns});
  if (!timer->late_ns) return toll_refused(r);
  if (toll_choice(r, "slack") == LEAST && prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) < 0)
    return toll_skip(r, "the kernel keeps its timer slack");
  if (toll_choice(r, "slack") == NO && !join_real_time())
    return toll_skip(r, "it may not have real-time priority (RLIMIT_RTPRIO, CAP_SYS_NICE)");
  return TOLL_OK;
}

static void sleep_until(uint64_t due_ns) {
  const struct timespec due = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) continue;
}

static void keep(struct timer *timer, uint64_t appointments) {
  timer->next_ns = toll_moment_ns();
  for (uint64_t i = appointments; i; i--) {
    timer->next_ns += timer->interval_ns;
    sleep_until(timer->next_ns);
    const uint64_t now = toll_moment_ns(), late = now - timer->next_ns;
    timer->early += now < timer->next_ns;
    if (timer->kept < MOST_APPOINTMENTS) timer->late_ns[timer->kept] = late < UINT32_MAX ? (uint32_t)late : UINT32_MAX;
    timer->kept++;
    if (late > timer->interval_ns) timer->next_ns = now;
  }
}

static void keep_appointments(struct toll_run *r) {
  keep(r->state, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  const struct timer *timer = r->state;
  if (timer->early) return toll_wrong(r, "%llu timers rang too early", (unsigned long long)timer->early);
  return TOLL_OK;
}

/* Reports the share of the sorted wake-ups in each bin; the first bin ends at 4 us, and each further one at four
 * times the last. */
static void report_bins(struct toll_run *r, const struct timer *timer, size_t count) {
  static const char *const names[BINS] = {"to_4_us",   "at_4_us", "at_16_us", "at_64_us",
                                          "at_256_us", "at_1_ms", "at_4_ms"};
  size_t from = 0;
  for (unsigned bin = 0; bin < BINS; bin++) {
    const uint64_t end_ns = UINT64_C(4000) << (2 * bin);
    size_t end = from;
    while (end < count && (bin == BINS - 1 || timer->late_ns[end] < end_ns)) end++;
    toll_report(r, names[bin], (double)(end - from) / (double)count);
    from = end;
  }
}

static int by_size(const void *first, const void *second) {
  const uint32_t a = *(const uint32_t *)first, b = *(const uint32_t *)second;
  return (a > b) - (a < b);
}

/* With too few samples for a 99th percentile, more are collected; if that would take too long, none is reported. The
 * next visit starts a row of its own. */
static void finish(struct toll_run *r) {
  struct timer *timer = r->state;
  const uint64_t missing = timer->kept < LEAST_APPOINTMENTS ? LEAST_APPOINTMENTS - timer->kept : 0;
  if (missing > LONGEST_NS / timer->interval_ns) return;
  keep(timer, missing);
  if (check(r) != TOLL_OK) return;
  const size_t count = timer->kept < MOST_APPOINTMENTS ? (size_t)timer->kept : MOST_APPOINTMENTS;
  qsort(timer->late_ns, count, sizeof *timer->late_ns, by_size);
  toll_report(r, "late", timer->late_ns[count / 2]);
  toll_report(r, "late_99th", timer->late_ns[count * 99 / 100]);
  toll_report(r, "late_worst", timer->late_ns[count - 1]);
  report_bins(r, timer, count);
  toll_report(r, "appointments", (double)count);
  timer->kept = 0;
}

static const char *const slacks[] = {"usual", "least", "no", NULL};
static const uint64_t intervals[] = {100, 1000, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "interval", .kind = TOLL_COUNT, .summary = "microseconds between two appointments", .values = intervals},
    {.name = "slack",
     .kind = TOLL_CHOICE,
     .summary = "how late the kernel may let a timer ring: as usual, as little as may be asked for, or not at all "
                "(real-time priority)",
     .choices = slacks},
    {0}};
#define BIN(bin, text)                                                                              \
  {                                                                                                 \
    .name = bin, .unit = "ratio", .better = TOLL_NEITHER, .summary = "share that is " text " late", \
    .source = TOLL_GAUGE                                                                            \
  }
static const struct toll_metric metrics[] = {{.name = "late",
                                              .unit = "ns",
                                              .summary = "time by which the program wakes too late, median",
                                              .source = TOLL_GAUGE,
                                              .means = "timer-late",
                                              .toll = "wake late from a timer of {interval} us, {slack} slack"},
                                             {.name = "late_99th",
                                              .unit = "ns",
                                              .summary = "time by which one wake-up in a hundred is too late",
                                              .source = TOLL_GAUGE},
                                             {.name = "late_worst",
                                              .unit = "ns",
                                              .summary = "longest time by which a wake-up is too late",
                                              .source = TOLL_GAUGE,
                                              .means = "worst"},
                                             BIN("to_4_us", "up to 4 us"),
                                             BIN("at_4_us", "4 to 16 us"),
                                             BIN("at_16_us", "16 to 64 us"),
                                             BIN("at_64_us", "64 to 256 us"),
                                             BIN("at_256_us", "256 us to 1 ms"),
                                             BIN("at_1_ms", "1 to 4 ms"),
                                             BIN("at_4_ms", "4 ms and more"),
                                             {.name = "appointments",
                                              .unit = "count",
                                              .better = TOLL_NEITHER,
                                              .summary = "appointments that were kept",
                                              .source = TOLL_GAUGE},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How late does a timer wake a sleeping program?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct timer),
    .prepare = prepare,
    .body = keep_appointments,
    .check = check,
    .finish = finish,
    .switches = true,
    .revision = 4,
};
