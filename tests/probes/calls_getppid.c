/* SPDX-License-Identifier: Apache-2.0
 *
 * What an ordinary program pays: the C library's getppid() in a loop, as the least of some batches, in ns.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(void) {
  enum { BATCHES = 20, CALLS = 1000 };
  int64_t least = INT64_MAX;
  for (int batch = 0; batch < BATCHES; batch++) {
    const int64_t began = now_ns();
    for (int i = 0; i < CALLS; i++) getppid();
    const int64_t took = now_ns() - began;
    if (took < least) least = took;
  }
  printf("%.3f\n", (double)least / CALLS);
  return 0;
}
