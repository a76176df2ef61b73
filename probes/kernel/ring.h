/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings of processes that pass a token through pipes, each ring on a CPU of its own; one of them is timed. What a process
 * does with its footprint whenever it has the token is the probe's own `visit_footprint`.
 */
#ifndef TOLL_KERNEL_RING_H
#define TOLL_KERNEL_RING_H

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "toll.h"

enum { MOST_PROCESSES = 96, MOST_RINGS = 16, MOST_WORKERS = 256 };

/* Workers are numbered through: ring 0 first, and the first of each ring leads it. */
struct rings {
  unsigned processes, rings;
  size_t footprint, line;
  int pipes[MOST_WORKERS][2];  /* into the worker of that number */
  uint64_t laps[MOST_RINGS];   /* laps that every footprint of the ring must have counted */
  uint64_t lost;               /* tokens that came wrong */
  uint64_t sums[MOST_WORKERS]; /* sum of the words that each worker has read, if a footprint is only read */
  char *footprints;
};

static inline unsigned workers_of(const struct rings *ring) {
  return ring->processes * ring->rings;
}

static inline enum toll_status open_pipes(struct toll_run *r, struct rings *ring) {
  for (unsigned i = 0; i < workers_of(ring); i++)
    if (pipe(ring->pipes[i]) < 0)
      return toll_skip(r, "the system gave no %u pipes: %s", workers_of(ring), strerror(errno));
  return TOLL_OK;
}

static inline enum toll_status ring_prepare(struct toll_run *r) {
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

static void visit_footprint(struct rings *ring, unsigned worker);

static inline void pass_token(struct rings *ring, unsigned to, uint64_t token) {
  if (write(ring->pipes[to][1], &token, sizeof token) != (ssize_t)sizeof token) ring->lost++;
}

static inline uint64_t take_token(struct rings *ring, unsigned worker) {
  uint64_t token = 0;
  if (read(ring->pipes[worker][0], &token, sizeof token) != (ssize_t)sizeof token) ring->lost++;
  return token;
}

static inline void lead(struct toll_run *r) {
  struct rings *ring = r->state;
  for (uint64_t lap = 0; lap < r->iterations; lap++) {
    pass_token(ring, r->worker + 1, lap);
    ring->lost += take_token(ring, r->worker) != lap + ring->processes - 1;
    visit_footprint(ring, r->worker);
  }
  ring->laps[r->worker / ring->processes] += r->iterations;
}

static inline void follow(struct toll_run *r) {
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

static inline unsigned followers(const struct toll_run *r) {
  return workers_of(r->state) - 1;
}
static inline unsigned cpu_of_ring(const struct toll_run *r, unsigned worker) {
  return worker / ((const struct rings *)r->state)->processes;
}
static inline void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = ((const struct rings *)r->state)->processes;
}

static inline enum toll_status check_tokens(struct toll_run *r) {
  const struct rings *ring = r->state;
  if (!ring->lost) return TOLL_OK;
  return toll_wrong(r, "%llu tokens were lost or came wrong", (unsigned long long)ring->lost);
}

static const struct toll_role roles[] = {{.name = "follower",
                                          .body = follow,
                                          .worker = TOLL_PROCESS,
                                          .pace = TOLL_LOCKSTEP,
                                          .count = followers,
                                          .cpu = cpu_of_ring},
                                         {0}};

#endif
