/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that sleeps on another CPU until a bell is rung, and answers. The time for which that CPU has had nothing
 * else to do passes with the watch stopped. The waking side spins for the answer; otherwise its own wake-up would be
 * measured too.
 */
#ifndef TOLL_BELL_H
#define TOLL_BELL_H

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

static enum toll_status bell_prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct bell *bell = r->state;
  bell->idle_ns = toll_number(r, "idle") * 1000;
  return TOLL_OK;
}

static void bell_sleep_and_answer(struct toll_run *r) {
  struct bell *bell = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    const uint32_t last = atomic_load(&bell->heard);
    if (atomic_load(&bell->rung) != last) atomic_fetch_add(&bell->awake, 1);
    while (atomic_load(&bell->rung) == last) toll_futex_wait(&bell->rung, last);
    atomic_store(&bell->heard, last + 1);
  }
}

static void bell_ring(struct toll_run *r) {
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

static enum toll_status bell_check(struct toll_run *r) {
  struct bell *bell = r->state;
  if (atomic_load(&bell->heard) != atomic_load(&bell->rung)) return toll_wrong(r, "a wake-up was lost");
  if (atomic_load(&bell->awake) > atomic_load(&bell->rung) / 2 + FEW)
    return toll_skip(r, "the other CPU was not idle: %u of %u times the sleeper came too late to sleep",
                     atomic_load(&bell->awake), atomic_load(&bell->rung));
  return TOLL_OK;
}

static unsigned bell_other_cpu(const struct toll_run *r, unsigned worker) {
  (void)r;
  return worker;
}

static const uint64_t bell_idles[] = {50, 1000, 10000, TOLL_END};
#define BELL_PARAMETERS                                                \
  {.name = "idle",                                                     \
   .kind = TOLL_COUNT,                                                 \
   .summary = "microseconds that the other CPU has had nothing to do", \
   .values = bell_idles,                                               \
   .typical = "1000"},                                                 \
  {                                                                    \
    0                                                                  \
  }

#define BELL_ROLES                \
  {.name = "sleeper",             \
   .body = bell_sleep_and_answer, \
   .worker = TOLL_THREAD,         \
   .pace = TOLL_LOCKSTEP,         \
   .cpu = bell_other_cpu},        \
  {                               \
    0                             \
  }

#endif
