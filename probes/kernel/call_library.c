/* SPDX-License-Identifier: Apache-2.0
 *
 * The question of call_object, asked through a library for it, as packaged: what programs pay that don't write words into
 * a channel by hand (lmbench: lat_rpc).
 *
 * A library brings a format, names, an allocation or two for each message, and its own loop over its files. What it adds to
 * the socket that it goes through is the difference to call_object's tcp, udp and unix_stream. Each is linked in where
 * Debian has it for this ABI (call_library.mk), and is a gap elsewhere.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>

#include "library.h"
#include "library_dbus.h"
#include "library_rpc.h"
#include "other_end.h"
#include "toll.h"

enum { OBJECTS = 64 };
enum type { NUMBER, LIST, STRING, TYPES };
enum channel { DBUS, RPC_TCP, RPC_UDP };

struct call {
  unsigned types[OBJECTS];
  unsigned other_end; /* index of the CPU */
  uint32_t asked;
  uint64_t lost, wrong;
};

static uint32_t answer_of(void *context, uint32_t question) {
  const struct call *call = context;
  return question | (call->types[question / 2 % OBJECTS] == STRING);
}

static bool open_channel(unsigned channel, struct call *call) {
  if (channel == DBUS) return dbus_open(answer_of, call);
  return rpc_open(channel == RPC_TCP ? SOCK_STREAM : SOCK_DGRAM, answer_of, call);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct call *call = r->state;
  const unsigned channel = toll_choice(r, "channel");
  const bool known = channel == DBUS ? DBUS_KNOWN : RPC_KNOWN;
  uint64_t random = r->seed;
  if (!known) return toll_archive_missing(r, channel == DBUS ? "libdbus" : "libtirpc");
  if (find_other_end(r, &call->other_end) != TOLL_OK) return TOLL_SKIPPED;
  for (unsigned i = 0; i < OBJECTS; i++) call->types[i] = (unsigned)toll_random_below(&random, TYPES);
  errno = 0;
  if (open_channel(channel, call)) return TOLL_OK;
  return toll_skip(r, "the library opens no way to another process: %s", strerror(errno));
}

static void serve(struct toll_run *r) {
  if (toll_choice(r, "channel") == DBUS)
    dbus_serve(r->iterations);
  else
    rpc_serve(r->iterations);
}

static void ask(struct toll_run *r) {
  struct call *call = r->state;
  bool (*const by)(uint32_t question, uint32_t * answer) = toll_choice(r, "channel") == DBUS ? dbus_ask : rpc_ask;
  for (uint64_t i = r->iterations; i; i--) {
    const uint32_t question = call->asked += 2;
    uint32_t answer = 0;
    call->lost += !by(question, &answer);
    call->wrong += answer != answer_of(call, question);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct call *call = r->state;
  if (call->lost) return toll_fail(r, "%llu questions were not answered", (unsigned long long)call->lost);
  if (call->wrong) return toll_wrong(r, "%llu answers were wrong", (unsigned long long)call->wrong);
  return TOLL_OK;
}

static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct call *)r->state)->other_end;
}

static const struct toll_role roles[] = {
    {.name = "owner", .body = serve, .worker = TOLL_PROCESS, .pace = TOLL_LOCKSTEP, .cpu = place}, {0}};
static const char *const channels[] = {"dbus", "rpc_tcp", "rpc_udp", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "channel", .kind = TOLL_CHOICE, .summary = "the library, and what it goes through", .choices = channels},
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements},
    {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "a question to the object's owner and its answer",
                                              .means = "call-of-object",
                                              .toll = "round trip by {channel}, {placement}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to ask an object in another process through a library for that?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct call),
    .prepare = prepare,
    .body = ask,
    .check = check,
    .roles = roles,
    .switches = true,
    .library = "libdbus libtirpc",
    .revision = 1,
};
