/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels through what the kernel keeps by a name or number of its own: message queues and System V's semaphores.
 *
 * A queue of POSIX loses its name as soon as both sides have it. What System V made stays until a program removes it, even
 * when every process that knew it was killed: a keeper outlives them by a moment for that.
 */
#ifndef TOLL_KERNEL_CHANNEL_QUEUE_H
#define TOLL_KERNEL_CHANNEL_QUEUE_H

#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

#include "channel.h"
#include "channel_memory.h"
#include "keeper.h"

/* ---- POSIX ---- */

static inline int channel_open_posix_queue(void) {
  struct mq_attr most = {.mq_maxmsg = 1, .mq_msgsize = sizeof(uint32_t)};
  char name[64];
  snprintf(name, sizeof name, "/toll.%ld", (long)getpid());
  const mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &most);
  if (queue >= 0) mq_unlink(name);
  return (int)queue;
}

static inline bool channel_open_posix_queues(struct channel *channel) {
  const int question = channel_open_posix_queue(), answer = channel_open_posix_queue();
  channel->end[ASKER].in = channel->end[OWNER].out = answer;
  channel->end[ASKER].out = channel->end[OWNER].in = question;
  return question >= 0 && answer >= 0;
}

static inline void channel_enqueue(struct channel *channel, enum channel_side self, uint32_t word) {
  if (mq_send(channel->end[self].out, (const char *)&word, sizeof word, 0) < 0) channel->lost++;
}

static inline uint32_t channel_dequeue(struct channel *channel, enum channel_side self) {
  uint32_t word = 0;
  if (mq_receive(channel->end[self].in, (char *)&word, sizeof word, NULL) != (ssize_t)sizeof word) channel->lost++;
  return word;
}

/* ---- System V ---- */

static inline void channel_remove_queue(const void *number) {
  msgctl(*(const int *)number, IPC_RMID, NULL);
}

static inline bool channel_open_sysv_queue(struct channel *channel) {
  channel_connect(channel, -1, -1);
  if (!keep_until_end(channel_remove_queue, &channel->end[ASKER].in)) return false;
  const int queue = msgget(IPC_PRIVATE, 0600);
  channel_connect(channel, queue, queue);
  return queue >= 0;
}

struct channel_message {
  long sender; /* a message's type, which is not 0 */
  uint32_t word;
};

static inline void channel_enqueue_sysv(struct channel *channel, enum channel_side self, uint32_t word) {
  const struct channel_message message = {1 + (long)self, word};
  if (msgsnd(channel->end[self].out, &message, sizeof message.word, 0) < 0) channel->lost++;
}

static inline uint32_t channel_dequeue_sysv(struct channel *channel, enum channel_side self) {
  struct channel_message message = {0, 0};
  const long sender = 1 + (long)!self;
  if (msgrcv(channel->end[self].in, &message, sizeof message.word, sender, 0) != (ssize_t)sizeof message.word)
    channel->lost++;
  return message.word;
}

static inline void channel_remove_semaphores(const void *number) {
  semctl(*(const int *)number, 0, IPC_RMID);
}

static inline bool channel_open_sysv_semaphores(struct channel *channel) {
  channel_connect(channel, -1, -1);
  if (!keep_until_end(channel_remove_semaphores, &channel->end[ASKER].in)) return false;
  const int semaphores = semget(IPC_PRIVATE, CHANNEL_SIDES, 0600);
  channel_connect(channel, semaphores, semaphores);
  return semaphores >= 0;
}

static inline void channel_change(struct channel *channel, enum channel_side semaphore, short by) {
  struct sembuf change = {.sem_num = (unsigned short)semaphore, .sem_op = by};
  if (semop(channel->end[ASKER].in, &change, 1) < 0) channel->lost++;
}

static inline void channel_store_and_raise(struct channel *channel, enum channel_side self, uint32_t word) {
  channel_store(channel, self, word);
  channel_change(channel, self, 1);
}

static inline uint32_t channel_lower(struct channel *channel, enum channel_side self) {
  channel_change(channel, !self, -1);
  return channel_word(&channel->slot[!self]);
}

#endif
