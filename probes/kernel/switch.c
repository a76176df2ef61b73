/* SPDX-License-Identifier: Apache-2.0
 *
 * A switch from one process to the next: a ring of processes on one CPU that pass a token through pipes.
 *
 * One CPU, or nothing is switched: with two, a token wakes an idle CPU, which costs something else. Each process owns a
 * footprint that it reads and dirties, a line at a time, whenever it has the token, as lmbench's lat_ctx does (McVoy and
 * Staelin 1996). When the ring's footprints no longer fit a cache, each turn refills it; that is the working set's price
 * and not the switch's. So the control is one process that makes the same reads and writes of the same pipes and cycles
 * through the same footprints, at the same addresses, and the difference is the switch: scheduler, address space,
 * and the entries of the translation cache that go with it. Nothing measured apart is subtracted.
 *
 * A process writes its token on and only then waits for the next: its write wakes the next process, its read lets it run.
 * Where the CPU tags translations with an address space's number, rings that outgrow the numbers the kernel deals out
 * (Linux on x86: six) pay for a flush at each switch; ring lengths on both sides of it are in the sweep.
 *
 * Several rings run at once, each on a CPU of its own and in step with the first, which alone is timed: what the switches
 * of one CPU take from another's is what they share, caches and the kernel's locks.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "toll.h"

enum { MOST_PROCESSES = 96, MOST_RINGS = 16, MOST_WORKERS = 256 };

/* Workers are numbered through: ring 0 first, and the first of each ring leads it. */
struct rings {
  unsigned processes, rings;
  size_t footprint, line;
  int pipes[MOST_WORKERS][2]; /* into the worker of that number */
  uint64_t laps[MOST_RINGS];  /* that every footprint of the ring must have seen */
  uint64_t lost;              /* tokens that came wrong */
  char *footprints;
};

static unsigned workers_of(const struct rings *ring) {
  return ring->processes * ring->rings;
}

static enum toll_status open_pipes(struct toll_run *r, struct rings *ring) {
  for (unsigned i = 0; i < workers_of(ring); i++)
    if (pipe(ring->pipes[i]) < 0)
      return toll_skip(r, "the system gave no %u pipes: %s", workers_of(ring), strerror(errno));
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct rings *ring = r->state;
  ring->processes = (unsigned)toll_number(r, "processes");
  ring->rings = (unsigned)toll_number(r, "rings");
  ring->footprint = (size_t)toll_number(r, "footprint");
  ring->line = toll_line_bytes();
  if (ring->processes < 2 || ring->processes > MOST_PROCESSES)
    return toll_skip(r, "a ring has 2 to %d processes, not %u", MOST_PROCESSES, ring->processes);
  if (ring->rings < 1 || ring->rings > MOST_RINGS || workers_of(ring) > MOST_WORKERS)
    return toll_skip(r, "at most %d rings and %d processes in all, not %u rings of %u", MOST_RINGS, MOST_WORKERS,
                     ring->rings, ring->processes);
  if (ring->footprint) {
    const size_t bytes = ring->footprint * workers_of(ring);
    ring->footprints = toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .shared = true});
    if (!ring->footprints) return toll_refused(r);
  }
  return open_pipes(r, ring);
}

/* Every line of one worker's footprint is read and dirtied: its first bytes count the laps. */
static void visit_footprint(const struct rings *ring, unsigned worker) {
  char *start = ring->footprints + ring->footprint * worker;
  for (size_t i = 0; i + sizeof(uint32_t) <= ring->footprint; i += ring->line) (*(volatile uint32_t *)(start + i))++;
}

static void pass_token(struct rings *ring, unsigned to, uint64_t token) {
  if (write(ring->pipes[to][1], &token, sizeof token) != (ssize_t)sizeof token) ring->lost++;
}

static uint64_t take_token(struct rings *ring, unsigned worker) {
  uint64_t token = 0;
  if (read(ring->pipes[worker][0], &token, sizeof token) != (ssize_t)sizeof token) ring->lost++;
  return token;
}

static void lead(struct toll_run *r) {
  struct rings *ring = r->state;
  for (uint64_t lap = 0; lap < r->iterations; lap++) {
    pass_token(ring, r->worker + 1, lap);
    ring->lost += take_token(ring, r->worker) != lap + ring->processes - 1;
    visit_footprint(ring, r->worker);
  }
  ring->laps[r->worker / ring->processes] += r->iterations;
}

static void follow(struct toll_run *r) {
  struct rings *ring = r->state;
  const unsigned place = r->worker % ring->processes, first = r->worker - place;
  if (place == 0) {
    lead(r);
    return;
  }
  for (uint64_t lap = 0; lap < r->iterations; lap++) {
    uint64_t token = take_token(ring, r->worker);
    visit_footprint(ring, r->worker);
    pass_token(ring, first + (place + 1) % ring->processes, token + 1);
  }
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
  if (ring->lost) return toll_wrong(r, "%llu tokens were lost or came wrong", (unsigned long long)ring->lost);
  for (unsigned worker = 0; worker < workers_of(ring); worker++)
    if (check_footprint(r, ring, worker) != TOLL_OK) return TOLL_WRONG;
  return TOLL_OK;
}

static unsigned followers(const struct toll_run *r) {
  return workers_of(r->state) - 1;
}
static unsigned cpu_of_ring(const struct toll_run *r, unsigned worker) {
  return worker / ((const struct rings *)r->state)->processes;
}
static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = ((const struct rings *)r->state)->processes;
}

static const struct toll_role roles[] = {{.name = "follower",
                                          .body = follow,
                                          .worker = TOLL_PROCESS,
                                          .pace = TOLL_LOCKSTEP,
                                          .count = followers,
                                          .cpu = cpu_of_ring},
                                         {0}};
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
    .prepare = prepare,
    .body = lead,
    .control = control,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .revision = 2,
};
