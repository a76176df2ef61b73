/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the other end of a call runs: on the caller's CPU, on another core, or on the other thread of the caller's core.
 *
 * Which CPUs are threads of one core is the system's word. Where it says nothing of it, the second CPU of the visit is
 * taken for another core, and a sibling is nowhere.
 */
#ifndef TOLL_KERNEL_OTHER_END_H
#define TOLL_KERNEL_OTHER_END_H

#include <stdio.h>
#include <stdlib.h>

#include "toll.h"

enum placement { ONE_CPU, TWO_CPUS, SIBLING };

static const char *const placements[] = {"one_cpu", "two_cpus", "sibling", NULL};

/* Whether a list as the system writes it, "0-3,8", has the number. */
static inline bool list_has(const char *list, long number) {
  while (*list) {
    char *rest;
    const long from = strtol(list, &rest, 10);
    long to = from;
    if (rest == list) return false;
    if (*rest == '-') to = strtol(rest + 1, &rest, 10);
    if (from <= number && number <= to) return true;
    list = *rest == ',' ? rest + 1 : rest;
  }
  return false;
}

static inline bool are_siblings(int cpu, int other) {
  char name[96], list[512] = "";
  snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE *file = fopen(name, "re");
  if (!file) return false;
  if (!fgets(list, sizeof list, file)) list[0] = '\0';
  fclose(file);
  return list_has(list, other);
}

/* For prepare: finds the other end's CPU and puts its index into `index`. */
static inline enum toll_status find_other_end(struct toll_run *r, unsigned *index) {
  const unsigned placement = toll_choice(r, "placement");
  *index = 0;
  if (placement == ONE_CPU) return TOLL_OK;
  for (unsigned i = 1; i < r->cpu_count && !*index; i++)
    if (are_siblings(r->cpus[0], r->cpus[i]) == (placement == SIBLING)) *index = i;
  if (*index) return TOLL_OK;
  if (placement == SIBLING)
    return toll_skip(r, "the system tells of no other thread of CPU %d's core among the run's CPUs", r->cpus[0]);
  return toll_skip(r, "needs a CPU of another core, and this run may use %u", r->cpu_count);
}

#endif
