/* SPDX-License-Identifier: Apache-2.0
 *
 * A channel of two pipes that are written and read through rings of requests (io_uring): each side has a ring of its
 * own, and enters the kernel once for each word, with one request and waiting for its completion. With one word at a
 * time a ring has nothing to batch: the number is the cost of its entry into the kernel, to compare with read and
 * write.
 */
#ifndef TOLL_KERNEL_CHANNEL_RING_H
#define TOLL_KERNEL_CHANNEL_RING_H

#include <errno.h>

#include "channel.h"
#include "channel_file.h"
#include "io_ring.h"

enum { CHANNEL_RING_ENTRIES = 2 };

/* A ring belongs to the process that opened it. */
static struct io_ring channel_rings[CHANNEL_SIDES];

static inline bool channel_ring_open(struct io_ring *ring) {
  return io_ring_open(ring, CHANNEL_RING_ENTRIES, &(struct io_uring_params){0});
}

static inline bool channel_open_rings(struct channel *channel) {
  return channel_ring_open(&channel_rings[ASKER]) && channel_open_pipes(channel);
}

static inline void channel_begin_ring(struct channel *channel, enum channel_side self) {
  if (channel_rings[self].file) return;
  if (!channel_ring_open(&channel_rings[self])) channel->refused = errno;
}

/* Submits one request, waits for its completion and takes it. Returns the request's result. */
static inline int channel_ring_do(struct io_ring *ring, uint8_t what, int file, uint32_t *word) {
  *io_ring_place(ring, 0) = (struct io_uring_sqe){
      .opcode = what, .fd = file, .off = UINT64_MAX, .addr = (uint64_t)(uintptr_t)word, .len = sizeof *word};
  io_ring_publish(ring, 1);
  if (io_ring_enter(ring, 1, 1) < 0) return -errno;
  const int came_to = io_ring_completion(ring, 0)->res;
  io_ring_release(ring, 1);
  return came_to;
}

static inline void channel_ring_write(struct channel *channel, enum channel_side self, uint32_t word) {
  if (channel_ring_do(&channel_rings[self], IORING_OP_WRITE, channel->end[self].out, &word) != (int)sizeof word)
    channel->lost++;
}

static inline uint32_t channel_ring_read(struct channel *channel, enum channel_side self) {
  uint32_t word = 0;
  if (channel_ring_do(&channel_rings[self], IORING_OP_READ, channel->end[self].in, &word) != (int)sizeof word)
    channel->lost++;
  return word;
}

#endif
