/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the one readable file among many: select, poll and epoll over 10 to 500 descriptors.
 *
 * select and poll receive all descriptors at each call and test every one; epoll has registered them before, and
 * returns the ready one. The slope over the descriptors is what a server pays for each idle connection, and the reason
 * why epoll exists. The ready one is the last, so that no search finds it early by chance. lmbench's lat_select instead
 * asks, with a time limit of zero, which of the files can be written to: all of them. It gives the number of files as the
 * number of descriptors, so that the few with the largest numbers are not asked.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "toll.h"

enum call { SELECT, POLL, EPOLL, WRITABLE };
enum kind { EVENT, UNIX_STREAM, TCP, PLAIN };
enum { MOST_FILES = 1000 };

struct watched {
  unsigned files;
  unsigned asked_files; /* files with a descriptor below the number of files */
  int file[MOST_FILES], other_end[MOST_FILES], epoll;
  struct pollfd polled[MOST_FILES];
  fd_set selected;
  struct address server; /* address of the TCP server */
  int listener;
  uint64_t asked, found;
};

static bool open_unix(int *file, int *other_end) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) return false;
  *file = ends[0], *other_end = ends[1];
  return true;
}

static bool open_tcp(struct watched *watched, int *file, int *other_end) {
  *other_end = connect_to(&watched->server);
  *file = *other_end < 0 ? -1 : accept4(watched->listener, NULL, NULL, SOCK_CLOEXEC);
  return *file >= 0;
}

/* For writability, one file under many descriptors is tested, as in lmbench. */
static bool open_again(struct watched *watched, int *file, int *other_end) {
  *file = dup(watched->file[0]), *other_end = watched->other_end[0];
  return *file >= 0;
}

static bool open_one(struct toll_run *r, int *file, int *other_end) {
  struct watched *watched = r->state;
  if (toll_choice(r, "call") == WRITABLE && file != watched->file) return open_again(watched, file, other_end);
  switch (toll_choice(r, "kind")) {
    case EVENT: *file = *other_end = eventfd(0, EFD_CLOEXEC); return *file >= 0;
    case TCP: return open_tcp(watched, file, other_end);
    case PLAIN: *file = *other_end = memfd_create("toll", MFD_CLOEXEC); return *file >= 0;
    default: return open_unix(file, other_end);
  }
}

static bool watch_one(struct watched *watched, unsigned i) {
  struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = i}};
  const int file = watched->file[i];
  watched->polled[i] = (struct pollfd){.fd = file, .events = POLLIN};
  if (file < FD_SETSIZE) FD_SET(file, &watched->selected);
  watched->asked_files += (unsigned)file < watched->files;
  return epoll_ctl(watched->epoll, EPOLL_CTL_ADD, file, &event) == 0 || errno == EPERM; /* EPERM: a plain file */
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct watched *watched = r->state;
  const uint64_t one = 1;
  watched->files = (unsigned)toll_number(r, "files");
  watched->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (!watched->files || watched->files > MOST_FILES) return toll_skip(r, "1 to %d files are watched", MOST_FILES);
  FD_ZERO(&watched->selected);
  watched->server = inet_address(INADDR_LOOPBACK);
  watched->listener = socket_at(&watched->server, SOCK_STREAM);
  for (unsigned i = 0; i < watched->files; i++)
    if (!open_one(r, &watched->file[i], &watched->other_end[i]) || !watch_one(watched, i))
      return toll_skip(r, "the system gave only %u of %u files: %s", i, watched->files, strerror(errno));
  const unsigned last = watched->files - 1, call = toll_choice(r, "call");
  if (toll_choice(r, "kind") == PLAIN && call != WRITABLE)
    return toll_skip(r, "a plain file is always ready, so that the last is not the one ready file");
  if ((call == SELECT || call == WRITABLE) && watched->file[last] >= FD_SETSIZE)
    return toll_skip(r, "select knows %d descriptors only", FD_SETSIZE);
  /* lmbench's sockets have nothing to read: testing a readable socket takes longer, for any condition. */
  if (call != WRITABLE && write(watched->other_end[last], &one, sizeof one) != (ssize_t)sizeof one)
    return toll_fail(r, "the last file could not be made ready");
  return TOLL_OK;
}

static bool select_last(struct watched *watched) {
  fd_set ready = watched->selected;
  const int last = watched->file[watched->files - 1];
  return select(last + 1, &ready, NULL, NULL, NULL) == 1 && FD_ISSET(last, &ready);
}
static bool poll_last(struct watched *watched) {
  return poll(watched->polled, watched->files, -1) == 1 && watched->polled[watched->files - 1].revents == POLLIN;
}
static bool epoll_last(struct watched *watched) {
  struct epoll_event ready[8];
  return epoll_wait(watched->epoll, ready, 8, -1) == 1 && ready[0].data.u32 == watched->files - 1;
}
static bool select_writable(struct watched *watched) {
  fd_set ready = watched->selected;
  struct timeval at_once = {0};
  return select((int)watched->files, NULL, &ready, NULL, &at_once) == (int)watched->asked_files;
}

static bool (*const ways[])(struct watched *watched) = {select_last, poll_last, epoll_last, select_writable};

static void find(struct toll_run *r) {
  struct watched *watched = r->state;
  bool (*const way)(struct watched *) = ways[toll_choice(r, "call")];
  for (uint64_t i = r->iterations; i; i--) watched->found += way(watched);
  watched->asked += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct watched *watched = r->state;
  if (watched->found == watched->asked) return TOLL_OK;
  return toll_wrong(r, "the ready file was found %llu of %llu times", (unsigned long long)watched->found,
                    (unsigned long long)watched->asked);
}

static const char *const calls[] = {"select", "poll", "epoll", "select_writable", NULL};
static const char *const kinds[] = {"event", "unix_stream", "tcp", "plain_file", NULL};
static const uint64_t counts[] = {10, 100, 250, 500, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "call", .kind = TOLL_CHOICE, .summary = "how the ready file is looked for", .choices = calls},
    {.name = "files", .kind = TOLL_COUNT, .summary = "files that are watched", .values = counts, .typical = "100"},
    {.name = "kind", .kind = TOLL_CHOICE, .summary = "what the files are", .choices = kinds, .typical = "unix_stream"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "call",
                                              .unit = "ns",
                                              .summary = "one call that finds the last file ready, or all writable",
                                              .toll = "find the ready file of 100 by {call}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to find the one file of many that has something to read?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct watched),
    .prepare = prepare,
    .body = find,
    .check = check,
    .calls = 1,
    .revision = 4,
};
