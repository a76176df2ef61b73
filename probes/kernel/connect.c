/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to another process and its end, before any data are sent: over TCP and over a socket of the Unix domain
 * (lmbench: lat_connect, lat_unix_connect).
 *
 * The server takes each connection and ends it, and the client reads that it has ended: so no two are under way, and the
 * server's queue never fills, which would cost a second's wait for the next try. TCP's three segments travel inside the call
 * of connect; taking it, ending it and the news of that are two wake-ups, or two switches on one CPU.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "connection.h"
#include "other_end.h"
#include "toll.h"

enum route { TCP, UNIX_STREAM };

struct server {
  struct address address;
  int listener;
  unsigned other_end; /* index of the CPU */
  uint64_t asked, connected, taken;
};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct server *server = r->state;
  if (find_other_end(r, &server->other_end) != TOLL_OK) return TOLL_SKIPPED;
  server->address = toll_choice(r, "route") == TCP ? inet_address(INADDR_LOOPBACK) : unix_address();
  server->listener = socket_at(&server->address, SOCK_STREAM);
  return server->listener >= 0 ? TOLL_OK : toll_skip(r, "the system lets no program listen: %s", strerror(errno));
}

static void take(struct toll_run *r) {
  struct server *server = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    const int taken = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    server->taken += taken >= 0 && reset(taken);
  }
}

/* Where the network's work is put off (to ksoftirqd, on a busy CPU) connect sleeps, and may wake to a connection that the
 * server has already ended: its error then is the news of that. */
static bool connects_and_ends(const struct address *address) {
  char nothing;
  const int file = connect_to(address);
  if (file < 0) return errno == ECONNRESET;
  const bool ended = read(file, &nothing, 1) <= 0;
  return close(file) == 0 && ended;
}

static void connect_all(struct toll_run *r) {
  struct server *server = r->state;
  for (uint64_t i = r->iterations; i; i--) server->connected += connects_and_ends(&server->address);
  server->asked += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct server *server = r->state;
  if (server->connected == server->asked && server->taken == server->asked) return TOLL_OK;
  return toll_wrong(r, "of %llu connections %llu were made and %llu taken", (unsigned long long)server->asked,
                    (unsigned long long)server->connected, (unsigned long long)server->taken);
}

static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct server *)r->state)->other_end;
}

static const struct toll_role roles[] = {
    {.name = "server", .body = take, .worker = TOLL_PROCESS, .pace = TOLL_LOCKSTEP, .cpu = place}, {0}};
static const char *const routes[] = {"tcp", "unix_stream", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "route", .kind = TOLL_CHOICE, .summary = "what is connected", .choices = routes},
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
