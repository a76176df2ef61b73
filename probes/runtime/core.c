/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the CPU of a visit, and waits until its core is uncontended. A workload on the sibling hyperthread comes and
 * goes within milliseconds: of the idle time of a sibling that was busy for 80 % of the time, 77 % was in intervals
 * longer than 10 ms.
 */
#include <time.h>

#include "internal.h"

static uint64_t waited_ns;

uint64_t toll_core_waited_ns(void) {
  return waited_ns;
}

/* The analysis calls a sample uncontended by the same rule (experiment/core.py). */
bool toll_core_is_whole(const struct toll_run *r, struct toll_burst seen) {
  const double least = 0.95, thousandths = 1000;
  return seen.width_hz * thousandths >= least * (double)r->visit->request.full_width * seen.chain_hz;
}

void toll_core_choose(struct toll_run *r) {
  struct toll_request *request = &r->visit->request;
  const int own = request->cpus[0];
  waited_ns = 0;
  if (!request->full_width || request->cpu_count != 1 || toll_core_is_whole(r, toll_burst_measure())) return;
  for (unsigned i = 0; i < request->also_count; i++) {
    if (request->also[i] == own || !toll_pin(request->also[i])) continue;
    if (!toll_core_is_whole(r, toll_burst_measure())) continue;
    request->cpus[0] = request->also[i];
    toll_witness_open(r->cpus, r->cpu_count);
    return;
  }
  toll_pin(own);
}

/* One reading takes 20 us, so that looking each millisecond leaves the CPU to others. */
bool toll_core_await(const struct toll_run *r, struct toll_burst seen) {
  const struct timespec pause = {.tv_nsec = 1000000};
  const uint64_t most_ns = r->visit->request.wait_ms * 1000000;
  while (!toll_core_is_whole(r, seen)) {
    if (waited_ns >= most_ns || toll_stop_asked()) return false;
    const uint64_t began = toll_now_ns();
    nanosleep(&pause, NULL);
    seen = toll_burst_measure();
    waited_ns += toll_now_ns() - began;
  }
  return true;
}
