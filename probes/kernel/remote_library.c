/* SPDX-License-Identifier: Apache-2.0
 *
 * call_library's question by RPC with the other end on another machine (lmbench: lat_rpc with a host's name): what the
 * library adds is the difference to remote_call's tcp and udp.
 *
 * The library would ask again after 15 seconds, and is given 10: a datagram that is lost takes the number away, and is in
 * none.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "library.h"
#include "remote.h"
#include "toll.h"

enum way { BY_TCP, BY_UDP };

struct remote {
  uint32_t question;
  uint64_t lost, wrong;
};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  if (!RPC_KNOWN) return toll_archive_missing(r, "libtirpc");
  const enum service service = toll_choice(r, "route") == BY_TCP ? RPC_BY_TCP : RPC_BY_UDP;
  struct address address;
  int file = -1;
  if (reach_service(r, service, &address, &file) != TOLL_OK) return toll_refused(r);
  return rpc_open_client(file, &address, type_of(service))
             ? TOLL_OK
             : toll_skip(r, "the library takes no connection of this kind");
}

static void ask(struct toll_run *r) {
  struct remote *remote = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    uint32_t answer = 0;
    remote->lost += !rpc_ask(++remote->question, &answer);
    remote->wrong += answer != rpc_answer(NULL, remote->question);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct remote *remote = r->state;
  if (remote->lost) return toll_fail(r, "%llu questions were not answered", (unsigned long long)remote->lost);
  if (remote->wrong) return toll_wrong(r, "%llu answers were wrong", (unsigned long long)remote->wrong);
  return TOLL_OK;
}

static const char *const routes[] = {"rpc_tcp", "rpc_udp", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "route", .kind = TOLL_CHOICE, .summary = "what the library goes through", .choices = routes}, {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one question to another machine and its answer",
                                              .toll = "round trip to another machine by {route}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a question to another machine cost through a library for that?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct remote),
    .prepare = prepare,
    .body = ask,
    .check = check,
    .switches = true,
    .serves = true,
    .library = "libtirpc",
    .revision = 1,
};
