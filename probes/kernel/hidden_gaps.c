/* SPDX-License-Identifier: Apache-2.0
 *
 * Time that a loop loses and the kernel does not account for: a gap of 10 us or more between two readings of the clock,
 * while this CPU took no interrupt and switched to no other task. Firmware takes it (system management interrupts), or
 * the hypervisor. The kernel's hwlat tracer asks the same with interrupts off, and needs root.
 *
 * The loop runs in slots of a millisecond, and reads what the CPU counts before and after a slot, outside of the loop. In a
 * slot with a tick and a hidden gap the gap counts as the tick's: what is found is the least.
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "clock_ns.h"
#include "toll.h"

enum { LEAST_GAP_NS = 10000, SLOT_NS = 1000000, WATCHED_NS = 300000000, LONGEST_NS = 1000000000 };
enum { LINE = 16384 };

struct gaps {
  uint64_t watched_ns, hidden_ns, longest_ns, hidden;
  uint64_t looked, wanted;
  char line[LINE];
};

/* The column of this CPU in /proc/interrupts, from its first line; -1 if it has none. */
static int column_of(const char *head, int cpu) {
  char name[16];
  int column = 0;
  snprintf(name, sizeof name, "CPU%d", cpu);
  for (const char *word = head + strspn(head, " "); *word; column++) {
    const size_t length = strcspn(word, " \n");
    if (length == strlen(name) && strncmp(word, name, length) == 0) return column;
    word += length + strspn(word + length, " \n");
  }
  return -1;
}

static uint64_t number_in(const char *line, int column) {
  const char *word = strchr(line, ':');
  for (word = word ? word + 1 : ""; *word; column--) {
    word += strspn(word, " ");
    if (!column) return strtoull(word, NULL, 10);
    word += strcspn(word, " ");
  }
  return 0;
}

/* Interrupts of the CPU and switches of this process; false where the system does not report them. */
static bool counted(struct gaps *gaps, int cpu, uint64_t *count) {
  struct rusage use;
  FILE *file = fopen("/proc/interrupts", "re");
  if (!file) return false;
  const int column = fgets(gaps->line, LINE, file) ? column_of(gaps->line, cpu) : -1;
  *count = 0;
  while (column >= 0 && fgets(gaps->line, LINE, file)) *count += number_in(gaps->line, column);
  fclose(file);
  getrusage(RUSAGE_SELF, &use);
  *count += (uint64_t)(use.ru_nvcsw + use.ru_nivcsw);
  return column >= 0;
}

/* Reads the clock until a gap occurs or the slot ends. Returns the gap, 0 for none. */
static uint64_t spin(struct gaps *gaps) {
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC_RAW);
  uint64_t before = began, gap = 0;
  while (!gap && before - began < SLOT_NS) {
    const uint64_t now = toll_clock_ns(CLOCK_MONOTONIC_RAW);
    if (now - before >= LEAST_GAP_NS) gap = now - before;
    before = now;
  }
  gaps->watched_ns += before - began;
  return gap;
}

static enum toll_status prepare(struct toll_run *r) {
  struct gaps *gaps = r->state;
  uint64_t before, after;
  if (toll_prepare_in_place(r) != TOLL_OK || toll_needs_kernel(r) != TOLL_OK) return toll_refused(r);
  if (!toll_clock_is_real()) return toll_skip(r, "the clock is counted, and no time is taken from a count");
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC_RAW);
  while (gaps->watched_ns < WATCHED_NS && toll_clock_ns(CLOCK_MONOTONIC_RAW) - began < LONGEST_NS) {
    if (!counted(gaps, r->cpus[0], &before)) return toll_skip(r, "/proc/interrupts does not count this CPU's");
    const uint64_t gap = spin(gaps);
    if (!gap || !counted(gaps, r->cpus[0], &after) || after != before) continue;
    gaps->hidden_ns += gap;
    gaps->hidden++;
    if (gap > gaps->longest_ns) gaps->longest_ns = gap;
  }
  return TOLL_OK;
}

static void look(struct toll_run *r) {
  struct gaps *gaps = r->state;
  uint64_t last = 0;
  for (uint64_t i = r->iterations; i; i--) {
    const uint64_t now = toll_clock_ns(CLOCK_MONOTONIC_RAW);
    gaps->looked += now >= last;
    last = now;
  }
  gaps->wanted += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct gaps *gaps = r->state;
  if (gaps->hidden_ns > gaps->watched_ns) return toll_wrong(r, "hidden gaps took longer than all");
  return gaps->looked == gaps->wanted ? TOLL_OK : toll_wrong(r, "the clock stepped back");
}

static void finish(struct toll_run *r) {
  const struct gaps *gaps = r->state;
  if (!gaps->watched_ns) return;
  toll_report(r, "hidden", (double)gaps->hidden_ns / (double)gaps->watched_ns);
  toll_report(r, "hidden_longest", (double)gaps->longest_ns);
  toll_report(r, "hidden_each", (double)gaps->hidden * 1e9 / (double)gaps->watched_ns);
}

static const struct toll_metric metrics[] = {
    {.name = "hidden",
     .unit = "ratio",
     .summary = "share of the loop's time in gaps without an interrupt",
     .source = TOLL_GAUGE,
     .means = "hidden-share"},
    {.name = "hidden_longest",
     .unit = "ns",
     .summary = "the longest gap without an interrupt",
     .source = TOLL_GAUGE,
     .means = "hidden-longest"},
    {.name = "hidden_each", .unit = "op/s", .summary = "gaps without an interrupt per second", .source = TOLL_GAUGE},
    {.name = "look", .unit = "ns", .summary = "one look at the clock"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "Which time of a loop that never waits do neither interrupts nor other tasks account for?",
    .metrics = metrics,
    .state_bytes = sizeof(struct gaps),
    .prepare = prepare,
    .body = look,
    .check = check,
    .finish = finish,
    .once = true,
    .switches = true,
    .faults = true,
    .revision = 1,
};
