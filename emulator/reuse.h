/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of the stack distances (stack.h) of a program's loads of the same line; loads at a stride are counted
 * separately.
 *
 * One line in `one_in` is observed, selected by a hash of its number; distances and numbers of loads are smaller by
 * this factor (Waldspurger and others 2015, SHARDS).
 */
#ifndef TOLL_REUSE_H
#define TOLL_REUSE_H

#include "stack.h"

enum { REUSE_SIZES = 128, REUSE_LINE_BYTES = 64 };

/* The addresses that one instruction has loaded, by which a prefetcher predicts a stride (Chen and Baer 1995). */
struct habit {
  uint64_t line;
  int64_t stride;
  uint32_t seen;
};

/* Counts by size in lines, four for each octave, beginning with one line. First uses of a line are not counted. */
struct reuse {
  struct stack stack;
  uint64_t one_in;
  uint64_t foreseen[REUSE_SIZES], others[REUSE_SIZES];
};

/* one_in: a power of two. False without memory. */
bool reuse_make(struct reuse *reuse, uint64_t one_in);
/* habit: of the loading instruction. counts: whether the load is added to the histogram; the line is marked as used
 * in any case. */
void reuse_load(struct reuse *reuse, struct habit *habit, uint64_t line, bool counts);
void reuse_store(struct reuse *reuse, uint64_t line);
/* The middle of the sizes that are counted at an index: the number of lines that a cache must hold for a hit. */
double reuse_lines(unsigned place);

#endif
