/* SPDX-License-Identifier: Apache-2.0
 *
 * A word there and back, a connection, or a page, with the other end on another machine (lmbench: lat_tcp, lat_udp,
 * lat_connect and lat_http with a host's name).
 *
 * The host tool starts the other end over ssh and passes its address; ssh is not part of the timed path. A datagram
 * that doesn't come back within seconds is lost, and takes the number away.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "remote.h"
#include "toll.h"

enum { PAGE_BYTES = 1024 };

struct remote {
  struct address address;
  int file;
  uint32_t word;
  uint64_t asked, answered;
  char page[PAGE_BYTES + LONGEST_HEAD];
};

static bool send_and_receive(struct remote *remote) {
  const uint32_t word = ++remote->word;
  uint32_t answer = 0;
  if (write(remote->file, &word, sizeof word) != (ssize_t)sizeof word) return false;
  return read_whole(remote->file, (char *)&answer, sizeof answer) && answer == word;
}

static bool connect_and_end(struct remote *remote) {
  char nothing;
  const int file = connect_to(&remote->address);
  const bool ended = file >= 0 && read(file, &nothing, 1) <= 0;
  return ended && close(file) == 0;
}

static bool fetch_page(struct remote *remote) {
  return page_fetch(&remote->address, remote->page, PAGE_BYTES);
}

static const struct route {
  enum service service;
  bool (*once)(struct remote *remote);
} ways[] = {{ECHO_TCP, send_and_receive},
            {ECHO_UDP, send_and_receive},
            {TAKE_CONNECTION, connect_and_end},
            {SERVE_PAGE, fetch_page}};
static const char *const routes[] = {"tcp", "udp", "connect", "http", NULL};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct remote *remote = r->state;
  const struct route *way = &ways[toll_choice(r, "route")];
  if (reach_service(r, way->service, &remote->address, &remote->file) != TOLL_OK) return toll_refused(r);
  if (way->once != send_and_receive) reset(remote->file); /* each question of theirs is a connection of its own */
  return TOLL_OK;
}

static void call(struct toll_run *r) {
  struct remote *remote = r->state;
  bool (*const once)(struct remote *) = ways[toll_choice(r, "route")].once;
  for (uint64_t i = r->iterations; i; i--) remote->answered += once(remote);
  remote->asked += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  struct remote *remote = r->state;
  const bool right = ways[toll_choice(r, "route")].service != SERVE_PAGE || page_is_right(remote->page, PAGE_BYTES);
  memset(remote->page, 0, sizeof remote->page);
  if (!right) return toll_wrong(r, "a page is not as it was served");
  if (remote->answered == remote->asked) return TOLL_OK;
  return toll_fail(r, "%llu of %llu were answered", (unsigned long long)remote->answered,
                   (unsigned long long)remote->asked);
}

static const struct toll_parameter parameters[] = {
    {.name = "route", .kind = TOLL_CHOICE, .summary = "what is asked of the other machine", .choices = routes}, {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one question to another machine and its answer",
                                              .toll = "round trip to another machine by {route}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a question to another machine cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct remote),
    .prepare = prepare,
    .body = call,
    .check = check,
    .switches = true,
    .serves = true,
    .revision = 1,
};
