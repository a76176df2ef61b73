/* SPDX-License-Identifier: Apache-2.0
 *
 * The core clock of every CPU of the visit, one after another, and the time to reach it: each CPU is unused for some
 * milliseconds, so that it goes idle, and then runs chains of additions (chain.h) of about 20 us.
 *
 * An interruption only slows a chain, so the fastest chain of a CPU gives its clock. The time until the first chain
 * within 5 % of it is the ramp, in CPU time of this thread, since a CPU that runs another program raises its clock
 * meanwhile. A governor that samples each 10 ms takes as long; hardware takes 0.5 ms to 2 ms. Of many CPUs each has
 * less time: a visit ends within 3 s.
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "clock_ns.h"

enum { MOST_CPUS = 1024, NAME = 16, CHAIN = 1024 * TURN, MOST_CHAINS = 1 << 14 };
#define ALL_NS       UINT64_C(2500000000)
#define MOST_NS      UINT64_C(20000000)
#define IDLE_OF_SPIN 4 /* a CPU spins four times as long as it is idle before */
static const double reached = 0.95;

struct clocks {
  struct chain chain;
  unsigned count;
  char names[MOST_CPUS][NAME];
  double hz[MOST_CPUS], ramps_ns[MOST_CPUS], firsts[MOST_CPUS];
  float rates[MOST_CHAINS], spent_ns[MOST_CHAINS]; /* rates of one CPU's chains, and its CPU time at their beginning */
};

static double chain_hz(struct clocks *c) {
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC_RAW);
  chain_add(&c->chain, CHAIN);
  c->chain.added += CHAIN;
  const uint64_t took = toll_clock_ns(CLOCK_MONOTONIC_RAW) - began;
  return took ? CHAIN * 1e9 / (double)took : 0;
}

static unsigned spin(struct clocks *c, uint64_t spin_ns) {
  const uint64_t began = toll_clock_ns(CLOCK_THREAD_CPUTIME_ID), until = began + spin_ns;
  unsigned chains = 0;
  for (uint64_t now = began; now < until && chains < MOST_CHAINS; now = toll_clock_ns(CLOCK_THREAD_CPUTIME_ID)) {
    c->spent_ns[chains] = (float)(now - began);
    c->rates[chains++] = (float)chain_hz(c);
  }
  return chains;
}

static void visit_cpu(struct clocks *c, int cpu, uint64_t spin_ns) {
  const struct timespec idle = {.tv_nsec = (long)(spin_ns / IDLE_OF_SPIN)};
  nanosleep(&idle, NULL);
  const unsigned chains = spin(c, spin_ns);
  unsigned first = 0;
  double best = 0;
  for (unsigned i = 0; i < chains; i++)
    if (c->rates[i] > best) best = c->rates[i];
  while (first < chains && c->rates[first] < reached * best) first++;
  if (best <= 0) return;
  snprintf(c->names[c->count], NAME, "cpu_%d", cpu);
  c->hz[c->count] = best;
  c->ramps_ns[c->count] = c->spent_ns[first];
  c->firsts[c->count++] = c->rates[0] / best;
}

static enum toll_status prepare(struct toll_run *r) {
  struct clocks *c = r->state;
  if (toll_prepare_in_place(r) != TOLL_OK) return toll_refused(r);
  if (!toll_clock_is_real()) return toll_skip(r, "the clock is counted, and no core's own clock is");
  const unsigned cpus = r->cpu_count < MOST_CPUS ? r->cpu_count : MOST_CPUS;
  const uint64_t each_ns = ALL_NS / (cpus + 1), spin_ns = each_ns < MOST_NS ? each_ns : MOST_NS;
  c->chain.addend = (unsigned long)(r->seed | 1);
  for (unsigned i = 0; i < cpus; i++)
    if (toll_pin(r->cpus[i])) visit_cpu(c, r->cpus[i], spin_ns);
  if (!toll_pin(r->cpus[0]) || !c->count) return toll_skip(r, "the system refuses to pin to the CPUs of the visit");
  return TOLL_OK;
}

static void add(struct toll_run *r) {
  struct chain *chain = &((struct clocks *)r->state)->chain;
  chain_add(chain, r->iterations);
  chain->added += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  return chain_check(r, &((struct clocks *)r->state)->chain);
}

static int by_size(const void *first, const void *second) {
  const double a = *(const double *)first, b = *(const double *)second;
  return (a > b) - (a < b);
}

static double middle(const double *values, unsigned count) {
  static double sorted[MOST_CPUS];
  memcpy(sorted, values, count * sizeof *values);
  qsort(sorted, count, sizeof *sorted, by_size);
  return sorted[count / 2];
}

static void finish(struct toll_run *r) {
  const struct clocks *c = r->state;
  if (!c->count) return;
  toll_report(r, "ramp", middle(c->ramps_ns, c->count));
  toll_report(r, "at_wake", middle(c->firsts, c->count));
  for (unsigned i = 0; i < c->count; i++) toll_report(r, c->names[i], c->hz[i]);
}

static const struct toll_metric metrics[] = {
    {.name = "ramp",
     .unit = "ns",
     .summary = "time from a CPU's first work after some idle milliseconds to 95 % of its clock, median CPU",
     .source = TOLL_GAUGE,
     .means = "clock-ramp"},
    {.name = "at_wake",
     .unit = "ratio",
     .better = TOLL_MORE,
     .summary = "share of its clock that a CPU has in its first 20 us of work, median CPU",
     .source = TOLL_GAUGE,
     .means = "clock-at-wake"},
    {.name = "clock", .unit = "op/s", .better = TOLL_MORE, .summary = "dependent additions a second of the timed CPU"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "Does each CPU reach the same clock, and how soon?",
    .metrics = metrics,
    .state_bytes = sizeof(struct clocks),
    .prepare = prepare,
    .body = add,
    .check = check,
    .finish = finish,
    .quantum = TURN,
    .once = true,
    .spreads = true,
    .revision = 1,
};
