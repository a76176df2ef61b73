/* SPDX-License-Identifier: Apache-2.0
 *
 * How far apart a program's loads of the same line lie: a histogram of stack distances (stack.h), of what goes by a stride
 * apart from all else.
 *
 * Of all lines one in `one_in` is looked at, chosen by a hash of its number; distances among them are as many times too
 * small, and loads as many times too few (Waldspurger and others 2015, SHARDS).
 */
#ifndef TOLL_REUSE_H
#define TOLL_REUSE_H

#include "stack.h"

enum { REUSE_SIZES = 128, REUSE_LINE_BYTES = 64 };

/* What one instruction has loaded: a prefetcher that watches it foresees a stride (Chen and Baer 1995). */
struct habit {
  uint64_t line;
  int64_t stride;
  uint32_t seen;
};

/* By size, four in an octave of lines, the first of one line; loads whose line had not been used before are not there. */
struct reuse {
  struct stack stack;
  uint64_t one_in;
  uint64_t foreseen[REUSE_SIZES], others[REUSE_SIZES];
};

/* one_in: a power of two. False without memory. */
bool reuse_make(struct reuse *reuse, uint64_t one_in);
/* habit: of the instruction that loads. counts: whether it goes into the histogram; the line is used in any case. */
void reuse_load(struct reuse *reuse, struct habit *habit, uint64_t line, bool counts);
void reuse_store(struct reuse *reuse, uint64_t line);
/* The middle of the sizes that are counted at a place: lines that a cache must have room for to have held the line. */
double reuse_lines(unsigned place);

#endif
