/* SPDX-License-Identifier: Apache-2.0
 *
 * A new thread or process, from asking for it to the news of its end.
 *
 * The ladder of lmbench's lat_proc: a thread shares all; vfork borrows the parent's memory and makes it wait; fork copies
 * the parent's page tables, so its price is the parent's size; then a program is started in the child, a shell
 * that starts nothing, and last one that starts the program (`sh -c`). The program is this executable itself, which ends
 * before main() when it finds the word below in its environment: a static program of about half a megabyte, the smallest
 * that is sure to exist on the target.
 *
 * Where the new one may run is half of its price. On its creator's CPU it waits until the creator sleeps, and finds the
 * caches warm; unpinned, as programs usually are, it is put on an idle CPU, has to be woken there, and runs beside
 * its creator. The creator is unpinned for the batch alone, since what it starts inherits its places.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toll.h"

enum how { THREAD, VFORK, FORK, FORK_EXEC, SPAWN, SHELL, FORK_SHELL };
enum placement { ONE_CPU, ANY_CPU };
enum { CHILD_STATUS = 7 };

#define SELF       "/proc/self/exe"
#define SHORT_LIFE "TOLL_SHORT_LIFE"

static char *const short_life[] = {(char *)SHORT_LIFE "=1", NULL};
static char *const self_words[] = {(char *)SELF, NULL};
static char *const shell_words[] = {(char *)"sh", (char *)"-c", (char *)"exit 7", NULL};
/* Path of the program by its creator's number, since /proc/self is the shell in a shell. */
static char self_path[64];
static char *const shell_self_words[] = {(char *)"sh", (char *)"-c", self_path, NULL};

__attribute__((constructor)) static void end_at_once(void) {
  if (getenv(SHORT_LIFE)) _exit(CHILD_STATUS);
}

struct created {
  bool unpinned;
  uint64_t ended, asked, misplaced; /* misplaced: batches whose creator could not be unpinned, or not be pinned again */
};

static bool ended_well(pid_t child) {
  int status = 0;
  if (child <= 0) return false;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS;
}

static void *thread_body(void *ran) {
  *(bool *)ran = true;
  return NULL;
}

static bool create_thread(void) {
  pthread_t thread;
  bool ran = false;
  return pthread_create(&thread, NULL, thread_body, &ran) == 0 && pthread_join(thread, NULL) == 0 && ran;
}

static bool create_vfork(void) {
  pid_t child = vfork();
  if (child == 0) _exit(CHILD_STATUS);
  return ended_well(child);
}

static bool create_fork(void) {
  pid_t child = fork();
  if (child == 0) _exit(CHILD_STATUS);
  return ended_well(child);
}

static bool create_fork_exec(void) {
  pid_t child = fork();
  if (child == 0) {
    execve(SELF, self_words, short_life);
    _exit(1);
  }
  return ended_well(child);
}

static bool create_spawn(void) {
  pid_t child = 0;
  return posix_spawn(&child, SELF, NULL, NULL, self_words, short_life) == 0 && ended_well(child);
}

static bool create_shell(void) {
  pid_t child = 0;
  return posix_spawn(&child, "/bin/sh", NULL, NULL, shell_words, short_life) == 0 && ended_well(child);
}

static bool create_fork_shell(void) {
  pid_t child = fork();
  if (child == 0) {
    execve("/bin/sh", shell_self_words, short_life);
    _exit(1);
  }
  return ended_well(child);
}

static const char *const names[] = {"thread", "vfork", "fork", "fork_exec", "spawn", "shell", "fork_shell", NULL};
static bool (*const ways[])(void) = {create_thread, create_vfork, create_fork,      create_fork_exec,
                                     create_spawn,  create_shell, create_fork_shell};

/* Pages that fork has to copy the tables of. */
static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  const unsigned how = toll_choice(r, "how");
  struct created *created = r->state;
  created->unpinned = toll_choice(r, "placement") == ANY_CPU;
  if (created->unpinned && r->cpu_count < 2)
    return toll_skip(r, "needs a second CPU to go to, and this run may use one");
  if (!toll_pin(r->cpus[0])) return toll_skip(r, "the system refused to pin the creator: %s", strerror(errno));
  const size_t bytes = (size_t)toll_number(r, "footprint");
  const struct toll_buffer_request ballast = {.bytes = bytes, .pages = TOLL_PAGES_SMALL};
  if (bytes && !toll_buffer(r, ballast)) return toll_refused(r);
  snprintf(self_path, sizeof self_path, "/proc/%ld/exe", (long)getpid());
  if (!ways[how]()) return toll_skip(r, "nothing could be started this way: %s", names[how]);
  return TOLL_OK;
}

static void create(struct toll_run *r) {
  struct created *created = r->state;
  bool (*const way)(void) = ways[toll_choice(r, "how")];
  if (created->unpinned) created->misplaced += !toll_unpin(r);
  for (uint64_t i = r->iterations; i; i--) created->ended += way();
  if (created->unpinned) created->misplaced += !toll_pin(r->cpus[0]);
  created->asked += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct created *created = r->state;
  if (created->misplaced) return toll_skip(r, "the system refused to pin the creator, or to unpin it");
  if (created->ended == created->asked) return TOLL_OK;
  return toll_wrong(r, "%llu of %llu ended as they should", (unsigned long long)created->ended,
                    (unsigned long long)created->asked);
}

static const char *const placements[] = {"one_cpu", "any", NULL};
static const uint64_t footprints[] = {0, 16 << 20, 64 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "how", .kind = TOLL_CHOICE, .summary = "what is created, and by which call", .choices = names},
    {.name = "footprint",
     .kind = TOLL_SIZE,
     .summary = "memory that the parent has in small pages",
     .values = footprints,
     .typical = "0"},
    {.name = "placement",
     .kind = TOLL_CHOICE,
     .summary = "where the new process may run: on its creator's CPU, or on any of the visit's",
     .choices = placements,
     .typical = "one_cpu"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "life",
                                              .unit = "ns",
                                              .summary = "creation and end of a process, and the wait for it",
                                              .toll = "create and end by {how}, {placement}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a new thread, process or program cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct created),
    .prepare = prepare,
    .body = create,
    .check = check,
    .switches = true,
    .faults = true,
    .spreads = true,
    .revision = 2,
};
