/* SPDX-License-Identifier: Apache-2.0
 *
 * Several programs at once, as `make -j` starts them: from the first start to the news of the last one's end
 * (lmbench: lat_pmake, and lat_cmd for one).
 *
 * Each is this executable itself, which turns a loop so often as its environment says and ends before main(). The
 * system chooses their CPUs among the visit's, since distributing them is part of the measured work; the creator is
 * unpinned for the batch, and its children inherit that. Without work the price of starting them is left; with work the
 * CPUs' number shows: beyond it they wait for each other.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toll.h"

enum { MOST_JOBS = 64, JOB_STATUS = 7 };

#define SELF  "/proc/self/exe"
#define TURNS "TOLL_JOB_TURNS"

__attribute__((constructor)) static void work_and_end(void) {
  const char *text = getenv(TURNS);
  if (!text) return;
  for (unsigned long turns = strtoul(text, NULL, 10); turns; turns--) TOLL_OPAQUE(turns);
  _exit(JOB_STATUS);
}

struct jobs {
  unsigned at_once;
  char turns[64];
  uint64_t ended, asked, misplaced; /* misplaced: batches whose creator could not be unpinned, or not be pinned again */
};

static pid_t start(struct jobs *jobs) {
  char *const words[] = {(char *)SELF, NULL}, *const environment[] = {jobs->turns, NULL};
  pid_t job = 0;
  return posix_spawn(&job, SELF, NULL, NULL, words, environment) == 0 ? job : -1;
}

static bool ended_well(pid_t job) {
  int status = 0;
  if (job <= 0) return false;
  while (waitpid(job, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == JOB_STATUS;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct jobs *jobs = r->state;
  const uint64_t at_once = toll_number(r, "jobs");
  if (!at_once || at_once > MOST_JOBS) return toll_skip(r, "1 to %d programs are started at once", MOST_JOBS);
  jobs->at_once = (unsigned)at_once;
  snprintf(jobs->turns, sizeof jobs->turns, TURNS "=%llu", (unsigned long long)toll_number(r, "turns"));
  return ended_well(start(jobs)) ? TOLL_OK : toll_skip(r, "no program can be started: %s", strerror(errno));
}

static void run_all(struct jobs *jobs) {
  pid_t started[MOST_JOBS];
  for (unsigned i = 0; i < jobs->at_once; i++) started[i] = start(jobs);
  for (unsigned i = 0; i < jobs->at_once; i++) jobs->ended += ended_well(started[i]);
}

static void run(struct toll_run *r) {
  struct jobs *jobs = r->state;
  jobs->misplaced += !toll_unpin(r);
  for (uint64_t i = r->iterations; i; i--) run_all(jobs);
  jobs->misplaced += !toll_pin(r->cpus[0]);
  jobs->asked += r->iterations * jobs->at_once;
}

static enum toll_status check(struct toll_run *r) {
  const struct jobs *jobs = r->state;
  if (jobs->misplaced) return toll_skip(r, "the system refused to pin the creator, or to unpin it");
  if (jobs->ended == jobs->asked) return TOLL_OK;
  return toll_wrong(r, "%llu of %llu programs ended as they should", (unsigned long long)jobs->ended,
                    (unsigned long long)jobs->asked);
}

static const uint64_t counts[] = {1, 2, 4, 8, TOLL_END};
static const uint64_t lengths[] = {0, 1000000, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "jobs", .kind = TOLL_COUNT, .summary = "programs at once", .values = counts, .typical = "4"},
    {.name = "turns",
     .kind = TOLL_COUNT,
     .summary = "iterations of a loop in each program",
     .values = lengths,
     .typical = "0"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "all",
                                              .unit = "ns",
                                              .summary = "all programs, from the first start to the last end",
                                              .toll = "start 4 programs and wait for them"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What do several programs cost that are started at once?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct jobs),
    .prepare = prepare,
    .body = run,
    .check = check,
    .switches = true,
    .faults = true,
    .spreads = true,
    .revision = 1,
};
