/* SPDX-License-Identifier: Apache-2.0
 *
 * Traffic of a mix of reads and writes, line by line, since the memory deals in lines: a line that is only touched is one
 * read; one that is changed is one read and, when it leaves the cache, one write. So out of three lines two are read and
 * one is changed for three reads to one write, and each line is changed for one to one. More writes than reads need
 * non-temporal stores, which write whole lines and read none: one line in four is read and three are written for one to
 * three.
 *
 * A burst of twelve lines serves every mix whole. Which of its lines are changed is known when it is compiled: the loop
 * has no division and no branch for a line.
 */
#ifndef MEMORY_MIXED_TRAFFIC_H
#define MEMORY_MIXED_TRAFFIC_H

#include "kernels.h"

enum { BURST = 12 };
enum traffic_mix { READS, THREE_TO_ONE, TWO_TO_ONE, ONE_TO_ONE, ONE_TO_THREE, NON_TEMPORAL };
static const char *const traffic_mixes[] = {"1:0", "3:1", "2:1", "1:1", "1:3", "nt", NULL};

/* Lines of a burst that are read, those of them that are changed, and lines that travel for it. */
static inline unsigned traffic_reads(enum traffic_mix mix) {
  static const unsigned read[] = {BURST, BURST, BURST, BURST, BURST / 4, 0};
  return read[mix];
}
static inline unsigned traffic_changes(enum traffic_mix mix) {
  static const unsigned changed[] = {0, BURST / 3, BURST / 2, BURST, 0, 0};
  return changed[mix];
}
static inline unsigned traffic_lines(enum traffic_mix mix) {
  return BURST + traffic_changes(mix);
}

static inline bool is_non_temporal(enum traffic_mix mix) {
  return mix >= ONE_TO_THREE;
}

/* Whether a line of a burst is written by non-temporal stores. */
static inline bool is_written_whole(enum traffic_mix mix, unsigned line) {
  return mix == NON_TEMPORAL || (mix == ONE_TO_THREE && line % 4);
}

#ifdef NT_WORDS
static inline bool traffic_can_be(enum traffic_mix mix) {
  return !is_non_temporal(mix) || toll_cpu_has("sse2") || toll_cpu_has("neon");
}
static inline void write_whole(char *start, size_t bytes, unsigned long value) {
  word *end = (word *)(void *)(start + bytes);
  for (word *at = (word *)(void *)start; at < end; at += 2) NT_WORDS(at, value);
}
#else
static inline bool traffic_can_be(enum traffic_mix mix) {
  return !is_non_temporal(mix);
}
static inline void write_whole(char *start, size_t bytes, unsigned long value) {
  (void)start;
  (void)bytes;
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

/* Reads one line of four, and writes three of them whole. */
static inline unsigned long burst_one_to_three(char *start, size_t line, unsigned long value) {
  unsigned long seen = 0;
  for (unsigned i = 0; i < BURST; i += 4, start += 4 * line) {
    seen += *(const word *)(const void *)start;
    write_whole(start + line, 3 * line, value);
  }
  return seen;
}

static inline unsigned long traffic_burst(char *start, size_t line, enum traffic_mix mix, unsigned long number) {
  switch (mix) {
    case THREE_TO_ONE: return burst_lines(start, line, 3);
    case TWO_TO_ONE: return burst_lines(start, line, 2);
    case ONE_TO_ONE: return burst_lines(start, line, 1);
    case ONE_TO_THREE: return burst_one_to_three(start, line, number);
    case NON_TEMPORAL: write_whole(start, BURST * line, number); return 0;
    default: return burst_lines(start, line, 0);
  }
}

/* The sum of the first words of all lines. */
static inline uint64_t traffic_sum(const char *start, size_t bytes, size_t line) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes; i += line) sum += *(const word *)(const void *)(start + i);
  return sum;
}

/* ---- what one CPU goes through ---- */

struct traffic_part {
  char *at, *start, *end; /* whole bursts */
  uint64_t bursts, seen;
  char padding[128]; /* neighbours in an array are written by other CPUs */
};

/* Bytes of one of so many parts of a buffer, in whole bursts. */
static inline size_t traffic_part_bytes(size_t bytes, unsigned parts, size_t line) {
  return bytes / parts / (BURST * line) * BURST * line;
}

/* The first word of each line is 1. */
static inline void traffic_give(struct traffic_part *part, char *memory, size_t bytes, size_t line) {
  part->start = part->at = memory;
  part->end = memory + bytes;
  for (char *at = memory; at < part->end; at += line) *(word *)(void *)at = 1;
}

static inline bool has_written_whole(const char *burst, size_t line, enum traffic_mix mix, unsigned long number) {
  for (unsigned i = 0; i < BURST; i++)
    for (const char *at = burst + i * line; is_written_whole(mix, i) && at < burst + (i + 1) * line; at += sizeof(word))
      if (*(const word *)(const void *)at != number) return false;
  return true;
}

/* Checks that every change, which adds one, is in the memory, and that lines written whole contain the number of the
 * burst. */
static inline enum toll_status traffic_check(struct toll_run *r, const struct traffic_part *part, size_t line,
                                             enum traffic_mix mix) {
  const char *last = (part->at == part->start ? part->end : part->at) - BURST * line;
  const size_t bytes = (size_t)(part->end - part->start);
  if (!part->bursts) return toll_wrong(r, "a CPU moved no line");
  if (!has_written_whole(last, line, mix, (unsigned long)part->bursts))
    return toll_wrong(r, "a word of the last burst was not written");
  if (!traffic_changes(mix) && part->seen != part->bursts * traffic_reads(mix))
    return toll_wrong(r, "a CPU did not read each of its lines");
  if (!is_non_temporal(mix) &&
      traffic_sum(part->start, bytes, line) != bytes / line + part->bursts * traffic_changes(mix))
    return toll_wrong(r, "other lines were changed than the mix has");
  return TOLL_OK;
}

#endif
