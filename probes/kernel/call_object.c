/* SPDX-License-Identifier: Apache-2.0
 *
 * "Is this object a string?", asked of an object that lives elsewhere: the round trip of the smallest useful call.
 *
 * It is test D of "Speed limits" (Willcocks 2013), asked there of an object in the same and in another address space. The
 * question is one word, the object's number; the answer is one bit that only the object's owner can give. What is timed
 * is therefore the way there and back, one call at a time: no batching, no second question before the first answer.
 * The control asks the same of an object of its own, by a function call.
 *
 * With both ends on one CPU every call is two switches, and neither may spin without letting the other in; with two CPUs
 * a waiting side that sleeps has to be woken on its own CPU, and one that spins takes the caller's line instead. Where
 * one thread is both ends neither waits: what is left is the channel itself.
 *
 * On one CPU both sides have used it equally long before the clock starts. The timed worker also runs between batches,
 * and the scheduler (EEVDF) then lets the other side, which it owes time, preempt it at each wake-up for as long as the
 * batch lasts. A Unix stream is one third dearer in that mode: its read frees the buffer, which wakes the other side
 * once more, so that a round trip has four switches and not two. Two programs that only call each other are not in it
 * (docs/decisions/0051).
 *
 * Each channel has bodies of its own, made of its two functions: a loop that called them by address would add to each
 * word what a spin on a line of the same core costs.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "channel_file.h"
#include "channel_memory.h"
#include "channel_queue.h"
#include "channel_ring.h"
#include "channel_signal.h"
#include "other_end.h"
#include "toll.h"
#include "wait.h"

enum { OBJECTS = 64 };
enum type { NUMBER, LIST, STRING, TYPES };
enum address_space { OTHER_SPACE, SAME_SPACE, SAME_THREAD };

struct object {
  unsigned type;
  union {
    long number;
    char *text;
    struct object *items;
  } value;
};
/* CPU time that each side has used of their common CPU. A batch's number is `asked` by one side and `paid` by the
 * other. */
struct used {
  uint64_t until_ns[CHANNEL_SIDES]; /* CPU time of each when both last were even */
  uint64_t ahead_ns;                /* time by which the asker has run ahead since */
  _Atomic uint32_t asked, paid;
};
struct call {
  struct channel channel;
  struct used used;
  struct object objects[OBJECTS];
  unsigned other_end; /* index of the CPU */
  uint32_t asked;
  uint64_t wrong;
};

TOLL_NOINLINE static bool is_a_string(const struct object *object) {
  return object->type == STRING;
}

/* ---- the three ways through a channel; the turn is above the object's number, and the answer's bit is below it ---- */

typedef void send_word(struct channel *channel, enum channel_side self, uint32_t word);
typedef uint32_t await_word(struct channel *channel, enum channel_side self);
#define INTO_EACH static inline __attribute__((always_inline))

INTO_EACH void answer_one(struct call *call, send_word *send, await_word *await) {
  const uint32_t question = await(&call->channel, OWNER);
  const bool yes = is_a_string(&call->objects[question / 2 % OBJECTS]);
  send(&call->channel, OWNER, question | yes);
}

INTO_EACH void take_answer(struct call *call, await_word *await, uint32_t question) {
  const uint32_t answer = await(&call->channel, ASKER);
  call->wrong += answer != (question | (call->objects[question / 2 % OBJECTS].type == STRING));
}

INTO_EACH void serve_by(struct toll_run *r, send_word *send, await_word *await) {
  for (uint64_t i = r->iterations; i; i--) answer_one(r->state, send, await);
}

INTO_EACH void ask_by(struct toll_run *r, send_word *send, await_word *await) {
  struct call *call = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    const uint32_t question = call->asked += 2;
    send(&call->channel, ASKER, question);
    take_answer(call, await, question);
  }
}

INTO_EACH void ask_oneself_by(struct toll_run *r, send_word *send, await_word *await) {
  struct call *call = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    const uint32_t question = call->asked += 2;
    send(&call->channel, ASKER, question);
    answer_one(call, send, await);
    take_answer(call, await, question);
  }
}

/* ---- the channels ---- */

#define BODIES(name, send, await)                  \
  static void ask_##name(struct toll_run *r) {     \
    ask_by(r, send, await);                        \
  }                                                \
  static void serve_##name(struct toll_run *r) {   \
    serve_by(r, send, await);                      \
  }                                                \
  static void oneself_##name(struct toll_run *r) { \
    ask_oneself_by(r, send, await);                \
  }
BODIES(shared_memory, channel_store, channel_spin)
BODIES(futex, channel_store_and_wake, channel_sleep)
BODIES(futex_private, channel_store_and_wake_private, channel_sleep_private)
BODIES(futex_spin, channel_store_and_wake_sleeper, channel_spin_and_sleep)
BODIES(eventfd, channel_store_and_count, channel_event)
BODIES(pipe, channel_write, channel_read)
BODIES(fifo, channel_write, channel_read)
BODIES(splice, channel_splice, channel_read)
BODIES(vmsplice, channel_lend, channel_read)
BODIES(unix_stream, channel_write, channel_read)
BODIES(unix_datagram, channel_write, channel_read)
BODIES(descriptor, channel_pass, channel_receive)
BODIES(tcp, channel_write, channel_read)
BODIES(udp, channel_write, channel_read)
BODIES(file_lock, channel_store_and_unlock, channel_await_lock)
BODIES(posix_queue, channel_enqueue, channel_dequeue)
BODIES(sysv_queue, channel_enqueue_sysv, channel_dequeue_sysv)
BODIES(posix_semaphore, channel_store_and_post, channel_semaphore)
BODIES(sysv_semaphore, channel_store_and_raise, channel_lower)
BODIES(signal, channel_send_signal, channel_await_signal)
BODIES(signalfd, channel_send_signal, channel_read_signal)
BODIES(process_vm, channel_keep_and_wake, channel_sleep_and_fetch)
BODIES(io_uring, channel_ring_write, channel_ring_read)

/* begin: what a side does before its words; knows_other: it needs to know the other side for that. */
static const struct kind {
  bool (*open)(struct channel *channel);
  void (*ask)(struct toll_run *r), (*serve)(struct toll_run *r), (*ask_oneself)(struct toll_run *r);
  void (*begin)(struct channel *channel, enum channel_side self);
  bool knows_other;
} kinds[] = {
#define KIND(name, open) open, ask_##name, serve_##name, oneself_##name
    {KIND(shared_memory, channel_open_nothing), NULL, false},
    {KIND(futex, channel_open_nothing), NULL, false},
    {KIND(futex_private, channel_open_nothing), NULL, false},
    {KIND(futex_spin, channel_open_nothing), NULL, false},
    {KIND(eventfd, channel_open_events), NULL, false},
    {KIND(pipe, channel_open_pipes), NULL, false},
    {KIND(fifo, channel_open_fifos), NULL, false},
    {KIND(splice, channel_open_spliced), NULL, false},
    {KIND(vmsplice, channel_open_lent), NULL, false},
    {KIND(unix_stream, channel_open_unix_stream), NULL, false},
    {KIND(unix_datagram, channel_open_unix_datagram), NULL, false},
    {KIND(descriptor, channel_open_descriptors), NULL, false},
    {KIND(tcp, channel_open_tcp), NULL, false},
    {KIND(udp, channel_open_udp), NULL, false},
    {KIND(file_lock, channel_open_locks), NULL, false},
    {KIND(posix_queue, channel_open_posix_queues), NULL, false},
    {KIND(sysv_queue, channel_open_sysv_queue), NULL, false},
    {KIND(posix_semaphore, channel_open_semaphores), NULL, false},
    {KIND(sysv_semaphore, channel_open_sysv_semaphores), NULL, false},
    {KIND(signal, channel_open_signals), channel_begin_signals, true},
    {KIND(signalfd, channel_open_signal_files), channel_begin_signals, true},
    {KIND(process_vm, channel_open_fetch), channel_begin_fetch, true},
    {KIND(io_uring, channel_open_rings), channel_begin_ring, false},
};
static const char *const channels[] = {"shared_memory",
                                       "futex",
                                       "futex_private",
                                       "futex_spin",
                                       "eventfd",
                                       "pipe",
                                       "fifo",
                                       "splice",
                                       "vmsplice",
                                       "unix_stream",
                                       "unix_datagram",
                                       "descriptor",
                                       "tcp",
                                       "udp",
                                       "file_lock",
                                       "posix_queue",
                                       "sysv_queue",
                                       "posix_semaphore",
                                       "sysv_semaphore",
                                       "signal",
                                       "signalfd",
                                       "process_vm",
                                       "io_uring",
                                       NULL};

/* ---- the visit ---- */

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct call *call = r->state;
  const unsigned channel = toll_choice(r, "channel"), placement = toll_choice(r, "placement");
  uint64_t random = r->seed;
  if (toll_choice(r, "address_space") == SAME_THREAD && placement != ONE_CPU)
    return toll_skip(r, "one thread is on one CPU");
  call->channel.one_space = toll_choice(r, "address_space") != OTHER_SPACE;
  if (!strcmp(channels[channel], "futex_private") && !call->channel.one_space)
    return toll_skip(r, "a private futex is one of a single address space");
  if (find_other_end(r, &call->other_end) != TOLL_OK) return TOLL_SKIPPED;
  call->channel.one_cpu = placement == ONE_CPU;
  for (unsigned i = 0; i < OBJECTS; i++) call->objects[i].type = (unsigned)toll_random_below(&random, TYPES);
  if (kinds[channel].open(&call->channel)) return TOLL_OK;
  return toll_skip(r, "the system gave no channel of kind %s: %s", channels[channel], strerror(errno));
}

static void begin(struct toll_run *r, enum channel_side self) {
  const struct kind *kind = &kinds[toll_choice(r, "channel")];
  struct channel *channel = &((struct call *)r->state)->channel;
  if (kind->begin) kind->begin(channel, self);
  if (kind->knows_other) channel_await_name(channel, self);
}

static void begin_both(struct toll_run *r) {
  const struct kind *kind = &kinds[toll_choice(r, "channel")];
  struct channel *channel = &((struct call *)r->state)->channel;
  for (enum channel_side self = ASKER; kind->begin && self < CHANNEL_SIDES; self++) kind->begin(channel, self);
}

/* ---- both sides have used their CPU equally long ---- */

static bool share_a_cpu(const struct toll_run *r) {
  return ((const struct call *)r->state)->channel.one_cpu && toll_choice(r, "address_space") != SAME_THREAD &&
         toll_clock_is_real();
}

static uint64_t used_ns(void) {
  return toll_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The asker sleeps meanwhile: sched_yield() would put it behind again. */
static void await_even(struct used *used) {
  const uint32_t paid = atomic_load(&used->paid);
  toll_timer_pause();
  used->ahead_ns = used_ns() - used->until_ns[ASKER];
  used->until_ns[ASKER] += used->ahead_ns;
  atomic_fetch_add(&used->asked, 1);
  toll_futex_wake(&used->asked, 1);
  while (atomic_load(&used->paid) == paid) toll_futex_wait(&used->paid, paid);
  toll_timer_resume();
}

/* The scheduler forgets what is more than a few of its slices. */
static void become_even(struct used *used) {
  enum { MOST_NS = 10000000 };
  const uint32_t paid = atomic_load(&used->paid);
  while (atomic_load(&used->asked) == paid) toll_futex_wait(&used->asked, paid);
  const uint64_t ahead_ns = used->ahead_ns < MOST_NS ? used->ahead_ns : MOST_NS;
  const uint64_t end_ns = used->until_ns[OWNER] + ahead_ns;
  while ((used->until_ns[OWNER] = used_ns()) < end_ns) continue;
  atomic_store(&used->paid, paid + 1);
  toll_futex_wake(&used->paid, 1);
}

static void serve(struct toll_run *r) {
  begin(r, OWNER);
  if (share_a_cpu(r)) become_even(&((struct call *)r->state)->used);
  kinds[toll_choice(r, "channel")].serve(r);
}

static void ask(struct toll_run *r) {
  const struct kind *kind = &kinds[toll_choice(r, "channel")];
  if (toll_choice(r, "address_space") == SAME_THREAD) {
    begin_both(r);
    kind->ask_oneself(r);
  } else {
    begin(r, ASKER);
    if (share_a_cpu(r)) await_even(&((struct call *)r->state)->used);
    kind->ask(r);
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
  if (call->channel.refused) return toll_skip(r, "the system refuses it: %s", strerror(call->channel.refused));
  if (call->channel.lost) return toll_fail(r, "%llu words were lost", (unsigned long long)call->channel.lost);
  if (call->wrong) return toll_wrong(r, "%llu answers were wrong", (unsigned long long)call->wrong);
  return TOLL_OK;
}

static unsigned in_other_space(const struct toll_run *r) {
  return toll_choice(r, "address_space") == OTHER_SPACE;
}
static unsigned in_same_space(const struct toll_run *r) {
  return toll_choice(r, "address_space") == SAME_SPACE;
}
static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct call *)r->state)->other_end;
}

static const struct toll_role roles[] = {{.name = "owner in another address space",
                                          .body = serve,
                                          .worker = TOLL_PROCESS,
                                          .pace = TOLL_LOCKSTEP,
                                          .count = in_other_space,
                                          .cpu = place},
                                         {.name = "owner in the same address space",
                                          .body = serve,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_LOCKSTEP,
                                          .count = in_same_space,
                                          .cpu = place},
                                         {0}};
static const char *const address_spaces[] = {"other", "same", "same_thread", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "channel", .kind = TOLL_CHOICE, .summary = "how question and answer travel", .choices = channels},
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements},
    {.name = "address_space",
     .kind = TOLL_CHOICE,
     .summary = "the object's owner: another process, another thread of the asker's, or the asking thread itself",
     .choices = address_spaces,
     .typical = "other"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "round_trip",
     .unit = "ns",
     .summary = "a question to the object's owner and its answer",
     .means = "call-of-object",
     .toll = "round trip by {channel}, {placement}"},
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
    .pauses = true,
    .revision = 4,
};
