/* SPDX-License-Identifier: Apache-2.0
 *
 * Stack distances in logarithmic time: each line below the top marks the moment at which it left it, and the marks
 * after a moment are counted by a tree of sums (Bennett and Kruskal 1975; Olken 1981). Moments without a mark are
 * removed when all numbers are used.
 */
#include <stdlib.h>
#include <string.h>

#include "stack.h"

enum { FIRST_ROOM = 1 << 12, SPARE = 4 };

#define NO_PLACE  UINT32_MAX
#define NO_MOMENT UINT32_MAX

static void *array(uint64_t count, size_t each, int filled) {
  void *made = malloc(count * each);
  if (made) memset(made, filled, count * each);
  return made;
}

static bool make_room(struct stack *stack, uint32_t room) {
  *stack = (struct stack){.room = room};
  stack->line = array(room, sizeof *stack->line, 0xff); /* STACK_NEVER everywhere */
  stack->moment = array(room, sizeof *stack->moment, 0);
  stack->place = array(room, sizeof *stack->place, 0xff);
  stack->later = array((uint64_t)room + 1, sizeof *stack->later, 0);
  return stack->line && stack->moment && stack->place && stack->later;
}

bool stack_make(struct stack *stack) {
  return make_room(stack, FIRST_ROOM);
}

void stack_drop(struct stack *stack) {
  free(stack->line);
  free(stack->moment);
  free(stack->place);
  free(stack->later);
}

/* ---- marks ---- */

static void mark(struct stack *stack, uint32_t moment, uint32_t by) {
  for (uint32_t i = moment + 1; i <= stack->room; i += i & -i) stack->later[i] += by;
}

static uint32_t marks_up_to(const struct stack *stack, uint32_t moment) {
  uint32_t sum = 0;
  for (uint32_t i = moment + 1; i; i -= i & -i) sum += stack->later[i];
  return sum;
}

/* ---- lines below the top ---- */

static uint32_t place_of(const struct stack *stack, uint64_t line) {
  uint32_t place = (uint32_t)(line * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (stack->room - 1);
  while (stack->line[place] != line && stack->line[place] != STACK_NEVER) place = (place + 1) & (stack->room - 1);
  return place;
}

static void put_below(struct stack *stack, uint64_t line) {
  const uint32_t place = place_of(stack, line);
  stack->line[place] = line;
  stack->moment[place] = stack->now;
  stack->place[stack->now] = place;
  stack->lines++;
  mark(stack, stack->now++, 1);
}

/* Renumbers all lines, oldest first, in a larger array if they fill much of this one. Lines that have returned to
 * the top are removed from the table. */
static void squeeze(struct stack *stack) {
  struct stack before = *stack;
  const bool grows = before.lines > before.room / SPARE;
  if ((grows && before.room > UINT32_MAX / 2) || !make_room(stack, grows ? 2 * before.room : before.room)) abort();
  memcpy(stack->top, before.top, sizeof stack->top);
  stack->topmost = before.topmost;
  for (uint32_t moment = 0; moment < before.now; moment++)
    if (before.place[moment] != NO_PLACE) put_below(stack, before.line[before.place[moment]]);
  stack_drop(&before);
}

/* Returns the number of lines above this one, and removes it; STACK_NEVER if it is not there. Its table entry
 * remains. */
static uint64_t take_from_below(struct stack *stack, uint64_t line) {
  const uint32_t place = place_of(stack, line);
  if (stack->line[place] == STACK_NEVER || stack->moment[place] == NO_MOMENT) return STACK_NEVER;
  const uint32_t moment = stack->moment[place], above = stack->lines - marks_up_to(stack, moment);
  mark(stack, moment, UINT32_MAX); /* one less */
  stack->place[moment] = NO_PLACE;
  stack->moment[place] = NO_MOMENT;
  stack->lines--;
  return above;
}

/* ---- the stack ---- */

/* Most loads are of a recently used line, which a linear search finds. */
static uint32_t find_at_top(const struct stack *stack, uint64_t line) {
  uint32_t above = 0;
  while (above < stack->topmost && stack->top[above] != line) above++;
  return above;
}

uint64_t stack_use(struct stack *stack, uint64_t line) {
  uint32_t above = find_at_top(stack, line);
  uint64_t distance = above;
  if (above == stack->topmost) {
    if (stack->now == stack->room) squeeze(stack);
    const uint64_t below = take_from_below(stack, line);
    distance = below == STACK_NEVER ? STACK_NEVER : above + below;
    if (above == STACK_TOP) put_below(stack, stack->top[--above]);
    stack->topmost = above + 1;
  }
  memmove(stack->top + 1, stack->top, above * sizeof *stack->top);
  stack->top[0] = line;
  return distance;
}
