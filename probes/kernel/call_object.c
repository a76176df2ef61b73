/* SPDX-License-Identifier: Apache-2.0
 *
 * "Is this object a string?", asked of an object that lives elsewhere: the round trip of the smallest useful call.
 *
 * It is test D of "Speed limits" (Willcocks 2013), asked there of an object in the same and in another map. The
 * question is one word, the object's number; the answer is one bit that only the object's owner can give. What is timed
 * is therefore the way there and back, one call at a time: no batching, no second question before the first answer.
 * The control asks the same of an object of its own, by a function call.
 *
 * With both ends on one CPU every call is two switches, and nobody may spin without letting the other in; with two CPUs
 * a waiting side that sleeps has to be woken on its own CPU, and one that spins takes the caller's line instead.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "channel.h"
#include "toll.h"

enum { OBJECTS = 64 };
enum type { NUMBER, LIST, STRING, TYPES };
enum placement { ONE_CPU, TWO_CPUS };
enum map { OTHER_MAP, SAME_MAP };

struct object {
  unsigned type;
  union {
    long number;
    char *text;
    struct object *items;
  } value;
};
struct call {
  struct channel channel;
  struct object objects[OBJECTS];
  uint32_t asked;
  uint64_t wrong;
};

static const struct channel_kind kinds[] = {
    {channel_open_nothing, channel_store, channel_spin},
    {channel_open_nothing, channel_store_and_wake, channel_futex_wait},
    {channel_open_events, channel_store_and_post, channel_event},
    {channel_open_pipes, channel_write, channel_read},
    {channel_open_unix_stream, channel_write, channel_read},
    {channel_open_unix_datagram, channel_write, channel_read},
    {channel_open_tcp, channel_write, channel_read},
    {channel_open_udp, channel_write, channel_read},
};
static const char *const channels[] = {"shared_memory", "futex", "eventfd", "pipe", "unix_stream",
                                       "unix_datagram", "tcp",   "udp",     NULL};
static const char *const placements[] = {"one_cpu", "two_cpus", NULL};
static const char *const maps[] = {"other", "same", NULL};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct call *call = r->state;
  const unsigned channel = toll_choice(r, "channel");
  uint64_t random = r->seed;
  call->channel.one_cpu = toll_choice(r, "placement") == ONE_CPU;
  for (unsigned i = 0; i < OBJECTS; i++) call->objects[i].type = (unsigned)toll_random_below(&random, TYPES);
  if (kinds[channel].open(&call->channel)) return TOLL_OK;
  return toll_skip(r, "the system gave no channel of kind %s: %s", channels[channel], strerror(errno));
}

TOLL_APART static bool is_a_string(const struct object *object) {
  return object->type == STRING;
}

/* The turn is above the object's number, and the answer's bit is below it. */
static void serve(struct toll_run *r) {
  struct call *call = r->state;
  struct channel *channel = &call->channel;
  const struct channel_kind *kind = &kinds[toll_choice(r, "channel")];
  for (uint64_t i = r->iterations; i; i--) {
    const uint32_t question = kind->await(channel, &channel->question, channel->server[0]);
    const bool yes = is_a_string(&call->objects[question / 2 % OBJECTS]);
    kind->send(channel, &channel->answer, channel->server[1], question | yes);
  }
}

static void ask(struct toll_run *r) {
  struct call *call = r->state;
  struct channel *channel = &call->channel;
  const struct channel_kind *kind = &kinds[toll_choice(r, "channel")];
  for (uint64_t i = r->iterations; i; i--) {
    const uint32_t question = call->asked += 2;
    kind->send(channel, &channel->question, channel->client[1], question);
    const uint32_t answer = kind->await(channel, &channel->answer, channel->client[0]);
    call->wrong += answer != (question | (call->objects[question / 2 % OBJECTS].type == STRING));
  }
}

static void ask_here(struct toll_run *r) {
  struct call *call = r->state;
  uint32_t question = 0;
  for (uint64_t i = r->iterations; i; i--) {
    question += 2;
    const bool yes = is_a_string(&call->objects[question / 2 % OBJECTS]);
    call->wrong += yes != (call->objects[question / 2 % OBJECTS].type == STRING);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct call *call = r->state;
  if (call->channel.lost) return toll_fail(r, "%llu words were lost", (unsigned long long)call->channel.lost);
  if (call->wrong) return toll_wrong(r, "%llu answers were wrong", (unsigned long long)call->wrong);
  return TOLL_OK;
}

static unsigned in_other_map(const struct toll_run *r) {
  return toll_choice(r, "map") == OTHER_MAP;
}
static unsigned in_same_map(const struct toll_run *r) {
  return toll_choice(r, "map") == SAME_MAP;
}
static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return toll_choice(r, "placement") == TWO_CPUS;
}

static const struct toll_role roles[] = {{.name = "owner in another map",
                                          .body = serve,
                                          .worker = TOLL_PROCESS,
                                          .pace = TOLL_LOCKSTEP,
                                          .count = in_other_map,
                                          .cpu = place},
                                         {.name = "owner in the same map",
                                          .body = serve,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_LOCKSTEP,
                                          .count = in_same_map,
                                          .cpu = place},
                                         {0}};
static const struct toll_parameter parameters[] = {
    {.name = "channel", .kind = TOLL_CHOICE, .summary = "how question and answer travel", .choices = channels},
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements},
    {.name = "map",
     .kind = TOLL_CHOICE,
     .summary = "address space of the object: another process's, or the asker's own (a thread)",
     .choices = maps,
     .typical = "other"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "round_trip",
     .unit = "ns",
     .summary = "a question to the object's owner and its answer",
     .means = "call-of-object",
     .toll = "ask an object by {channel}, {placement}"},
    {.name = "same_thread", .unit = "ns", .summary = "the same question by a function call", .source = TOLL_CONTROL},
    {0}};

const struct toll_probe toll_probe = {
    .question =
        "What does it cost to ask an object in another address space, or another thread, whether it is a string?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct call),
    .prepare = prepare,
    .body = ask,
    .control = ask_here,
    .check = check,
    .roles = roles,
    .switches = true,
    .revision = 1,
};
