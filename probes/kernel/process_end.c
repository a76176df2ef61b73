/* SPDX-License-Identifier: Apache-2.0
 *
 * The time to end a process, over its memory: from the request to end until the parent learns of the end.
 *
 * exit(2) takes each page's translation away and gives the page back if it was the last user's: pages that the child
 * touched itself are freed, those that it has from fork(2) lose one of two users. The control ends a child that has no such
 * pages, so that the difference is the memory alone. Child and parent share one CPU: none of the time is another one's.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toll.h"

enum whose { OWN, INHERITED };
enum { CHILD_STATUS = 7 };

struct endings {
  size_t bytes, page;
  char *inherited;
  uint64_t failed;
};

static bool touch(char *start, const struct endings *endings) {
  for (size_t i = 0; i < endings->bytes; i += endings->page) ((volatile char *)start)[i] = 1;
  return true;
}

static char *map(size_t bytes) {
  char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return NULL;
  madvise(start, bytes, MADV_NOHUGEPAGE);
  return start;
}

/* The child: reports that it is ready, and ends when the parent closes its end. */
static void live(const struct endings *endings, int channel, bool touches) {
  char byte = 0;
  char *own = touches ? map(endings->bytes) : NULL;
  if (touches && (!own || !touch(own, endings))) _exit(1);
  if (write(channel, &byte, 1) != 1 || read(channel, &byte, 1) != 0) _exit(1);
  _exit(CHILD_STATUS);
}

/* Channel of a child that is ready, or -1. */
static pid_t start(const struct endings *endings, bool touches, int *channel) {
  int ends[2];
  char byte;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return -1;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    live(endings, ends[1], touches);
  }
  close(ends[1]);
  *channel = ends[0];
  return child > 0 && read(ends[0], &byte, 1) == 1 ? child : -1;
}

static bool ended_well(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS;
}

static void end_one(struct endings *endings, bool touches) {
  int channel = -1;
  toll_timer_pause();
  const pid_t child = start(endings, touches, &channel);
  toll_timer_resume();
  close(channel);
  endings->failed += child < 0 || !ended_well(child);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct endings *endings = r->state;
  endings->page = toll_page_bytes();
  endings->bytes = (size_t)toll_number(r, "footprint");
  if (!endings->bytes) return toll_skip(r, "without memory there is nothing to give back");
  if (!toll_pin(r->cpus[0])) return toll_skip(r, "the system refused to pin the process: %s", strerror(errno));
  if (toll_choice(r, "pages") == OWN) return TOLL_OK;
  endings->inherited = map(endings->bytes);
  if (!endings->inherited) return toll_fail(r, "no memory: %s", strerror(errno));
  touch(endings->inherited, endings);
  return TOLL_OK;
}

static void end_with_pages(struct toll_run *r) {
  struct endings *endings = r->state;
  const bool touches = toll_choice(r, "pages") == OWN;
  if (endings->inherited) madvise(endings->inherited, endings->bytes, MADV_DOFORK);
  for (uint64_t i = r->iterations; i; i--) end_one(endings, touches);
}

static void end_without(struct toll_run *r) {
  struct endings *endings = r->state;
  if (endings->inherited) madvise(endings->inherited, endings->bytes, MADV_DONTFORK);
  for (uint64_t i = r->iterations; i; i--) end_one(endings, false);
}

static enum toll_status check(struct toll_run *r) {
  const struct endings *endings = r->state;
  if (!endings->failed) return TOLL_OK;
  return toll_wrong(r, "%llu processes did not start, or not end as they should", (unsigned long long)endings->failed);
}

static const char *const owners[] = {"own", "inherited", NULL};
static const uint64_t footprints[] = {1 << 20, 16 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "pages",
     .kind = TOLL_CHOICE,
     .summary = "origin of the pages: touched by the process itself, or inherited by fork",
     .choices = owners},
    {.name = "footprint",
     .kind = TOLL_SIZE,
     .summary = "memory in small pages",
     .values = footprints,
     .typical = "1048576"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "end",
                                              .unit = "ns",
                                              .summary = "time that the memory of a process adds to its end",
                                              .source = TOLL_DIFFERENCE,
                                              .toll = "end a process of 1 MiB, {pages}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does the end of a process cost, by its memory?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct endings),
    .prepare = prepare,
    .body = end_with_pages,
    .control = end_without,
    .check = check,
    .switches = true,
    .faults = true,
    .pauses = true,
    .revision = 1,
};
