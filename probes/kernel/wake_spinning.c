/* SPDX-License-Identifier: Apache-2.0
 *
 * Waking a thread as kernel.wake does, on a CPU that had nothing to do either, but did not go idle: a thread of the idle
 * class spins on it, and gives way to any other. What kernel.wake takes longer is the price of the CPU's idle states: the
 * way out of them, and in a guest the hypervisor's.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "bell.h"

/* The bell comes first: its functions take the state for it. */
struct beside {
  struct bell bell;
  _Atomic uint32_t spins, started; /* whether the spinner spins; whether it is of the idle class and on its CPU */
  int cpu, refused;
  pthread_t spinner;
};

static void *spin(void *state) {
  struct beside *beside = state;
  const struct sched_param none = {0};
  if (!toll_pin(beside->cpu) || sched_setscheduler(0, SCHED_IDLE, &none) < 0) beside->refused = errno;
  atomic_store(&beside->started, 1);
  for (;;) {
    while (!atomic_load(&beside->spins)) toll_futex_wait(&beside->spins, 0);
    while (atomic_load_explicit(&beside->spins, memory_order_relaxed)) toll_relax();
  }
  return NULL;
}

static enum toll_status prepare(struct toll_run *r) {
  struct beside *beside = r->state;
  if (bell_prepare(r) != TOLL_OK) return toll_refused(r);
  if (r->cpu_count < 2) return toll_skip(r, "it needs two CPUs");
  beside->cpu = r->cpus[1];
  const int refused = pthread_create(&beside->spinner, NULL, spin, beside);
  if (refused) return toll_fail(r, "no thread could be started: %s", strerror(refused));
  while (!atomic_load(&beside->started)) sched_yield();
  if (beside->refused) return toll_skip(r, "no thread may spin at the idle class: %s", strerror(beside->refused));
  return TOLL_OK;
}

static void ring(struct toll_run *r) {
  struct beside *beside = r->state;
  toll_timer_pause();
  atomic_store(&beside->spins, 1);
  toll_futex_wake(&beside->spins, 1);
  toll_timer_resume();
  bell_ring(r);
  atomic_store_explicit(&beside->spins, 0, memory_order_relaxed);
}

static const struct toll_role roles[] = {BELL_ROLES};
static const struct toll_parameter parameters[] = {BELL_PARAMETERS};
static const struct toll_metric metrics[] = {
    {.name = "wake",
     .unit = "ns",
     .summary = "from the call that wakes to the sight of the woken's first store",
     .means = "wake-of-spinning"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How long does it take to wake a thread on a CPU that did not go idle?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct beside),
    .prepare = prepare,
    .body = ring,
    .check = bell_check,
    .roles = roles,
    .pauses = true,
    .sleeps = true,
    .revision = 1,
};
