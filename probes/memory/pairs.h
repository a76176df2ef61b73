/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over pairs of places: the first of each pair comes in random order, the second lies at a chosen distance from it.
 * Each load waits for the one before, or the two would overlap and the second look free at any distance. The control
 * loads the first of each pair alone, through a pointer of its own in the same line, so that the difference is the second
 * access and nothing else.
 *
 * Both wait a few cycles after the first load. A load that follows at once meets its line still in the buffer of
 * outstanding misses: on Zen 3 it then takes 8 cycles where a hit takes 4, too near to the 12 of another line that misses
 * into the second cache. Waiting longer than about 12 cycles gives prefetchers the time to bring the other line.
 */
#ifndef MEMORY_PAIRS_H
#define MEMORY_PAIRS_H

#include "toll.h"

struct pairs {
  char *memory;
  size_t count, distance;
  size_t (*offset)(const struct pairs *p, size_t pair); /* offset of a pair's first place, in bytes */
  void **head;
  struct toll_cursor both, alone; /* cursors of the pairs, and of the first accesses alone */
  bool proved;
};

static inline void **pairs_first(const struct pairs *p, size_t pair) {
  return (void **)(void *)(p->memory + p->offset(p, pair));
}

/* Draws the order as a cycle of its own, and bends it: the first word of a pair leads to its second place, that one to
 * the next pair. The second word carries the control's order. */
static inline enum toll_status pairs_lay(struct toll_run *r, struct pairs *p) {
  void **order = (void **)toll_buffer(r, (struct toll_buffer_request){.bytes = p->count * sizeof(void *)});
  if (!order) return toll_refused(r);
  toll_chase(r, order, p->count * sizeof(void *), sizeof(void *), TOLL_ORDER_RANDOM);
  for (size_t i = 0; i < p->count; i++) {
    void **first = pairs_first(p, i), **second = (void **)(void *)((char *)first + p->distance);
    void **next = pairs_first(p, (size_t)((void **)order[i] - order));
    first[0] = second;
    first[1] = next + 1;
    second[0] = next;
  }
  p->both.at = p->head = pairs_first(p, 0);
  p->alone.at = p->head + 1;
  return TOLL_OK;
}

static inline void **pairs_wait(void **at) {
  enum { ADDITIONS = 8 };
  uintptr_t place = (uintptr_t)at, nothing = 0;
  TOLL_OPAQUE(nothing);
#pragma GCC unroll 8
  for (int i = 0; i < ADDITIONS; i++) {
    place += nothing;
    TOLL_OPAQUE(place);
  }
  return (void **)place;
}

static inline void **pairs_follow(void **at, uint64_t count) {
  for (; count; count--) {
    at = pairs_wait((void **)*at);
    at = (void **)*at;
  }
  return at;
}

static inline void pairs_body(struct toll_run *r) {
  struct pairs *p = (struct pairs *)r->state;
  p->both.at = pairs_follow(p->both.at, r->iterations);
  p->both.steps += r->iterations;
}

static inline void pairs_control(struct toll_run *r) {
  struct pairs *p = (struct pairs *)r->state;
  void **at = p->alone.at;
  for (uint64_t left = r->iterations; left; left--) at = pairs_wait((void **)*at);
  p->alone.at = at;
  p->alone.steps += r->iterations;
}

/* One lap must pass each pair once, pairs and control alike. */
static inline enum toll_status pairs_lap(struct toll_run *r, struct pairs *p) {
  void **at = p->head, **alone = p->head + 1;
  for (size_t i = 0; i < p->count; i++) {
    if (alone != at + 1) return toll_wrong(r, "the control leaves the pairs after %zu of them", i);
    if (i && at == p->head) return toll_wrong(r, "the pairs are back after %zu of %zu", i, p->count);
    at = pairs_follow(at, 1);
    alone = (void **)*alone;
  }
  if (at != p->head) return toll_wrong(r, "the pairs do not close after %zu", p->count);
  p->proved = true;
  return TOLL_OK;
}

static inline enum toll_status pairs_check(struct toll_run *r) {
  struct pairs *p = (struct pairs *)r->state;
  const struct toll_cursors both = {.first = &p->both, .count = 1, .loads = 2};
  const struct toll_cursors alone = {.first = &p->alone, .count = 1, .loads = 1};
  if (toll_check_loads(r, pairs_body, both) != TOLL_OK || toll_check_loads(r, pairs_control, alone) != TOLL_OK)
    return toll_refused(r);
  if (!p->proved) return pairs_lap(r, p);
  if (p->both.at != pairs_follow(p->head, p->both.steps % p->count))
    return toll_wrong(r, "the pairs do not stand where %llu of them lead", (unsigned long long)p->both.steps);
  if (p->alone.at != pairs_follow(p->head, p->alone.steps % p->count) + 1)
    return toll_wrong(r, "the control does not stand where %llu loads lead", (unsigned long long)p->alone.steps);
  return TOLL_OK;
}

#endif
