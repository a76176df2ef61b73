/* SPDX-License-Identifier: Apache-2.0
 *
 * Waking a thread on a CPU that has gone idle, from the call that wakes it to the sight of what it does first.
 *
 * The longer a CPU has nothing to do, the deeper it sleeps: its clocks are stopped, then its caches emptied, and in a guest
 * the hypervisor takes it away and must first be asked to give it back. So the time that it has been idle is the axis, and
 * passes with the watch stopped. The waking side spins for the answer, or its own wake-up would be in the price too.
 */
#define _GNU_SOURCE 1
#include <stdatomic.h>

#include "toll.h"
#include "wait.h"

enum { LINE = 128, FEW = 4 };

struct bell {
  _Atomic uint32_t rung;
  char padding[LINE - sizeof(uint32_t)];
  _Atomic uint32_t heard;
  char padding_after[LINE - sizeof(uint32_t)];
  _Atomic uint32_t awake; /* times that the sleeper found the bell rung before it slept */
  uint64_t idle_ns;
};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct bell *bell = r->state;
  bell->idle_ns = toll_number(r, "idle") * 1000;
  return TOLL_OK;
}

static void sleep_and_answer(struct toll_run *r) {
  struct bell *bell = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    const uint32_t last = atomic_load(&bell->heard);
    if (atomic_load(&bell->rung) != last) atomic_fetch_add(&bell->awake, 1);
    while (atomic_load(&bell->rung) == last) toll_futex_wait(&bell->rung, last);
    atomic_store(&bell->heard, last + 1);
  }
}

static void ring(struct toll_run *r) {
  struct bell *bell = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    toll_timer_pause();
    const uint64_t until = toll_moment_ns() + bell->idle_ns;
    while (toll_moment_ns() < until) toll_relax();
    toll_timer_resume();
    const uint32_t bid = atomic_fetch_add(&bell->rung, 1) + 1;
    toll_futex_wake(&bell->rung, 1);
    while (atomic_load_explicit(&bell->heard, memory_order_acquire) != bid) toll_relax();
  }
}

static enum toll_status check(struct toll_run *r) {
  struct bell *bell = r->state;
  if (atomic_load(&bell->heard) != atomic_load(&bell->rung)) return toll_wrong(r, "a wake-up was lost");
  if (atomic_load(&bell->awake) > atomic_load(&bell->rung) / 2 + FEW)
    return toll_skip(r, "the other CPU was not idle: %u of %u times the sleeper came too late to sleep",
                     atomic_load(&bell->awake), atomic_load(&bell->rung));
  return TOLL_OK;
}

static unsigned other_cpu(const struct toll_run *r, unsigned worker) {
  (void)r;
  return worker;
}

static const struct toll_role roles[] = {
    {.name = "sleeper", .body = sleep_and_answer, .worker = TOLL_THREAD, .pace = TOLL_LOCKSTEP, .cpu = other_cpu}, {0}};
static const uint64_t idles[] = {50, 1000, 10000, TOLL_END};
static const struct toll_parameter parameters[] = {{.name = "idle",
                                                    .kind = TOLL_COUNT,
                                                    .summary = "microseconds that the other CPU has had nothing to do",
                                                    .values = idles,
                                                    .typical = "1000"},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "wake",
     .unit = "ns",
     .summary = "from the call that wakes to the sight of the woken's first store",
     .means = "wake-of-idle",
     .toll = "wake a thread on a CPU that was idle for a millisecond"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How long does it take to wake a CPU that has gone idle?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct bell),
    .prepare = prepare,
    .body = ring,
    .check = check,
    .roles = roles,
    .pauses = true,
    .sleeps = true,
    .revision = 1,
};
