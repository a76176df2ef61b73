/* SPDX-License-Identifier: Apache-2.0
 *
 * The time that a loop of clock readings loses: each reading that is late by a microsecond or more is a detour, caused
 * by the timer's tick, another program, an interrupt, or a hypervisor that runs another guest.
 *
 * A batch is long beside the period of the slowest timer (10 ms), so that detours which come regularly are seen to: the most
 * common distance between two of them, and how many keep it, say what took the time. That is a program's view, at a
 * program's priority: switches are what is measured here, and no evidence against it.
 */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>

#include "clock_ns.h"
#include "toll.h"

enum { LEAST_NS = 1000, BINS = 8, MOST_GAPS = 8192, LOOKS = 1 << 21 };

struct detours {
  uint64_t looked, wanted;             /* looks at the clock */
  uint64_t watched_ns, taken_ns;       /* all time, and what of it was detours */
  uint64_t longest_ns, bins[BINS];     /* from 1 us, each four times the last */
  uint64_t gap_count, gaps[MOST_GAPS]; /* from one detour's beginning to the next one's */
};

static uint64_t now_ns(void) {
  return toll_clock_ns(CLOCK_MONOTONIC_RAW);
}

static unsigned bin_of(uint64_t ns) {
  unsigned bin = 0;
  for (uint64_t end = 4 * LEAST_NS; ns >= end && bin < BINS - 1; end *= 4) bin++;
  return bin;
}

static void note(struct detours *detours, uint64_t ns, uint64_t since_last_ns) {
  detours->taken_ns += ns;
  detours->bins[bin_of(ns)]++;
  if (ns > detours->longest_ns) detours->longest_ns = ns;
  if (since_last_ns && detours->gap_count < MOST_GAPS) detours->gaps[detours->gap_count++] = since_last_ns;
}

/* A detour takes time, and a clock that counts instructions counts only the program's own. */
static enum toll_status prepare(struct toll_run *r) {
  return toll_clock_is_real() ? TOLL_OK : toll_skip(r, "the clock is counted, and no time is taken from a count");
}

static void look(struct toll_run *r) {
  struct detours *detours = r->state;
  const uint64_t began = now_ns();
  uint64_t before = began, last = 0;
  for (uint64_t i = r->iterations; i; i--) {
    const uint64_t now = now_ns();
    if (now - before >= LEAST_NS) {
      note(detours, now - before, last ? before - last : 0);
      last = before;
    }
    before = now;
    detours->looked++;
  }
  detours->watched_ns += before - began;
  detours->wanted += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct detours *detours = r->state;
  if (detours->looked != detours->wanted) return toll_wrong(r, "the loop left out looks at the clock");
  if (detours->taken_ns > detours->watched_ns) return toll_wrong(r, "detours took longer than all");
  return TOLL_OK;
}

static int compare(const void *a, const void *b) {
  const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

/* Finds the most common distance between detours, to within a twentieth, and the share of detours at this distance.
 * If the share is small, there is no period. */
static void report_period(struct toll_run *r, struct detours *detours) {
  const uint64_t count = detours->gap_count;
  uint64_t most = 0, from = 0;
  qsort(detours->gaps, count, sizeof *detours->gaps, compare);
  for (uint64_t i = 0, end = 0; i < count; i++) {
    while (end < count && detours->gaps[end] <= detours->gaps[i] + detours->gaps[i] / 20) end++;
    if (end - i > most) most = end - i, from = i;
  }
  if (!count) return;
  toll_report(r, "period", (double)detours->gaps[from + most / 2]);
  toll_report(r, "regular", (double)most / (double)count);
}

static void finish(struct toll_run *r) {
  static const char *const names[BINS] = {"at_1_us",   "at_4_us", "at_16_us", "at_64_us",
                                          "at_256_us", "at_1_ms", "at_4_ms",  "at_16_ms"};
  struct detours *detours = r->state;
  const double watched = (double)detours->watched_ns;
  if (!detours->watched_ns) return;
  toll_report(r, "share", (double)detours->taken_ns / watched);
  toll_report(r, "longest", (double)detours->longest_ns);
  for (int i = 0; i < BINS; i++) toll_report(r, names[i], (double)detours->bins[i] * 1e9 / watched);
  report_period(r, detours);
  memset(detours, 0, sizeof *detours);
}

#define BIN(bin, text) \
  { .name = bin, .unit = "op/s", .summary = "detours a second of " text, .source = TOLL_GAUGE, .means = "noise-bin" }
static const struct toll_metric metrics[] = {
    {.name = "share",
     .unit = "ratio",
     .better = TOLL_LESS,
     .summary = "share of the loop's time that detours took",
     .source = TOLL_GAUGE,
     .means = "noise-share"},
    {.name = "period",
     .unit = "ns",
     .better = TOLL_NEITHER,
     .summary = "the most common distance between two detours",
     .source = TOLL_GAUGE,
     .means = "noise-period"},
    {.name = "regular",
     .unit = "ratio",
     .better = TOLL_NEITHER,
     .summary = "share of the distances that are the most common one",
     .source = TOLL_GAUGE,
     .means = "noise-regular"},
    {.name = "longest", .unit = "ns", .summary = "the longest detour", .source = TOLL_GAUGE, .means = "worst"},
    BIN("at_1_us", "1 to 4 us"),
    BIN("at_4_us", "4 to 16 us"),
    BIN("at_16_us", "16 to 64 us"),
    BIN("at_64_us", "64 to 256 us"),
    BIN("at_256_us", "256 us to 1 ms"),
    BIN("at_1_ms", "1 to 4 ms"),
    BIN("at_4_ms", "4 to 16 ms"),
    BIN("at_16_ms", "16 ms and more"),
    {.name = "look", .unit = "ns", .summary = "one look at the clock, detours and all"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does the machine take from a loop that never waits, and what takes it?",
    .metrics = metrics,
    .state_bytes = sizeof(struct detours),
    .prepare = prepare,
    .body = look,
    .check = check,
    .finish = finish,
    .quantum = LOOKS,
    .switches = true,
    .faults = true,
    .revision = 2,
};
