/* SPDX-License-Identifier: Apache-2.0
 *
 * A switch from one process to the next: a ring of processes on one CPU that pass a token through pipes.
 *
 * One CPU, or nothing is switched: with two, a token wakes an idle CPU, which costs something else. Each process owns a
 * footprint that it reads and dirties, a line at a time, whenever it has the token, as lmbench's lat_ctx does (McVoy
 * and Staelin 1996). When the ring's footprints no longer fit a cache, each turn refills it; this is the cost of the
 * working set and not of the switch. So the control is one process that makes the same reads and writes of the same
 * pipes and cycles through the same footprints, at the same addresses, and the difference is the switch: scheduler,
 * address space, and the entries of the translation cache that go with it. Nothing measured apart is subtracted.
 *
 * A process writes its token on and only then waits for the next: its write wakes the next process, its read lets it run.
 * Where the CPU tags translations with an address space's number, rings that outgrow the numbers the kernel deals out
 * (Linux on x86: six) pay for a flush at each switch; ring lengths on both sides of it are in the sweep.
 *
 * Several rings run at once, each on a CPU of its own and in step with the first, which alone is timed: what the switches
 * of one CPU take from another's is what they share, caches and the kernel's locks.
 */
#define _GNU_SOURCE 1
#include "ring.h"

/* Every line of one worker's footprint is read and dirtied: its first bytes count the laps. */
static void visit_footprint(struct rings *ring, unsigned worker) {
  char *start = ring->footprints + ring->footprint * worker;
  for (size_t i = 0; i + sizeof(uint32_t) <= ring->footprint; i += ring->line) (*(volatile uint32_t *)(start + i))++;
}

static void control(struct toll_run *r) {
  struct rings *ring = r->state;
  for (uint64_t lap = 0; lap < r->iterations; lap++)
    for (unsigned process = 0; process < ring->processes; process++) {
      pass_token(ring, process, lap);
      ring->lost += take_token(ring, process) != lap;
      visit_footprint(ring, process);
    }
  ring->laps[0] += r->iterations;
}

static enum toll_status check_footprint(struct toll_run *r, const struct rings *ring, unsigned worker) {
  const char *start = ring->footprints + ring->footprint * worker;
  const uint32_t laps = (uint32_t)ring->laps[worker / ring->processes];
  for (size_t i = 0; i + sizeof(uint32_t) <= ring->footprint; i += ring->line) {
    const uint32_t visits = *(const uint32_t *)(start + i);
    if (visits != laps) return toll_wrong(r, "a footprint was visited %u times, not %u", visits, laps);
  }
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  const struct rings *ring = r->state;
  if (check_tokens(r) != TOLL_OK) return TOLL_WRONG;
  for (unsigned worker = 0; worker < workers_of(ring); worker++)
    if (check_footprint(r, ring, worker) != TOLL_OK) return TOLL_WRONG;
  return TOLL_OK;
}

static const uint64_t processes[] = {2, 4, 6, 8, 16, 24, 32, 64, 96, TOLL_END};
static const uint64_t ring_counts[] = {1, 2, TOLL_END};
static const uint64_t footprints[] = {0, 4096, 16384, 65536, 262144, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "processes", .kind = TOLL_COUNT, .summary = "processes in the ring", .values = processes, .typical = "2"},
    {.name = "footprint",
     .kind = TOLL_SIZE,
     .summary = "what each process reads and dirties between two switches",
     .values = footprints,
     .typical = "0"},
    {.name = "rings",
     .kind = TOLL_COUNT,
     .summary = "rings at once, each on a CPU of its own; the first is timed",
     .values = ring_counts,
     .typical = "1"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "switch",
     .unit = "ns",
     .summary = "one switch to the next process, cache refill not counted",
     .source = TOLL_DIFFERENCE,
     .means = "switch",
     .toll = "switch to another process"},
    {.name = "hop", .unit = "ns", .summary = "one hop of the token: pipe, switch and footprint"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does a switch to another process cost, and how much of it is the cache refilled?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct rings),
    .prepare = ring_prepare,
    .body = lead,
    .control = control,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .revision = 2,
};
