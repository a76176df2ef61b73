/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls that a loader serves for an ABI that the kernel does not support (emulator/x32_loader). Each takes a
 * signal, about 20 times the time of a native call, so that a time with many of them is the loader's. The loader counts
 * them in memory whose address is in the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { CALLS, STARTED };

static double calls, timed_ns;
static bool has_started; /* another process: calls that are served to it are not counted here */

static const volatile uint64_t *counter(void) {
  static const volatile uint64_t *found;
  static bool is_looked_up;
  if (!is_looked_up) {
    const char *address = getenv("TOLL_SERVED");
    found = address ? (const volatile uint64_t *)(uintptr_t)strtoull(address, NULL, 0) : NULL;
    is_looked_up = true;
  }
  return found;
}

bool toll_is_served(void) {
  return counter() != NULL;
}

uint64_t toll_served_calls(void) {
  return toll_is_served() ? counter()[CALLS] : 0;
}

static uint64_t started(void) {
  return toll_is_served() ? counter()[STARTED] : 0;
}

struct toll_served toll_served_read(void) {
  return (struct toll_served){toll_served_calls(), started()};
}

/* The resident memory of the loader, which lies above all addresses of the program. */
double toll_served_bytes(void) {
  char line[256];
  unsigned long long start, end;
  unsigned kilobytes;
  bool is_above = false;
  double bytes = 0;
  FILE *file = toll_is_served() ? fopen("/proc/self/smaps", "r") : NULL;
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "%llx-%llx ", &start, &end) == 2)
      is_above = start > UINT32_MAX && !strstr(line, "[v");
    else if (is_above && sscanf(line, "Rss: %u", &kilobytes) == 1)
      bytes += 1024.0 * kilobytes;
  }
  if (file) fclose(file);
  return bytes;
}

void toll_served_add(struct toll_served before, uint64_t took_ns) {
  calls += (double)(toll_served_calls() - before.calls);
  has_started |= started() > before.started;
  timed_ns += (double)took_ns;
}

/* The minimum of several trials: a lower bound of a served call's time. */
static double call_ns(void) {
  enum { TRIALS = 5, CALLS_EACH = 20 };
  uint64_t least = UINT64_MAX;
  for (unsigned trial = 0; trial < TRIALS; trial++) {
    const uint64_t began = toll_now_ns();
    for (unsigned i = 0; i < CALLS_EACH; i++) getppid();
    const uint64_t took = toll_now_ns() - began;
    if (took < least) least = took;
  }
  return (double)least / CALLS_EACH;
}

double toll_served_share(void) {
  const double share = calls > 0 && timed_ns > 0 ? calls * call_ns() / timed_ns : 0;
  const bool is_unknown = has_started;
  calls = timed_ns = 0;
  has_started = false;
  return is_unknown || share > 1 ? 1 : share;
}
