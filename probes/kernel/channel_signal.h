/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels by a real-time signal that carries the word: taken by the side that waits for it, or read from a file.
 *
 * The signal is blocked, so that no handler runs: signal_self measures the cost of a handler. It is sent to the other
 * side's thread, and each direction has a signal of its own, so that one thread may be both sides.
 */
#ifndef TOLL_KERNEL_CHANNEL_SIGNAL_H
#define TOLL_KERNEL_CHANNEL_SIGNAL_H

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "channel.h"

static inline int channel_signal_of(enum channel_side sender) {
  return SIGRTMIN + 2 + (int)sender;
}

static inline sigset_t channel_signals(enum channel_side sender) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, channel_signal_of(sender));
  return set;
}

/* Processes and threads that start afterwards inherit the blocked signals. */
static inline bool channel_open_signals(struct channel *channel) {
  const sigset_t question = channel_signals(ASKER), answer = channel_signals(OWNER);
  (void)channel;
  return sigprocmask(SIG_BLOCK, &question, NULL) == 0 && sigprocmask(SIG_BLOCK, &answer, NULL) == 0;
}

static inline void channel_begin_signals(struct channel *channel, enum channel_side self) {
  channel_name_oneself(channel, self);
}

static inline void channel_send_signal(struct channel *channel, enum channel_side self, uint32_t word) {
  const struct channel_end *other = &channel->end[!self];
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_code = SI_QUEUE;
  info.si_pid = channel->end[self].process;
  info.si_value.sival_int = (int)word;
  if (syscall(SYS_rt_tgsigqueueinfo, other->process, other->thread, channel_signal_of(self), &info) < 0)
    channel->lost++;
}

static inline uint32_t channel_await_signal(struct channel *channel, enum channel_side self) {
  const sigset_t awaited = channel_signals(!self);
  siginfo_t info = {0};
  if (sigwaitinfo(&awaited, &info) != channel_signal_of(!self)) channel->lost++;
  return (uint32_t)info.si_value.sival_int;
}

/* A reader of the file gets the signals sent to itself, whichever process opened it. */
static inline bool channel_open_signal_files(struct channel *channel) {
  const sigset_t question = channel_signals(ASKER), answer = channel_signals(OWNER);
  channel->end[ASKER].in = signalfd(-1, &answer, SFD_CLOEXEC);
  channel->end[OWNER].in = signalfd(-1, &question, SFD_CLOEXEC);
  return channel_open_signals(channel) && channel->end[ASKER].in >= 0 && channel->end[OWNER].in >= 0;
}

static inline uint32_t channel_read_signal(struct channel *channel, enum channel_side self) {
  struct signalfd_siginfo info = {0};
  if (read(channel->end[self].in, &info, sizeof info) != (ssize_t)sizeof info) channel->lost++;
  return (uint32_t)info.ssi_int;
}

#endif
