/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes a second by UDP from one process to another, and how many datagrams were lost on the way (lmbench: bw_udp).
 *
 * Nothing holds a sender of UDP back: what finds the receiver's buffer full is dropped without a word. So datagrams go in
 * bursts. Behind each the receiver is asked how many came, and the rest is sent again: the rate is of what was delivered,
 * its losses paid for. Small bursts fit into a buffer of the usual size; those of large datagrams don't, unless the receiver
 * empties it at the same time on a CPU of its own.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "channel_file.h"
#include "other_end.h"
#include "toll.h"

enum { BURST = 16, PATIENCE_MS = 1, MOST_QUESTIONS = 5000, LARGEST = 65507 /* an IPv4 packet's */ };

/* A datagram of this size asks how many of a burst came, or answers; all others are longer and begin with their burst. */
struct tally {
  uint32_t burst, came;
};

struct datagrams {
  struct channel channel;
  unsigned other_end; /* index of the CPU */
  size_t bytes;
  char *message, *received;
  struct tally taken; /* tally of the arriving burst */
  uint32_t burst, last_burst;
  uint64_t sent, arrived, lost, torn;
  bool cut;
};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct datagrams *all = r->state;
  uint64_t random = r->seed;
  if (find_other_end(r, &all->other_end) != TOLL_OK) return TOLL_SKIPPED;
  all->bytes = (size_t)toll_number(r, "message");
  if (all->bytes <= sizeof(struct tally) || all->bytes > LARGEST)
    return toll_skip(r, "a datagram here has %zu to %d bytes", sizeof(struct tally) + 1, LARGEST);
  all->message = toll_buffer(r, (struct toll_buffer_request){.bytes = all->bytes, .shared = true});
  all->received = toll_buffer(r, (struct toll_buffer_request){.bytes = all->bytes, .shared = true, .colour = 3});
  if (!all->message || !all->received) return toll_refused(r);
  for (size_t i = 0; i < all->bytes; i++) all->message[i] = (char)toll_random(&random);
  if (channel_open_udp(&all->channel)) return TOLL_OK;
  return toll_skip(r, "the system gave no sockets of UDP: %s", strerror(errno));
}

/* ---- the sender ---------------------------------------------------------------------------------------------------- */

/* A late answer to a repeated question is ignored. */
static bool receive_answer(struct datagrams *all, struct tally *answer) {
  struct pollfd waits = {.fd = all->channel.end[ASKER].in, .events = POLLIN};
  while (poll(&waits, 1, PATIENCE_MS) > 0)
    if (recv(waits.fd, answer, sizeof *answer, 0) == (ssize_t)sizeof *answer && answer->burst == all->burst)
      return true;
  return false;
}

/* A question may be lost like any other datagram. */
static bool ask(struct datagrams *all, struct tally *answer) {
  const struct tally question = {.burst = all->burst};
  for (int asked = 0; asked < MOST_QUESTIONS; asked++) {
    send(all->channel.end[ASKER].out, &question, sizeof question, 0);
    if (receive_answer(all, answer)) return true;
  }
  return false;
}

static uint32_t deliver_some(struct datagrams *all, uint32_t count) {
  struct tally answer = {0};
  all->burst++;
  memcpy(all->message, &all->burst, sizeof all->burst);
  for (uint32_t i = 0; i < count; i++) send(all->channel.end[ASKER].out, all->message, all->bytes, 0);
  if (!ask(all, &answer) || !answer.came || answer.came > count) return 0;
  all->lost += count - answer.came;
  return answer.came;
}

static void send_all(struct toll_run *r) {
  struct datagrams *all = r->state;
  for (uint64_t left = r->iterations; left && !all->cut;) {
    const uint32_t came = deliver_some(all, left < BURST ? (uint32_t)left : BURST);
    all->cut = !came;
    left -= came;
  }
  all->sent += r->iterations;
}

/* ---- the receiver -------------------------------------------------------------------------------------------------- */

static void take(struct datagrams *all) {
  uint32_t burst;
  const size_t last = all->bytes - 1;
  memcpy(&burst, all->received, sizeof burst);
  if (burst != all->taken.burst) all->taken = (struct tally){.burst = burst};
  all->taken.came++;
  all->torn += all->received[last] != all->message[last];
}

/* The number of datagrams that are new since the last question. */
static uint32_t tell(struct datagrams *all) {
  struct tally question, answer = all->taken;
  memcpy(&question, all->received, sizeof question);
  if (question.burst != answer.burst) answer = (struct tally){.burst = question.burst};
  const bool again = question.burst == all->last_burst;
  all->last_burst = question.burst;
  send(all->channel.end[OWNER].out, &answer, sizeof answer, 0);
  return again ? 0 : answer.came;
}

static void take_all(struct toll_run *r) {
  struct datagrams *all = r->state;
  for (uint64_t left = r->iterations; left;) {
    const ssize_t took = recv(all->channel.end[OWNER].in, all->received, all->bytes, 0);
    if (took < 0) return;
    if (took == (ssize_t)all->bytes) {
      take(all);
    } else {
      const uint32_t came = tell(all);
      left -= came;
      all->arrived += came;
    }
  }
}

/* ---- what came of it ------------------------------------------------------------------------------------------------ */

/* Compares the whole last datagram, except its head, which the last question has overwritten; then clears it. */
static enum toll_status check(struct toll_run *r) {
  struct datagrams *all = r->state;
  const size_t head = sizeof(struct tally);
  if (all->cut) return toll_fail(r, "of a burst of datagrams none arrived, or none was reported");
  if (all->torn || all->arrived != all->sent)
    return toll_wrong(r, "%llu of %llu datagrams arrived whole", (unsigned long long)(all->arrived - all->torn),
                      (unsigned long long)all->sent);
  if (memcmp(all->message + head, all->received + head, all->bytes - head) != 0)
    return toll_wrong(r, "a datagram was changed");
  memset(all->received, 0, all->bytes);
  return TOLL_OK;
}

static void finish(struct toll_run *r) {
  const struct datagrams *all = r->state;
  const double tried = (double)(all->arrived + all->lost);
  if (tried > 0) toll_report(r, "lost", (double)all->lost / tried);
}

static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct datagrams *)r->state)->other_end;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct datagrams *)r->state)->bytes;
}

static const struct toll_role roles[] = {
    {.name = "receiver", .body = take_all, .worker = TOLL_PROCESS, .pace = TOLL_LOCKSTEP, .cpu = place}, {0}};
static const uint64_t messages[] = {1024, 8192, 49152, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "message", .kind = TOLL_SIZE, .summary = "size of one datagram", .values = messages, .typical = "8192"},
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "rate", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes delivered a second, losses sent again"},
    {.name = "lost", .unit = "ratio", .summary = "share of the datagrams that were dropped", .source = TOLL_GAUGE},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast do bytes go by UDP, and how many datagrams are lost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct datagrams),
    .prepare = prepare,
    .body = send_all,
    .check = check,
    .finish = finish,
    .work = work,
    .roles = roles,
    .switches = true,
    .revision = 1,
};
