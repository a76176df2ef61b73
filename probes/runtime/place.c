/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves the timed worker to another CPU, for probes that need it, and updates the visit's record, its evidence and its
 * companions. A probe must not call sched_setaffinity() itself.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

enum toll_status toll_prepare_in_place(struct toll_run *r) {
  return r->visit->request.ahead ? toll_fail(r, "it has to be prepared where it measures") : TOLL_OK;
}

enum toll_status toll_move(struct toll_run *r, int cpu) {
  int *cpus = r->visit->request.cpus;
  unsigned index = 0;
  while (index < r->cpu_count && cpus[index] != cpu) index++;
  if (index == r->cpu_count) return toll_skip(r, "this run may not use CPU %d", cpu);
  if (toll_prepare_in_place(r) != TOLL_OK) return toll_refused(r);
  if (!toll_pin(cpu)) return toll_skip(r, "the system refused to pin the worker to CPU %d: %s", cpu, strerror(errno));
  cpus[index] = cpus[0];
  cpus[0] = cpu;
  return TOLL_OK;
}

bool toll_unpin(const struct toll_run *r) {
  return toll_allow(r->cpus, r->cpu_count);
}
