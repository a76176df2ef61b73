/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls that a loader makes in the kernel's place, for an ABI that the kernel does not know (emulator/x32_loader).
 * Each takes a signal, some 20 times what the kernel's own would take: a time with many of them is the loader's. It
 * counts them in a word whose address is in the environment.
 */
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

static double calls, timed_ns;

uint64_t toll_served_calls(void) {
  static const volatile uint64_t *word;
  static bool is_looked_up;
  if (!is_looked_up) {
    const char *address = getenv("TOLL_SERVED");
    word = address ? (const volatile uint64_t *)(uintptr_t)strtoull(address, NULL, 0) : NULL;
    is_looked_up = true;
  }
  return word ? *word : 0;
}

bool toll_is_served(void) {
  return getenv("TOLL_SERVED") != NULL;
}

void toll_served_add(uint64_t before, uint64_t took_ns) {
  calls += (double)(toll_served_calls() - before);
  timed_ns += (double)took_ns;
}

/* The least of some: a served call takes no less. */
static double call_ns(void) {
  enum { TRIALS = 5, CALLS = 20 };
  uint64_t least = UINT64_MAX;
  for (unsigned trial = 0; trial < TRIALS; trial++) {
    const uint64_t began = toll_now_ns();
    for (unsigned i = 0; i < CALLS; i++) getppid();
    const uint64_t took = toll_now_ns() - began;
    if (took < least) least = took;
  }
  return (double)least / CALLS;
}

/* Share of the timed batches of a visit that served calls took, and begins anew; 0 where the kernel serves them. */
double toll_served_share(void) {
  const double share = calls > 0 && timed_ns > 0 ? calls * call_ns() / timed_ns : 0;
  calls = timed_ns = 0;
  return share < 1 ? share : 1;
}
