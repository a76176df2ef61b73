/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways by which a question of one word reaches another thread or process, and its answer comes back.
 *
 * A channel is opened before the companion starts, so that both sides have it. Words carry a turn besides their load,
 * so that each differs from the last and a stale one is told from a fresh one. All that is shared lies in the probe's
 * state; the two words lie a line apart, or each store of one side would take the other's word from its cache.
 */
#ifndef TOLL_KERNEL_CHANNEL_H
#define TOLL_KERNEL_CHANNEL_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "toll.h"
#include "wait.h"

enum { CHANNEL_LINE = 128 };

struct channel_slot {
  _Atomic uint32_t word;
  uint32_t last; /* the word that the reading side has taken */
  char apart[CHANNEL_LINE - 8];
};
struct channel {
  struct channel_slot question, answer;
  int client[2], server[2]; /* what each side reads from and writes to */
  bool one_cpu;
  uint64_t lost; /* words that did not arrive whole */
};

/* How a word is sent into a slot and awaited from it; `file` is the side's end for that direction. */
struct channel_kind {
  bool (*open)(struct channel *channel);
  void (*send)(struct channel *channel, struct channel_slot *slot, int file, uint32_t word);
  uint32_t (*await)(struct channel *channel, struct channel_slot *slot, int file);
};

/* ---- memory that both see ---- */

static inline bool channel_open_nothing(struct channel *channel) {
  (void)channel;
  return true;
}

static inline void channel_store(struct channel *channel, struct channel_slot *slot, int file, uint32_t word) {
  (void)channel, (void)file;
  atomic_store_explicit(&slot->word, word, memory_order_release);
}

/* On one CPU the other side cannot run while this one spins: it has to be let in after every look. */
static inline uint32_t channel_spin(struct channel *channel, struct channel_slot *slot, int file) {
  (void)file;
  uint32_t word;
  while ((word = atomic_load_explicit(&slot->word, memory_order_acquire)) == slot->last) {
    if (channel->one_cpu)
      sched_yield();
    else
      toll_relax();
  }
  return slot->last = word;
}

static inline void channel_store_and_wake(struct channel *channel, struct channel_slot *slot, int file, uint32_t word) {
  channel_store(channel, slot, file, word);
  toll_futex_wake(&slot->word, 1);
}

static inline uint32_t channel_futex_wait(struct channel *channel, struct channel_slot *slot, int file) {
  (void)channel, (void)file;
  uint32_t word;
  while ((word = atomic_load_explicit(&slot->word, memory_order_acquire)) == slot->last)
    toll_futex_wait(&slot->word, slot->last);
  return slot->last = word;
}

/* The word lies in memory, and an event counter says that it does. */
static inline bool channel_open_events(struct channel *channel) {
  int question = eventfd(0, EFD_CLOEXEC), answer = eventfd(0, EFD_CLOEXEC);
  channel->client[0] = channel->server[1] = answer;
  channel->client[1] = channel->server[0] = question;
  return question >= 0 && answer >= 0;
}

static inline void channel_store_and_post(struct channel *channel, struct channel_slot *slot, int file, uint32_t word) {
  const uint64_t one = 1;
  channel_store(channel, slot, file, word);
  if (write(file, &one, sizeof one) != (ssize_t)sizeof one) channel->lost++;
}

static inline uint32_t channel_event(struct channel *channel, struct channel_slot *slot, int file) {
  uint64_t events = 0;
  if (read(file, &events, sizeof events) != (ssize_t)sizeof events) channel->lost++;
  return atomic_load_explicit(&slot->word, memory_order_acquire);
}

/* ---- files that carry the word ---- */

static inline void channel_write(struct channel *channel, struct channel_slot *slot, int file, uint32_t word) {
  (void)slot;
  if (write(file, &word, sizeof word) != (ssize_t)sizeof word) channel->lost++;
}

static inline uint32_t channel_read(struct channel *channel, struct channel_slot *slot, int file) {
  (void)slot;
  uint32_t word = 0;
  if (read(file, &word, sizeof word) != (ssize_t)sizeof word) channel->lost++;
  return word;
}

static inline bool channel_open_pipes(struct channel *channel) {
  int question[2], answer[2];
  if (pipe(question) < 0 || pipe(answer) < 0) return false;
  channel->client[0] = answer[0], channel->client[1] = question[1];
  channel->server[0] = question[0], channel->server[1] = answer[1];
  return true;
}

static inline bool channel_take_sockets(struct channel *channel, int client, int server) {
  channel->client[0] = channel->client[1] = client;
  channel->server[0] = channel->server[1] = server;
  return client >= 0 && server >= 0;
}

static inline bool channel_open_unix_stream(struct channel *channel) {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && channel_take_sockets(channel, ends[0], ends[1]);
}

static inline bool channel_open_unix_datagram(struct channel *channel) {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && channel_take_sockets(channel, ends[0], ends[1]);
}

/* A socket on a loopback port of the system's choice, whose address is put into `place`. */
static inline int channel_bind(int type, struct sockaddr_in *place) {
  socklen_t length = sizeof *place;
  int file = socket(AF_INET, type, 0);
  memset(place, 0, sizeof *place);
  place->sin_family = AF_INET;
  place->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (file < 0 || bind(file, (struct sockaddr *)place, sizeof *place) < 0) return -1;
  return getsockname(file, (struct sockaddr *)place, &length) < 0 ? -1 : file;
}

/* Without TCP_NODELAY a second small segment would wait for the first one's acknowledgement (Nagle). */
static inline bool channel_open_tcp(struct channel *channel) {
  const int yes = 1;
  struct sockaddr_in place;
  int listener = channel_bind(SOCK_STREAM, &place), client = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || listen(listener, 1) < 0) return false;
  if (connect(client, (struct sockaddr *)&place, sizeof place) < 0) return false;
  int server = accept(listener, NULL, NULL);
  close(listener);
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return channel_take_sockets(channel, client, server);
}

static inline bool channel_open_udp(struct channel *channel) {
  struct sockaddr_in places[2];
  int client = channel_bind(SOCK_DGRAM, &places[0]), server = channel_bind(SOCK_DGRAM, &places[1]);
  if (client < 0 || server < 0) return false;
  if (connect(client, (struct sockaddr *)&places[1], sizeof places[1]) < 0) return false;
  if (connect(server, (struct sockaddr *)&places[0], sizeof places[0]) < 0) return false;
  return channel_take_sockets(channel, client, server);
}

#endif
