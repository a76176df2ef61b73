/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts loads by their stack distance, and by whether a prefetcher would have predicted them.
 */
#include <string.h>

#include "reuse.h"

enum { SURE = 2, REACH_LINES = 32, PER_OCTAVE_BITS = 2 };

bool reuse_make(struct reuse *reuse, uint64_t one_in) {
  memset(reuse, 0, sizeof *reuse);
  reuse->one_in = one_in;
  return stack_make(&reuse->stack);
}

/* The last step of SplitMix64: without it, all lines of a stride or none of them could be selected. */
static bool is_chosen(const struct reuse *reuse, uint64_t line) {
  line = (line ^ line >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  line = (line ^ line >> 27) * UINT64_C(0x94d049bb133111eb);
  return ((line ^ line >> 31) & (reuse->one_in - 1)) == 0;
}

/* Whether the distance to the instruction's previous address equals both of its last two strides. */
static bool is_foreseen(struct habit *habit, uint64_t line) {
  const int64_t stride = (int64_t)(line - habit->line);
  if (!stride) return habit->seen >= SURE;
  habit->seen = stride == habit->stride && stride >= -REACH_LINES && stride <= REACH_LINES ? habit->seen + 1 : 0;
  habit->stride = stride;
  habit->line = line;
  return habit->seen >= SURE;
}

/* The histogram index of a number of lines, at least 1: its octave, and the two bits below the highest. */
static unsigned place_of(uint64_t lines) {
  const unsigned octave = 63 - (unsigned)__builtin_clzll(lines);
  const unsigned quarter = (unsigned)(lines << PER_OCTAVE_BITS >> octave) & ((1 << PER_OCTAVE_BITS) - 1);
  const unsigned place = octave << PER_OCTAVE_BITS | quarter;
  return place < REUSE_SIZES ? place : REUSE_SIZES - 1;
}

void reuse_load(struct reuse *reuse, struct habit *habit, uint64_t line, bool counts) {
  const bool foreseen = is_foreseen(habit, line);
  if (!is_chosen(reuse, line)) return;
  const uint64_t above = stack_use(&reuse->stack, line);
  if (!counts || above == STACK_NEVER) return;
  (foreseen ? reuse->foreseen : reuse->others)[place_of(above * reuse->one_in + 1)] += reuse->one_in;
}

void reuse_store(struct reuse *reuse, uint64_t line) {
  if (is_chosen(reuse, line)) stack_use(&reuse->stack, line);
}

double reuse_lines(unsigned place) {
  const double quarter = place % (1 << PER_OCTAVE_BITS), quarters = 1 << PER_OCTAVE_BITS;
  const double first = (double)(UINT64_C(1) << (place >> PER_OCTAVE_BITS)) / quarters;
  return first * (quarters + quarter + 0.5);
}
