/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels whose word goes through the kernel by a file: pipes, sockets, a lent page, a descriptor, a lock.
 */
#ifndef TOLL_KERNEL_CHANNEL_FILE_H
#define TOLL_KERNEL_CHANNEL_FILE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "channel.h"
#include "channel_memory.h"

static inline void channel_write(struct channel *channel, enum channel_side self, uint32_t word) {
  if (write(channel->end[self].out, &word, sizeof word) != (ssize_t)sizeof word) channel->lost++;
}

static inline uint32_t channel_read(struct channel *channel, enum channel_side self) {
  uint32_t word = 0;
  if (read(channel->end[self].in, &word, sizeof word) != (ssize_t)sizeof word) channel->lost++;
  return word;
}

/* ---- pipes ---- */

static inline bool channel_take_pipes(struct channel *channel, const int question[2], const int answer[2]) {
  channel->end[ASKER].in = answer[0], channel->end[ASKER].out = question[1];
  channel->end[OWNER].in = question[0], channel->end[OWNER].out = answer[1];
  return true;
}

static inline bool channel_open_pipes(struct channel *channel) {
  int question[2], answer[2];
  return pipe(question) == 0 && pipe(answer) == 0 && channel_take_pipes(channel, question, answer);
}

/* A pipe with a name, which is gone as soon as both ends are open. A reader that does not wait for a writer comes first,
 * and waits like any other from then on. */
static inline bool channel_open_named(int ends[2]) {
  char name[64];
  snprintf(name, sizeof name, "/tmp/toll.%ld.fifo", (long)getpid());
  if (mkfifo(name, 0600) < 0) return false;
  ends[0] = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ends[1] = ends[0] < 0 ? -1 : open(name, O_WRONLY | O_CLOEXEC);
  unlink(name);
  return ends[1] >= 0 && fcntl(ends[0], F_SETFL, 0) == 0;
}

static inline bool channel_open_fifos(struct channel *channel) {
  int question[2], answer[2];
  return channel_open_named(question) && channel_open_named(answer) && channel_take_pipes(channel, question, answer);
}

/* Like a proxy: moves data from one pipe into the next without a copy. */
static inline void channel_splice(struct channel *channel, enum channel_side self, uint32_t word) {
  const struct channel_end *end = &channel->end[self];
  if (write(end->spare[1], &word, sizeof word) != (ssize_t)sizeof word) channel->lost++;
  if (splice(end->spare[0], NULL, end->out, NULL, sizeof word, 0) != (ssize_t)sizeof word) channel->lost++;
}

/* The page with the word is lent to the pipe. It is written again only after the answer has arrived, hence after it
 * was read. */
static inline void channel_lend(struct channel *channel, enum channel_side self, uint32_t word) {
  struct iovec piece = {&channel->slot[self].word, sizeof word};
  channel_store(channel, self, word);
  if (vmsplice(channel->end[self].out, &piece, 1, 0) != (ssize_t)sizeof word) channel->lost++;
}

/* For prepare: tries calls that a sandbox may forbid before the other side starts, which would wait for ever after a
 * refusal. */
static inline bool channel_try(struct channel *channel,
                               void (*send)(struct channel *channel, enum channel_side self, uint32_t word)) {
  send(channel, ASKER, 1);
  const bool sent = !channel->lost;
  channel->lost = 0;
  return sent && channel_read(channel, OWNER) == 1 && !channel->lost;
}

static inline bool channel_open_spliced(struct channel *channel) {
  return channel_open_pipes(channel) && pipe(channel->end[ASKER].spare) == 0 && pipe(channel->end[OWNER].spare) == 0 &&
         channel_try(channel, channel_splice);
}

static inline bool channel_open_lent(struct channel *channel) {
  return channel_open_pipes(channel) && channel_try(channel, channel_lend);
}

/* ---- sockets ---- */

static inline bool channel_open_unix(struct channel *channel, int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type, 0, ends) < 0) return false;
  channel_connect(channel, ends[0], ends[1]);
  return true;
}

static inline bool channel_open_unix_stream(struct channel *channel) {
  return channel_open_unix(channel, SOCK_STREAM);
}

static inline bool channel_open_unix_datagram(struct channel *channel) {
  return channel_open_unix(channel, SOCK_DGRAM);
}

/* A socket on a loopback port of the system's choice, whose address is put into `place`. */
static inline int channel_bind(int type, struct sockaddr_in *place) {
  socklen_t length = sizeof *place;
  const int file = socket(AF_INET, type, 0);
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
  const int listener = channel_bind(SOCK_STREAM, &place), client = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || listen(listener, 1) < 0) return false;
  if (connect(client, (struct sockaddr *)&place, sizeof place) < 0) return false;
  const int server = accept(listener, NULL, NULL);
  close(listener);
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  channel_connect(channel, client, server);
  return server >= 0;
}

static inline bool channel_open_udp(struct channel *channel) {
  struct sockaddr_in places[CHANNEL_SIDES];
  const int asker = channel_bind(SOCK_DGRAM, &places[ASKER]), owner = channel_bind(SOCK_DGRAM, &places[OWNER]);
  if (asker < 0 || owner < 0) return false;
  if (connect(asker, (struct sockaddr *)&places[OWNER], sizeof places[OWNER]) < 0) return false;
  if (connect(owner, (struct sockaddr *)&places[ASKER], sizeof places[ASKER]) < 0) return false;
  channel_connect(channel, asker, owner);
  return true;
}

/* ---- a descriptor that travels with the word, and is a new one where it arrives ---- */

union channel_rights {
  struct cmsghdr header; /* aligned as one */
  char room[CMSG_SPACE(sizeof(int))];
};

static inline bool channel_open_descriptors(struct channel *channel) {
  channel->end[ASKER].spare[0] = channel->end[OWNER].spare[0] = eventfd(0, EFD_CLOEXEC);
  return channel->end[ASKER].spare[0] >= 0 && channel_open_unix_datagram(channel);
}

static inline void channel_pass(struct channel *channel, enum channel_side self, uint32_t word) {
  union channel_rights rights;
  struct iovec piece = {&word, sizeof word};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  memset(&rights, 0, sizeof rights);
  message.msg_control = &rights, message.msg_controllen = sizeof rights.room;
  rights.header.cmsg_len = CMSG_LEN(sizeof(int));
  rights.header.cmsg_level = SOL_SOCKET, rights.header.cmsg_type = SCM_RIGHTS;
  memcpy(CMSG_DATA(&rights.header), &channel->end[self].spare[0], sizeof(int));
  if (sendmsg(channel->end[self].out, &message, 0) != (ssize_t)sizeof word) channel->lost++;
}

static inline uint32_t channel_receive(struct channel *channel, enum channel_side self) {
  union channel_rights rights;
  uint32_t word = 0;
  int passed = -1;
  struct iovec piece = {&word, sizeof word};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  message.msg_control = &rights, message.msg_controllen = sizeof rights.room;
  if (recvmsg(channel->end[self].in, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof word) channel->lost++;
  if (message.msg_controllen) memcpy(&passed, CMSG_DATA(&rights.header), sizeof passed);
  if (passed < 0 || close(passed) < 0) channel->lost++;
  return word;
}

/* ---- a lock that is handed over ---- */

/* Two bytes of a file for each direction. The sender holds one of them, and takes the other before it lets the first go:
 * the reader waits for the first, gives it back, and waits for the second the next time. Locks belong to the opening of
 * the file and not to the process (F_OFD_SETLKW), so that two threads can hand one over as well. */
static inline bool channel_lock(int file, short type, unsigned byte) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
  return fcntl(file, F_OFD_SETLKW, &lock) == 0;
}

static inline unsigned channel_byte(enum channel_side sender, uint32_t turn) {
  return 2u * sender + turn % 2;
}

static inline bool channel_open_locks(struct channel *channel) {
  char name[64];
  const int file = memfd_create("toll", MFD_CLOEXEC);
  if (file < 0) return false;
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  channel_connect(channel, open(name, O_RDWR | O_CLOEXEC), open(name, O_RDWR | O_CLOEXEC));
  return channel_lock(channel->end[ASKER].out, F_WRLCK, channel_byte(ASKER, 0)) &&
         channel_lock(channel->end[OWNER].out, F_WRLCK, channel_byte(OWNER, 0));
}

static inline void channel_store_and_unlock(struct channel *channel, enum channel_side self, uint32_t word) {
  struct channel_slot *slot = &channel->slot[self];
  const int file = channel->end[self].out;
  channel_store(channel, self, word);
  if (!channel_lock(file, F_WRLCK, channel_byte(self, slot->sent + 1))) channel->lost++;
  if (!channel_lock(file, F_UNLCK, channel_byte(self, slot->sent++))) channel->lost++;
}

static inline uint32_t channel_await_lock(struct channel *channel, enum channel_side self) {
  struct channel_slot *slot = &channel->slot[!self];
  const int file = channel->end[self].in;
  const unsigned byte = channel_byte(!self, slot->taken++);
  if (!channel_lock(file, F_WRLCK, byte) || !channel_lock(file, F_UNLCK, byte)) channel->lost++;
  return channel_word(slot);
}

#endif
