/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the other end of a call runs: on the caller's CPU, on another core, or on the other thread of the caller's core.
 *
 * The system reports which CPUs are threads of one core. If it does not, the visit's second CPU counts as another core,
 * and there is no sibling.
 */
#ifndef TOLL_KERNEL_OTHER_END_H
#define TOLL_KERNEL_OTHER_END_H

#include "toll.h"

enum placement { ONE_CPU, TWO_CPUS, SIBLING };

static const char *const placements[] = {"one_cpu", "two_cpus", "sibling", NULL};

/* For prepare: finds the other end's CPU and puts its index into `index`. */
static inline enum toll_status find_other_end(struct toll_run *r, unsigned *index) {
  const unsigned placement = toll_choice(r, "placement");
  *index = 0;
  if (placement == ONE_CPU) return TOLL_OK;
  for (unsigned i = 1; i < r->cpu_count && !*index; i++)
    if (toll_share_core(r->cpus[0], r->cpus[i]) == (placement == SIBLING)) *index = i;
  if (*index) return TOLL_OK;
  if (placement == SIBLING)
    return toll_skip(r, "the system reports no other thread of CPU %d's core among the run's CPUs", r->cpus[0]);
  return toll_skip(r, "needs a CPU of another core, and this run may use %u", r->cpu_count);
}

#endif
