/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels through a word in memory: the waiting side spins, sleeps, or spins and then sleeps.
 */
#ifndef TOLL_KERNEL_CHANNEL_MEMORY_H
#define TOLL_KERNEL_CHANNEL_MEMORY_H

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "channel.h"
#include "wait.h"

/* Looks before a waiting side goes to sleep: 1 to 4 us, about what a sleep and the wake-up from it cost, so that it never
 * pays more than twice the cheaper of the two (Karlin et al., SOSP 1991). */
enum { CHANNEL_LOOKS = 100 };

static inline bool channel_open_nothing(struct channel *channel) {
  (void)channel;
  return true;
}

static inline uint32_t channel_word(struct channel_slot *slot) {
  return atomic_load_explicit(&slot->word, memory_order_acquire);
}

static inline void channel_store(struct channel *channel, enum channel_side self, uint32_t word) {
  atomic_store_explicit(&channel->slot[self].word, word, memory_order_release);
}

/* On one CPU the other side cannot run while this one spins, so this side yields after every look. */
static inline uint32_t channel_spin(struct channel *channel, enum channel_side self) {
  struct channel_slot *slot = &channel->slot[!self];
  uint32_t word;
  while ((word = channel_word(slot)) == slot->last) {
    if (channel->one_cpu)
      sched_yield();
    else
      toll_relax();
  }
  return slot->last = word;
}

/* ---- a futex, with and without a spin before the sleep ---- */

enum { CHANNEL_FUTEX_PRIVATE = 128 };

static inline long channel_futex(_Atomic uint32_t *word, int operation, uint32_t value) {
  return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* With a CPU for each side, a side that sleeps only if there is no word yet may keep the other side awake in the
 * same way: then neither sleeps any more, a call takes a hundredth of the time, and this lasts for thousands of
 * calls. Here the waiting side always sleeps. */
static inline void channel_store_and_wake_by(struct channel *channel, enum channel_side self, uint32_t word, int wake) {
  struct channel_slot *slot = &channel->slot[self];
  channel_store(channel, self, word);
  if (channel->one_cpu)
    channel_futex(&slot->word, wake, 1);
  else /* until the other side waits, or has seen the word: a signal wakes as well */
    while (channel_futex(&slot->parked, wake, 1) == 0 && __atomic_load_n(&slot->last, __ATOMIC_RELAXED) != word)
      toll_relax();
}

static inline uint32_t channel_sleep_by(struct channel *channel, enum channel_side self, int wait) {
  struct channel_slot *slot = &channel->slot[!self];
  _Atomic uint32_t *place = channel->one_cpu ? &slot->word : &slot->parked;
  const uint32_t nothing = channel->one_cpu ? slot->last : 0;
  uint32_t word;
  if (!channel->one_cpu) channel_futex(place, wait, nothing);
  while ((word = channel_word(slot)) == slot->last) channel_futex(place, wait, nothing);
  __atomic_store_n(&slot->last, word, __ATOMIC_RELAXED);
  return word;
}

static inline void channel_store_and_wake(struct channel *channel, enum channel_side self, uint32_t word) {
  channel_store_and_wake_by(channel, self, word, TOLL_FUTEX_WAKE);
}
static inline uint32_t channel_sleep(struct channel *channel, enum channel_side self) {
  return channel_sleep_by(channel, self, TOLL_FUTEX_WAIT);
}

/* The private futex of a C library's locks inside one process: the kernel finds the sleepers by the address alone,
 * without a look-up of the page's file or mapping. */
static inline void channel_store_and_wake_private(struct channel *channel, enum channel_side self, uint32_t word) {
  channel_store_and_wake_by(channel, self, word, TOLL_FUTEX_WAKE | CHANNEL_FUTEX_PRIVATE);
}
static inline uint32_t channel_sleep_private(struct channel *channel, enum channel_side self) {
  return channel_sleep_by(channel, self, TOLL_FUTEX_WAIT | CHANNEL_FUTEX_PRIVATE);
}

/* A side that is awake is not woken. Both sides store before they read the other's store, so that at least one of
 * them sees it. */
static inline void channel_store_and_wake_sleeper(struct channel *channel, enum channel_side self, uint32_t word) {
  struct channel_slot *slot = &channel->slot[self];
  atomic_store(&slot->word, word);
  if (atomic_load(&slot->sleeps)) toll_futex_wake(&slot->word, 1);
}

static inline uint32_t channel_spin_and_sleep(struct channel *channel, enum channel_side self) {
  struct channel_slot *slot = &channel->slot[!self];
  for (int look = 0; look < CHANNEL_LOOKS && channel_word(slot) == slot->last; look++) toll_relax();
  if (channel_word(slot) == slot->last) {
    atomic_store(&slot->sleeps, 1);
    while (atomic_load(&slot->word) == slot->last) toll_futex_wait(&slot->word, slot->last);
    atomic_store(&slot->sleeps, 0);
  }
  return slot->last = channel_word(slot);
}

/* ---- an event counter, or a semaphore, that says that the word is there ---- */

static inline bool channel_open_events(struct channel *channel) {
  const int question = eventfd(0, EFD_CLOEXEC), answer = eventfd(0, EFD_CLOEXEC);
  channel->end[ASKER].in = channel->end[OWNER].out = answer;
  channel->end[ASKER].out = channel->end[OWNER].in = question;
  return question >= 0 && answer >= 0;
}

static inline void channel_store_and_count(struct channel *channel, enum channel_side self, uint32_t word) {
  const uint64_t one = 1;
  channel_store(channel, self, word);
  if (write(channel->end[self].out, &one, sizeof one) != (ssize_t)sizeof one) channel->lost++;
}

static inline uint32_t channel_event(struct channel *channel, enum channel_side self) {
  uint64_t events = 0;
  if (read(channel->end[self].in, &events, sizeof events) != (ssize_t)sizeof events) channel->lost++;
  return channel_word(&channel->slot[!self]);
}

static inline bool channel_open_semaphores(struct channel *channel) {
  const int shared = !channel->one_space;
  return sem_init(&channel->posted[ASKER], shared, 0) == 0 && sem_init(&channel->posted[OWNER], shared, 0) == 0;
}

static inline void channel_store_and_post(struct channel *channel, enum channel_side self, uint32_t word) {
  channel_store(channel, self, word);
  if (sem_post(&channel->posted[self]) < 0) channel->lost++;
}

static inline uint32_t channel_semaphore(struct channel *channel, enum channel_side self) {
  while (sem_wait(&channel->posted[!self]) < 0)
    if (errno != EINTR) channel->lost++;
  return channel_word(&channel->slot[!self]);
}

/* ---- the word lies in the sender's own memory, and the reader's kernel fetches it ---- */

/* Private to each process after a fork, at the same address in both. */
static uint32_t channel_private[CHANNEL_SIDES];

static inline ssize_t channel_fetch(pid_t process, enum channel_side from, uint32_t *word) {
  const struct iovec here = {word, sizeof *word}, there = {&channel_private[from], sizeof *word};
  return process_vm_readv(process, &here, 1, &there, 1, 0);
}

static inline bool channel_open_fetch(struct channel *channel) {
  uint32_t word;
  (void)channel;
  return channel_fetch(getpid(), ASKER, &word) == (ssize_t)sizeof word;
}

/* Where a process may only look into its descendants (Yama), each side has to permit it to the other. */
static inline void channel_begin_fetch(struct channel *channel, enum channel_side self) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  channel_name_oneself(channel, self);
}

static inline void channel_keep_and_wake(struct channel *channel, enum channel_side self, uint32_t word) {
  channel_private[self] = word;
  channel_store_and_wake(channel, self, ++channel->slot[self].sent);
}

static inline uint32_t channel_sleep_and_fetch(struct channel *channel, enum channel_side self) {
  uint32_t word = 0;
  channel_sleep(channel, self);
  if (channel_fetch(channel->end[!self].process, !self, &word) < 0) channel->refused = errno;
  return word;
}

#endif
