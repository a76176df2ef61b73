/* SPDX-License-Identifier: Apache-2.0
 *
 * A channel of two pipes that are written and read through rings of requests (io_uring): each side has a ring of its own,
 * and enters the kernel once for each word, with one request and waiting for its completion. One word at a time leaves a
 * ring nothing to batch: this is what its way into the kernel costs beside that of read and write.
 */
#ifndef TOLL_KERNEL_CHANNEL_RING_H
#define TOLL_KERNEL_CHANNEL_RING_H

#include <errno.h>
#include <linux/io_uring.h>
#include <sys/mman.h>

#include "channel.h"
#include "channel_file.h"

enum { CHANNEL_RING_ENTRIES = 2 };

struct channel_ring {
  int file;
  struct io_uring_params params;
  char *submissions, *completions;
  struct io_uring_sqe *requests;
};

/* A ring belongs to the process that opened it. */
static struct channel_ring channel_rings[CHANNEL_SIDES];

static inline void *channel_ring_map(int file, size_t bytes, off_t what) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, what);
}

static inline bool channel_ring_open(struct channel_ring *ring) {
  struct io_uring_params *params = &ring->params;
  ring->file = (int)syscall(SYS_io_uring_setup, CHANNEL_RING_ENTRIES, params);
  if (ring->file < 0) return false;
  const size_t submissions = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
  const size_t completions = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
  ring->submissions = channel_ring_map(ring->file, submissions, IORING_OFF_SQ_RING);
  ring->completions = channel_ring_map(ring->file, completions, IORING_OFF_CQ_RING);
  ring->requests = channel_ring_map(ring->file, params->sq_entries * sizeof *ring->requests, IORING_OFF_SQES);
  return ring->submissions != MAP_FAILED && ring->completions != MAP_FAILED && ring->requests != MAP_FAILED;
}

static inline bool channel_open_rings(struct channel *channel) {
  return channel_ring_open(&channel_rings[ASKER]) && channel_open_pipes(channel);
}

static inline void channel_begin_ring(struct channel *channel, enum channel_side self) {
  if (channel_rings[self].file) return;
  if (!channel_ring_open(&channel_rings[self])) channel->refused = errno;
}

static inline _Atomic uint32_t *channel_ring_word(char *ring, uint32_t offset) {
  return (_Atomic uint32_t *)(void *)(ring + offset);
}

/* One request, its completion awaited and taken. Returns what the request came to. */
static inline int channel_ring_do(struct channel_ring *ring, uint8_t what, int file, uint32_t *word) {
  const struct io_uring_params *params = &ring->params;
  const uint32_t tail = *channel_ring_word(ring->submissions, params->sq_off.tail);
  const uint32_t place = tail & (params->sq_entries - 1);
  ring->requests[place] = (struct io_uring_sqe){
      .opcode = what, .fd = file, .off = UINT64_MAX, .addr = (uint64_t)(uintptr_t)word, .len = sizeof *word};
  *channel_ring_word(ring->submissions, params->sq_off.array + place * sizeof place) = place;
  atomic_store_explicit(channel_ring_word(ring->submissions, params->sq_off.tail), tail + 1, memory_order_release);
  if (syscall(SYS_io_uring_enter, ring->file, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) return -errno;
  _Atomic uint32_t *head = channel_ring_word(ring->completions, params->cq_off.head);
  const struct io_uring_cqe *done = (const void *)(ring->completions + params->cq_off.cqes);
  const int came_to = done[*head & (params->cq_entries - 1)].res;
  atomic_store_explicit(head, *head + 1, memory_order_release);
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
