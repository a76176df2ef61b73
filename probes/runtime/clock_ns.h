/* SPDX-License-Identifier: Apache-2.0
 *
 * A clock of the system in nanoseconds. `toll_now_ns` of the runtime also serves targets whose clock is a count.
 */
#ifndef TOLL_CLOCK_NS_H
#define TOLL_CLOCK_NS_H

#include <stdint.h>
#include <time.h>

static inline uint64_t toll_clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
