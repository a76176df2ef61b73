/* SPDX-License-Identifier: Apache-2.0
 *
 * A token passed between two processes by System V semaphores, each side in one call: it takes its own semaphore and raises
 * the other's in one semop(2), as lmbench's lat_sem does (McVoy and Staelin 1996). Half of a round trip, as lat_sem prints.
 *
 * The kernel performs both operations of a sleeping process when its semaphore is raised, before that process runs. So
 * the caller may find the token back without a switch, and no answer travels with it. `kernel.call_object` with the
 * channel sysv_semaphore waits for an answer, by two calls a side.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#include "keeper.h"
#include "other_end.h"
#include "toll.h"

enum side { READER, WRITER, SIDES };

struct token {
  int semaphores;     /* one a side, raised where the token is */
  unsigned other_end; /* index of the CPU */
  uint64_t lost;      /* calls that failed */
  uint64_t asked[SIDES], passed[SIDES];
};

static void remove_semaphores(const void *number) {
  semctl(*(const int *)number, 0, IPC_RMID);
}

static void change(struct token *token, struct sembuf *changes, size_t count) {
  if (semop(token->semaphores, changes, count) < 0) token->lost++;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct token *token = r->state;
  token->semaphores = -1;
  if (find_other_end(r, &token->other_end) != TOLL_OK) return TOLL_SKIPPED;
  if (!keep_until_end(remove_semaphores, &token->semaphores)) return toll_skip(r, "no process can be started");
  token->semaphores = semget(IPC_PRIVATE, SIDES, 0600);
  if (token->semaphores < 0) return toll_skip(r, "the system gave no semaphores: %s", strerror(errno));
  change(token, &(struct sembuf){.sem_num = READER, .sem_op = 1}, 1);
  return TOLL_OK;
}

static void pass(struct toll_run *r, enum side self) {
  struct token *token = r->state;
  struct sembuf both[] = {{.sem_num = (unsigned short)self, .sem_op = -1},
                          {.sem_num = (unsigned short)!self, .sem_op = 1}};
  for (uint64_t i = r->iterations; i; i--, token->passed[self]++) change(token, both, SIDES);
  token->asked[self] += r->iterations;
}

static void pass_on(struct toll_run *r) {
  pass(r, READER);
}

static void pass_back(struct toll_run *r) {
  pass(r, WRITER);
}

static enum toll_status check(struct toll_run *r) {
  const struct token *token = r->state;
  if (token->lost) return toll_skip(r, "the system refused %llu calls", (unsigned long long)token->lost);
  if (token->passed[READER] != token->asked[READER] || token->passed[WRITER] != token->asked[WRITER])
    return toll_wrong(r, "%llu passes were asked for, and %llu were made", (unsigned long long)token->asked[READER],
                      (unsigned long long)token->passed[READER]);
  const int here = semctl(token->semaphores, READER, GETVAL), there = semctl(token->semaphores, WRITER, GETVAL);
  if (here != 1 || there != 0) return toll_wrong(r, "the token was passed on %d times and back %d", 1 - here, there);
  return TOLL_OK;
}

static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct token *)r->state)->other_end;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->operations = SIDES;
}

static const struct toll_role roles[] = {
    {.name = "writer", .body = pass_back, .worker = TOLL_PROCESS, .pace = TOLL_LOCKSTEP, .cpu = place}, {0}};
static const struct toll_parameter parameters[] = {
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements}, {0}};
static const struct toll_metric metrics[] = {
    {.name = "pass", .unit = "ns", .summary = "half of a round trip by paired semaphore operations"}, {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to pass a token by semaphores, where one call takes one and raises the other?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct token),
    .prepare = prepare,
    .body = pass_on,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .revision = 1,
};
