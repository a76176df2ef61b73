/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to another process and its end, before any data are sent: over TCP and over a socket of the Unix domain
 * (lmbench: lat_connect, lat_unix_connect).
 *
 * The server takes each connection and ends it, and the client reads that it has ended: so no two are under way, and the
 * server's queue never fills, which would cost a second's wait for the next try. TCP's three segments travel inside the call
 * of connect; taking it, ending it and the news of that are two wake-ups, or two switches on one CPU.
 *
 * lmbench's client closes its end at once and makes the next connection; the server reads that it has ended. So the
 * segments of a regular close belong to it, and TCP keeps each connection for a minute (TIME_WAIT), as any client does that
 * closes first. Several connections may be under way; the batch ends when the server has ended the last.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "connection.h"
#include "other_end.h"
#include "toll.h"
#include "wait.h"

enum route { TCP, UNIX_STREAM, TCP_LMBENCH, UNIX_LMBENCH };

struct server {
  struct address address;
  int listener;
  unsigned other_end; /* index of the CPU */
  uint64_t asked, connected;
  _Atomic uint32_t taken;
};

static bool is_as_lmbench(const struct toll_run *r) {
  const unsigned route = toll_choice(r, "route");
  return route == TCP_LMBENCH || route == UNIX_LMBENCH;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct server *server = r->state;
  if (find_other_end(r, &server->other_end) != TOLL_OK) return TOLL_SKIPPED;
  const unsigned route = toll_choice(r, "route");
  server->address = route == TCP || route == TCP_LMBENCH ? inet_address(INADDR_LOOPBACK) : unix_address();
  server->listener = socket_at(&server->address, SOCK_STREAM);
  return server->listener >= 0 ? TOLL_OK : toll_skip(r, "the system lets no program listen: %s", strerror(errno));
}

static void take(struct toll_run *r) {
  struct server *server = r->state;
  const bool is_last_to_end = is_as_lmbench(r);
  for (uint64_t i = r->iterations; i; i--) {
    char nothing;
    const int taken = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    const bool ended = !is_last_to_end || read(taken, &nothing, 1) == 0;
    server->taken += taken >= 0 && ended && (is_last_to_end ? close(taken) == 0 : reset(taken));
  }
  toll_futex_wake(&server->taken, 1);
}

/* If the kernel defers network work (to ksoftirqd, on a busy CPU), connect sleeps, and may return after the server
 * has already ended the connection: its error then reports this end. */
static bool connects_and_ends(const struct address *address) {
  char nothing;
  const int file = connect_to(address);
  if (file < 0) return errno == ECONNRESET;
  const bool ended = read(file, &nothing, 1) <= 0;
  return close(file) == 0 && ended;
}

static bool connects_and_closes(const struct address *address) {
  const int file = connect_reusing(address);
  return file >= 0 && close(file) == 0;
}

static void await_server(struct server *server) {
  for (uint32_t taken; (taken = atomic_load(&server->taken)) != (uint32_t)server->connected;)
    toll_futex_wait(&server->taken, taken);
}

static void connect_as_lmbench(struct toll_run *r) {
  struct server *server = r->state;
  for (uint64_t i = r->iterations; i; i--) server->connected += connects_and_closes(&server->address);
  server->asked += r->iterations;
  await_server(server);
}

static void connect_all(struct toll_run *r) {
  struct server *server = r->state;
  if (is_as_lmbench(r)) {
    connect_as_lmbench(r);
    return;
  }
  for (uint64_t i = r->iterations; i; i--) server->connected += connects_and_ends(&server->address);
  server->asked += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct server *server = r->state;
  const uint32_t taken = atomic_load(&server->taken);
  if (server->connected == server->asked && taken == (uint32_t)server->asked) return TOLL_OK;
  return toll_wrong(r, "of %llu connections %llu were made and %u taken", (unsigned long long)server->asked,
                    (unsigned long long)server->connected, taken);
}

static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct server *)r->state)->other_end;
}

static const struct toll_role roles[] = {
    {.name = "server", .body = take, .worker = TOLL_PROCESS, .pace = TOLL_LOCKSTEP, .cpu = place}, {0}};
static const char *const routes[] = {"tcp", "unix_stream", "tcp_lmbench", "unix_lmbench", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "route",
     .kind = TOLL_CHOICE,
     .summary = "what is connected, and awaited until the server has ended it, or closed at once as by lmbench",
     .choices = routes},
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements},
    {0}};
static const struct toll_metric metrics[] = {{.name = "connection",
                                              .unit = "ns",
                                              .summary = "a connection to another process, made, taken and ended",
                                              .toll = "connect by {route}, {placement}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a connection to another process cost, before anything is said?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct server),
    .prepare = prepare,
    .body = connect_all,
    .check = check,
    .roles = roles,
    .switches = true,
    .revision = 1,
};
