/* SPDX-License-Identifier: Apache-2.0
 *
 * Traffic of a mix of reads and writes, line by line, since the memory deals in lines: a line that is only touched is one
 * read; one that is changed is one read and, when it leaves the cache, one write. So out of three lines two are read and
 * one is changed for three reads to one write, and each line is changed for one to one. Non-temporal stores write whole
 * lines, and read none.
 *
 * A burst of twelve lines serves every mix whole. Which of its lines are changed is known when it is compiled: the loop
 * has no division and no branch for a line.
 */
#ifndef MEMORY_MIXED_TRAFFIC_H
#define MEMORY_MIXED_TRAFFIC_H

#include "kernels.h"

enum { BURST = 12 };
enum traffic_mix { READS, THREE_TO_ONE, TWO_TO_ONE, ONE_TO_ONE, NON_TEMPORAL };
static const char *const traffic_mixes[] = {"1:0", "3:1", "2:1", "1:1", "nt", NULL};

/* Lines of a burst that are changed, and lines that travel for it. */
static inline unsigned traffic_changes(enum traffic_mix mix) {
  static const unsigned changed[] = {0, BURST / 3, BURST / 2, BURST, 0};
  return changed[mix];
}
static inline unsigned traffic_lines(enum traffic_mix mix) {
  return BURST + traffic_changes(mix);
}

#ifdef NT_WORDS
static inline bool traffic_can_be(enum traffic_mix mix) {
  return mix != NON_TEMPORAL || toll_cpu_has("sse2") || toll_cpu_has("neon");
}
static inline void burst_non_temporal(char *start, size_t line, unsigned long value) {
  word *end = (word *)(void *)(start + BURST * line);
  for (word *at = (word *)(void *)start; at < end; at += 2) NT_WORDS(at, value);
}
#else
static inline bool traffic_can_be(enum traffic_mix mix) {
  return mix != NON_TEMPORAL;
}
static inline void burst_non_temporal(char *start, size_t line, unsigned long value) {
  (void)start;
  (void)line;
  (void)value;
}
#endif

/* one_in: a constant; 0: no line is changed. Returns the sum of what was read. */
static inline __attribute__((always_inline)) unsigned long burst_lines(char *start, size_t line, unsigned one_in) {
  unsigned long seen = 0;
#pragma GCC unroll 12
  for (unsigned i = 0; i < BURST; i++) {
    word *at = (word *)(void *)(start + i * line);
    const unsigned long value = *at;
    seen += value;
    if (one_in && i % one_in == 0) *at = value + 1;
  }
  return seen;
}

static inline unsigned long traffic_burst(char *start, size_t line, enum traffic_mix mix, unsigned long number) {
  switch (mix) {
    case THREE_TO_ONE: return burst_lines(start, line, 3);
    case TWO_TO_ONE: return burst_lines(start, line, 2);
    case ONE_TO_ONE: return burst_lines(start, line, 1);
    case NON_TEMPORAL: burst_non_temporal(start, line, number); return 0;
    default: return burst_lines(start, line, 0);
  }
}

/* The sum of the first words of all lines. */
static inline uint64_t traffic_sum(const char *start, size_t bytes, size_t line) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes; i += line) sum += *(const word *)(const void *)(start + i);
  return sum;
}

#endif
