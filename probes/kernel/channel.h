/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways by which a question of one word reaches another thread or process, and its answer comes back.
 *
 * A channel is opened before the companion starts, so that both sides have it. Words contain a turn number besides
 * their content, so that each differs from the last and a stale word is recognised. All shared data are in the probe's
 * state; the two slots are a line apart, since otherwise each store of one side would evict the other side's word from
 * its cache.
 *
 * The ways themselves stand by family in channel_memory.h, channel_file.h, channel_queue.h, channel_signal.h and
 * channel_ring.h: one function that sends a word from a side, one that awaits the other side's. Which side calls is a
 * constant there once the compiler has put them into a body of their own.
 */
#ifndef TOLL_KERNEL_CHANNEL_H
#define TOLL_KERNEL_CHANNEL_H

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"

enum { CHANNEL_LINE = 128 };
enum channel_side { ASKER, OWNER, CHANNEL_SIDES };

/* A word that one side has sent. */
struct channel_slot {
  _Atomic uint32_t word;
  _Atomic uint32_t sleeps; /* the reading side can't be reached but by a wake-up */
  uint32_t last;           /* the word that the reading side has taken */
  uint32_t sent, taken;    /* how many, where the way itself doesn't keep them apart */
  _Atomic uint32_t parked; /* never changes: a process that sleeps on it sleeps again when woken */
  char padding[CHANNEL_LINE - 24];
};
/* The files of one side, and its identity. */
struct channel_end {
  int in, out;
  int spare[2];
  pid_t process;
  _Atomic pid_t thread;
};
struct channel {
  struct channel_slot slot[CHANNEL_SIDES];
  struct channel_end end[CHANNEL_SIDES];
  sem_t posted[CHANNEL_SIDES];
  bool one_cpu, one_space;
  int refused;   /* errno of a request that the system refuses to all programs */
  uint64_t lost; /* words that did not arrive whole */
};

/* Called by both sides before their first word: a process learns its own identity only when it runs. */
static inline void channel_name_oneself(struct channel *channel, enum channel_side self) {
  channel->end[self].process = getpid();
  atomic_store(&channel->end[self].thread, (pid_t)syscall(SYS_gettid));
}

/* The other side begins its batch a moment before or after this one. */
static inline void channel_await_name(struct channel *channel, enum channel_side self) {
  while (!atomic_load(&channel->end[!self].thread)) sched_yield();
}

static inline void channel_connect(struct channel *channel, int asker, int owner) {
  channel->end[ASKER].in = channel->end[ASKER].out = asker;
  channel->end[OWNER].in = channel->end[OWNER].out = owner;
}

#endif
