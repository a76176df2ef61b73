/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of requests to the kernel and one of their completions, both in memory that it shares with the program
 * (io_uring(7), Linux 5.1), without a library between them.
 *
 * A request is written into its place, and the place becomes the kernel's once the tail is beyond it. A completion is the
 * program's until its head is beyond it. The index array between tail and places stays as it is made: place n is the
 * nth request, as liburing has it.
 */
#ifndef TOLL_KERNEL_IO_RING_H
#define TOLL_KERNEL_IO_RING_H

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"

struct io_ring {
  int file;
  uint32_t features, request_mask, completion_mask;
  _Atomic uint32_t *request_tail, *flags;
  _Atomic uint32_t *completion_head, *completion_tail;
  struct io_uring_sqe *requests;
  const struct io_uring_cqe *completions;
};

static inline char *io_ring_map(int file, size_t bytes, off_t what) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, what);
}

static inline _Atomic uint32_t *io_ring_word(char *start, uint32_t offset) {
  return (_Atomic uint32_t *)(void *)(start + offset);
}

/* params: flags, and what belongs to them. False, with errno, if the system refuses. A ring belongs to the process that
 * opened it. */
static inline bool io_ring_open(struct io_ring *ring, unsigned entries, struct io_uring_params *params) {
  ring->file = (int)syscall(SYS_io_uring_setup, entries, params);
  if (ring->file < 0) return false;
  const size_t array_bytes = params->sq_entries * sizeof(uint32_t);
  const size_t completion_bytes = params->cq_entries * sizeof *ring->completions;
  char *requests = io_ring_map(ring->file, params->sq_off.array + array_bytes, IORING_OFF_SQ_RING);
  char *completions = io_ring_map(ring->file, params->cq_off.cqes + completion_bytes, IORING_OFF_CQ_RING);
  char *places = io_ring_map(ring->file, params->sq_entries * sizeof *ring->requests, IORING_OFF_SQES);
  if (requests == MAP_FAILED || completions == MAP_FAILED || places == MAP_FAILED) return false;
  for (uint32_t i = 0; i < params->sq_entries; i++)
    *io_ring_word(requests, params->sq_off.array + i * (uint32_t)sizeof i) = i;
  ring->features = params->features;
  ring->request_mask = params->sq_entries - 1;
  ring->completion_mask = params->cq_entries - 1;
  ring->request_tail = io_ring_word(requests, params->sq_off.tail);
  ring->flags = io_ring_word(requests, params->sq_off.flags);
  ring->completion_head = io_ring_word(completions, params->cq_off.head);
  ring->completion_tail = io_ring_word(completions, params->cq_off.tail);
  ring->requests = (void *)places;
  ring->completions = (const void *)(completions + params->cq_off.cqes);
  return true;
}

static inline enum toll_status io_ring_refuse_memory(struct toll_run *r) {
  struct rlimit limit = {0};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return toll_skip(r, "io_uring may lock too little memory: RLIMIT_MEMLOCK (ulimit -l) is %llu KiB",
                   (unsigned long long)limit.rlim_cur >> 10);
}

static inline int io_ring_disabled_by_sysctl(void) {
  char digit = '0';
  const int file = open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  if (read(file, &digit, 1) != 1) digit = '0';
  close(file);
  return digit - '0';
}

/* For prepare: why there is no ring, by what the system answered. */
static inline enum toll_status io_ring_refuse(struct toll_run *r, int error) {
  const int disabled = io_ring_disabled_by_sysctl();
  if (error == ENOSYS) return toll_skip(r, "this kernel has no io_uring");
  if (error == ENOMEM) return io_ring_refuse_memory(r);
  if (error == EPERM && disabled)
    return toll_skip(r, "io_uring is disabled: sysctl kernel.io_uring_disabled is %d, and 0 permits it", disabled);
  if (error == EPERM) return toll_skip(r, "io_uring is not permitted: by a seccomp filter, as containers have one");
  return toll_skip(r, "the system refused io_uring: %s", strerror(error));
}

/* For prepare: whether the kernel has IORING_OP_READ and IORING_OP_WRITE, which came with this feature (Linux 5.6). */
static inline enum toll_status io_ring_needs_reads(struct toll_run *r, const struct io_ring *ring) {
  if (ring->features & IORING_FEAT_RW_CUR_POS) return TOLL_OK;
  return toll_skip(r, "before Linux 5.6 io_uring has reads and writes by vectors alone");
}

/* The place of the next request but `ahead`. */
static inline struct io_uring_sqe *io_ring_place(struct io_ring *ring, uint32_t ahead) {
  return &ring->requests[(atomic_load_explicit(ring->request_tail, memory_order_relaxed) + ahead) & ring->request_mask];
}

static inline void io_ring_publish(struct io_ring *ring, uint32_t count) {
  const uint32_t tail = atomic_load_explicit(ring->request_tail, memory_order_relaxed);
  atomic_store_explicit(ring->request_tail, tail + count, memory_order_release);
}

/* Submits so many of those published, and waits for so many completions. Returns how many were submitted, or -1 with
 * errno. */
static inline long io_ring_enter(struct io_ring *ring, uint32_t submitted, uint32_t awaited) {
  return syscall(SYS_io_uring_enter, ring->file, submitted, awaited, IORING_ENTER_GETEVENTS, NULL, 0);
}

static inline uint32_t io_ring_completed(struct io_ring *ring) {
  return atomic_load_explicit(ring->completion_tail, memory_order_acquire) -
         atomic_load_explicit(ring->completion_head, memory_order_relaxed);
}

static inline const struct io_uring_cqe *io_ring_completion(struct io_ring *ring, uint32_t ahead) {
  const uint32_t head = atomic_load_explicit(ring->completion_head, memory_order_relaxed);
  return &ring->completions[(head + ahead) & ring->completion_mask];
}

static inline void io_ring_release(struct io_ring *ring, uint32_t count) {
  const uint32_t head = atomic_load_explicit(ring->completion_head, memory_order_relaxed);
  atomic_store_explicit(ring->completion_head, head + count, memory_order_release);
}

#endif
