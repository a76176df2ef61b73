/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that a program has used, in the order of their last use. The number of other lines used since then is a
 * line's stack distance: a cache with LRU replacement holds the line if it has room for more lines than that (Mattson
 * and others 1970). So one pass over the addresses gives the misses of caches of every size.
 */
#ifndef TOLL_STACK_H
#define TOLL_STACK_H

#include <stdbool.h>
#include <stdint.h>

#define STACK_NEVER UINT64_MAX

enum { STACK_TOP = 16 };

/* The topmost lines are in an ordered array; all others are indexed by the moment at which they left it. */
struct stack {
  uint64_t top[STACK_TOP];
  uint32_t topmost;          /* how many lie there */
  uint64_t *line;            /* line at each place of a hash table; STACK_NEVER: free */
  uint32_t *moment;          /* beside it */
  uint32_t *place;           /* by moment: the line that left the top then; none if it has returned */
  uint32_t *later;           /* by moment: sums of such marks (Fenwick 1994) */
  uint32_t room, now, lines; /* lines: below the top */
};

bool stack_make(struct stack *stack);
void stack_drop(struct stack *stack);
/* Moves a line to the top. Returns the number of other lines above it before, STACK_NEVER for a new line. Aborts
 * without memory. */
uint64_t stack_use(struct stack *stack, uint64_t line);

#endif
