/* SPDX-License-Identifier: Apache-2.0
 *
 * A switch from one process to the next with the refill of its caches, as lmbench's lat_ctx defines it.
 *
 * Each process of a ring reads its footprint, every word of it, whenever it has the token. What is subtracted is one process
 * that writes and reads the same pipes in turn and reads one footprint, which stays in its cache. So the
 * refill of what the other processes displaced is part of the switch. `kernel.switch` excludes it and writes its
 * footprint.
 *
 * A word is a load, without vectors, as in lmbench: wider loads would refill a cache in less time.
 */
#define _GNU_SOURCE 1
#include "ring.h"

enum { WORDS_AT_ONCE = 8 };

static size_t groups_of(const struct rings *ring) {
  return ring->footprint / sizeof(unsigned long) / WORDS_AT_ONCE;
}

static enum toll_status prepare(struct toll_run *r) {
  const struct rings *ring = r->state;
  if (ring_prepare(r) != TOLL_OK) return toll_refused(r);
  unsigned long *word = (unsigned long *)ring->footprints;
  for (size_t i = ring->footprint * workers_of(ring) / sizeof *word; i; i--) *word++ = 1;
  return TOLL_OK;
}

static void visit_footprint(struct rings *ring, unsigned worker) {
  const volatile unsigned long *word = (const volatile unsigned long *)(ring->footprints + ring->footprint * worker);
  uint64_t sum = 0;
  for (size_t i = groups_of(ring); i; i--, word += WORDS_AT_ONCE)
    sum += word[0] + word[1] + word[2] + word[3] + word[4] + word[5] + word[6] + word[7];
  ring->sums[worker] += sum;
}

static void control(struct toll_run *r) {
  struct rings *ring = r->state;
  const uint64_t before = ring->sums[0];
  for (uint64_t lap = 0; lap < r->iterations; lap++)
    for (unsigned process = 0; process < ring->processes; process++) {
      pass_token(ring, process, lap);
      ring->lost += take_token(ring, process) != lap;
      visit_footprint(ring, 0);
    }
  ring->lost += ring->sums[0] - before != r->iterations * ring->processes * groups_of(ring) * WORDS_AT_ONCE;
  ring->sums[0] = before;
}

static enum toll_status check(struct toll_run *r) {
  const struct rings *ring = r->state;
  for (unsigned worker = 0; worker < workers_of(ring); worker++) {
    const uint64_t words = ring->laps[worker / ring->processes] * groups_of(ring) * WORDS_AT_ONCE;
    if (ring->sums[worker] != words)
      return toll_wrong(r, "%llu words of a footprint were read, not %llu", (unsigned long long)ring->sums[worker],
                        (unsigned long long)words);
  }
  return check_tokens(r);
}

static const uint64_t processes[] = {2, 8, 16, 24, 32, 64, 96, TOLL_END};
static const uint64_t ring_counts[] = {1, TOLL_END};
static const uint64_t footprints[] = {0, 16384, 65536, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "processes", .kind = TOLL_COUNT, .summary = "processes in the ring", .values = processes, .typical = "2"},
    {.name = "footprint",
     .kind = TOLL_SIZE,
     .summary = "what each process reads between two switches",
     .values = footprints,
     .typical = "0"},
    {.name = "rings",
     .kind = TOLL_COUNT,
     .summary = "rings at once, each on a CPU of its own; the first is timed",
     .values = ring_counts},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "switch",
     .unit = "ns",
     .summary = "one switch to the next process with the refill of its caches, as lmbench counts it",
     .source = TOLL_DIFFERENCE},
    {.name = "hop", .unit = "ns", .summary = "one hop of the token: pipe, switch and footprint"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does a switch to another process cost with the refill of its caches, as lmbench counts it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct rings),
    .prepare = prepare,
    .body = lead,
    .control = control,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .revision = 1,
};
