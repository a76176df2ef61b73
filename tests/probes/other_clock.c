/* SPDX-License-Identifier: Apache-2.0
 *
 * Linked with --wrap=clock_gettime: the clock of another system. COARSE_NS: its step, as where a kernel counts the ticks of
 * its timer. SET_AFTER: so many readings later it is set by an hour, forward and back in turn.
 */
#include <stddef.h>
#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

#ifndef COARSE_NS
#define COARSE_NS 1
#endif
#ifndef SET_AFTER
#define SET_AFTER -1u
#endif

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  enum { DAY_S = 86400, HOUR_S = 3600 };
  static unsigned readings;
  const int result = __real_clock_gettime(clock, now);
  now->tv_nsec -= now->tv_nsec % COARSE_NS;
  now->tv_sec += DAY_S + (readings++ / SET_AFTER % 2 ? HOUR_S : 0);
  return result;
}
