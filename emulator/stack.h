/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that a program has used, in the order of their last use. How many others were used since then is a line's
 * stack distance: a cache that throws out the oldest holds the line if it has room for more (Mattson and others 1970). So
 * one pass over the addresses tells what caches of every size would miss.
 */
#ifndef TOLL_STACK_H
#define TOLL_STACK_H

#include <stdbool.h>
#include <stdint.h>

#define STACK_NEVER UINT64_MAX

enum { STACK_TOP = 16 };

/* The topmost lines lie in order; all below by the moment at which they left the top. */
struct stack {
  uint64_t top[STACK_TOP];
  uint32_t topmost;          /* how many lie there */
  uint64_t *line;            /* by place in a table of hashes; STACK_NEVER where it is free */
  uint32_t *moment;          /* beside it */
  uint32_t *place;           /* by moment: who left the top then; no place where it has come back since */
  uint32_t *later;           /* by moment: sums of such marks (Fenwick 1994) */
  uint32_t room, now, lines; /* lines: below the top */
};

bool stack_make(struct stack *stack);
void stack_drop(struct stack *stack);
/* Puts a line on top. Returns how many others lay above it, STACK_NEVER where it was not there. Aborts without memory. */
uint64_t stack_use(struct stack *stack, uint64_t line);

#endif
