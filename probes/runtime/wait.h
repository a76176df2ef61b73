/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for a word in memory that another worker changes, or for a time of the system's clock. Used by the runtime's
 * gate, and by probes whose boundary is waiting.
 */
#ifndef TOLL_WAIT_H
#define TOLL_WAIT_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock_ns.h"

/* futex(2); the kernel's own header is not part of every C library. */
enum { TOLL_FUTEX_WAIT = 0, TOLL_FUTEX_WAKE = 1 };
/* 32-bit ABIs that have had 64-bit times from the start define only this name. */
#if !defined(SYS_futex) && defined(SYS_futex_time64)
#define SYS_futex SYS_futex_time64
#endif

/* Sleeps while the word holds the value; may return before it has changed. */
static inline void toll_futex_wait(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, TOLL_FUTEX_WAIT, value, NULL, NULL, 0);
}

/* Returns the number of workers that it woke; negative, with errno, if the system refuses. */
static inline long toll_futex_wake(_Atomic uint32_t *word, int most) {
  return syscall(SYS_futex, word, TOLL_FUTEX_WAKE, most, NULL, NULL, 0);
}

/* The current time of the clock that the kernel's timers use: for absolute timeouts, never for a result. */
static inline uint64_t toll_moment_ns(void) {
  return toll_clock_ns(CLOCK_MONOTONIC);
}

#endif
