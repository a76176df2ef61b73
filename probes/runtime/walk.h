/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk along one cycle of pointers. Each load needs the result of the load before it, so that the time of one step is
 * the latency of one load, whatever the core could overlap.
 *
 * The walk is checked in two parts. Before the first sample one lap is walked: it must return to its head after exactly
 * as many steps as there are nodes and not before, with every step at a node, so that each line is visited exactly
 * once. This lap also warms the caches. It only reads: dirty lines would have to be evicted during the samples. After
 * the last sample, the walk must be at the node that the number of steps implies; milestones recorded during the lap
 * make this check take microseconds. The node is known modulo the length of the lap, so the number of loads of a batch
 * is checked separately (toll_check_loads).
 *
 * A large random order can be computed. Its lap is then walked at eight places at once, with independent loads: 15 ms
 * in place of 79 for 32 MiB. The eight places are adjacent in the walk, so that the caches end up as after a single
 * walk.
 *
 * A lap through 128 MiB takes a third of a second and warms no cache. There the order is always computed, and is one
 * cycle by construction. About a thousand of its steps are verified, and the final node is computed.
 */
#ifndef TOLL_WALK_H
#define TOLL_WALK_H

#include "asked.h"

#define WALK_MILESTONES 512
#define WALK_LOOKED_UP  4096
#define WALK_BESIDE     8
#define WALK_TOGETHER   256

struct walk {
  void **head;
  struct toll_cursor cursor;
  char *base;
  size_t stride;
  uint64_t nodes;
  uint64_t spacing;   /* nodes between two milestones */
  uint64_t looked_up; /* steps that prove a computed walk */
  void **milestone[WALK_MILESTONES];
  bool proved, local;
  bool known, computed; /* known: the order is computed; computed: also, the buffer exceeds every cache */
  struct toll_shuffle shuffle;
};

/* The choices of a parameter `order`, and the one of a visit. */
static const char *const walk_orders[] = {"forward", "backward", "random", NULL};
static inline enum toll_order walk_order(struct toll_run *r) {
  static const enum toll_order orders[] = {TOLL_ORDER_FORWARD, TOLL_ORDER_BACKWARD, TOLL_ORDER_RANDOM};
  return orders[toll_choice(r, "order")];
}

/* Loads in one iteration of the loop. With 32, the loop's own two instructions are few and execute while the load is in
 * flight. More would only increase the quantum, at 120 ns per load. */
#define WALK_TURN   32
#define WALK_STEP   at = (void **)*at;
#define WALK_STEP_8 WALK_STEP WALK_STEP WALK_STEP WALK_STEP WALK_STEP WALK_STEP WALK_STEP WALK_STEP

/* Follows `loads` pointers, a multiple of WALK_TURN. */
static inline void **walk_follow(void **at, uint64_t loads) {
  for (uint64_t turns = loads / WALK_TURN; turns; turns--) {
    WALK_STEP_8 WALK_STEP_8 WALK_STEP_8 WALK_STEP_8
  }
  return at;
}

static inline void **walk_place(const struct walk *w, uint64_t place) {
  return (void **)(void *)(w->base + toll_shuffle_at(&w->shuffle, place % w->nodes) * w->stride);
}

/* Leaves in the caches what a repeated walk leaves there: its most recent lines. A sequential pass over 64 MiB leaves
 * the last half of the buffer in an L3 of 32 MiB, where a third of the walk's first steps hit: the first 50 ms of a
 * layout took 143 ns per load, and later ones 148 and 150.
 *
 * For a walk that exceeds every cache, addresses are computed before they are read, so that the core keeps as many
 * reads in flight as it can: the end of 1 GiB takes 0.13 s in place of 0.4. In a smaller walk each address is read as
 * soon as it is known. A faster pass would leave lines that are more recent than after a lap, and more of them would
 * hit in a cache that other virtual machines fill: 64 MiB in an L3 of 260 MiB took 100 ns per load, and 137 in any
 * later lap. */
static inline void walk_leave_the_end(const struct walk *w, uint64_t lines) {
  size_t cell[WALK_TOGETHER];
  for (uint64_t left = lines; left;) {
    const unsigned most = w->computed ? WALK_TOGETHER : 1, many = left < most ? (unsigned)left : most;
    for (unsigned i = 0; i < many; i++) cell[i] = toll_shuffle_at(&w->shuffle, w->nodes - left + i);
    for (unsigned i = 0; i < many; i++) TOLL_USE(*(void **)(void *)(w->base + cell[i] * w->stride));
    left -= many;
  }
}

/* Writes the cycle into `bytes` at `base`, one node every `stride` bytes. whole: bytes of all walks that are made at
 * once. */
static inline enum toll_status walk_lay_part(struct toll_run *r, struct walk *w, void *base, size_t bytes,
                                             size_t stride, enum toll_order order, size_t whole) {
  if (stride < sizeof(void *) || bytes < stride)
    return toll_fail(r, "%zu bytes hold no walk with a stride of %zu bytes", bytes, stride);
  *w = (struct walk){.base = (char *)base, .stride = stride, .nodes = bytes / stride};
  w->spacing = w->nodes / WALK_MILESTONES + 1;
  w->head = w->cursor.at = toll_chase(r, base, (size_t)w->nodes * stride, stride, order);
  w->known = order == TOLL_ORDER_RANDOM && toll_chase_is_large(w->nodes);
  w->local = order == TOLL_ORDER_PAGE_LOCAL;
  w->computed = w->known && whole > toll_last_cache_bytes();
  w->looked_up = WALK_LOOKED_UP * (uint64_t)bytes / whole + 1;
  if (!w->known) return TOLL_OK;
  w->shuffle = toll_chase_shuffle(r, w->nodes, stride);
  const uint64_t ended = (uint64_t)toll_last_cache_bytes() / toll_line_bytes() * bytes / whole;
  walk_leave_the_end(w, ended < w->nodes ? ended : w->nodes);
  return TOLL_OK;
}

static inline enum toll_status walk_lay(struct toll_run *r, struct walk *w, void *base, size_t bytes, size_t stride,
                                        enum toll_order order) {
  return walk_lay_part(r, w, base, bytes, stride, order, bytes);
}

static inline bool walk_on_a_node(const struct walk *w, void **at) {
  size_t offset = (size_t)((char *)at - w->base);
  return offset < w->nodes * w->stride && offset % w->stride == 0;
}

/* Whether each milestone leads to the next one, and none beyond the head. */
static inline bool walk_stretch(const struct walk *w, uint64_t first) {
  void **at[WALK_BESIDE];
  for (unsigned i = 0; i < WALK_BESIDE; i++) at[i] = w->milestone[first + i];
  for (uint64_t step = 0; step < w->spacing; step++)
    for (unsigned i = 0; i < WALK_BESIDE; i++) {
      if (!walk_on_a_node(w, at[i]) || (at[i] == w->head && first + i + step)) return false;
      at[i] = (void **)*at[i];
    }
  for (unsigned i = 0; i < WALK_BESIDE; i++)
    if (at[i] != walk_place(w, (first + i + 1) * w->spacing)) return false;
  return true;
}

/* The number of steps of the lap that were walked at several places at once and found correct. */
static inline uint64_t walk_stretches(struct walk *w) {
  const uint64_t stretch = WALK_BESIDE * w->spacing;
  uint64_t done = 0;
  for (uint64_t i = 0; i * w->spacing < w->nodes; i++) w->milestone[i] = walk_place(w, i * w->spacing);
  while (done + stretch <= w->nodes && walk_stretch(w, done / w->spacing)) done += stretch;
  return done;
}

/* Reads the lines in page-local order before the lap reaches them: a lap through 128 MiB takes 30 ms in place of
 * 290. */
static inline void walk_fetch(const struct walk *w, void **at, size_t *patch) {
  const size_t next = toll_chase_patch(w->stride, (size_t)((char *)at - w->base) / w->stride);
  if (next != *patch) toll_chase_fetch(w->base, (size_t)w->nodes * w->stride, w->stride, next);
  *patch = next;
}

/* A single walk continues where the parallel ones ended, or where they met an error, which it reports. */
static inline enum toll_status walk_lap(struct toll_run *r, struct walk *w) {
  const uint64_t done = w->known ? walk_stretches(w) : 0;
  void **at = done ? walk_place(w, done) : w->head;
  size_t patch = SIZE_MAX;
  for (uint64_t step = done; step < w->nodes; step++) {
    if (step && at == w->head)
      return toll_wrong(r, "the walk is back after %llu of %llu lines", (unsigned long long)step,
                        (unsigned long long)w->nodes);
    if (!walk_on_a_node(w, at)) return toll_wrong(r, "the walk left its lines");
    if (step % w->spacing == 0) w->milestone[step / w->spacing] = at;
    if (w->local) walk_fetch(w, at, &patch);
    at = (void **)*at;
  }
  if (at != w->head) return toll_wrong(r, "the walk does not close after %llu lines", (unsigned long long)w->nodes);
  w->proved = true;
  return TOLL_OK;
}

static inline enum toll_status walk_look_up(struct toll_run *r, struct walk *w) {
  for (uint64_t i = 0; i < w->looked_up; i++) {
    uint64_t place = w->nodes / w->looked_up * i;
    if (*walk_place(w, place) != (void *)walk_place(w, place + 1))
      return toll_wrong(r, "step %llu of the walk leads elsewhere", (unsigned long long)place);
  }
  w->proved = true;
  return TOLL_OK;
}

/* The node at which the walk must be after the steps that were made. */
static inline void **walk_expected(const struct walk *w) {
  if (w->computed) return walk_place(w, w->cursor.steps);
  uint64_t place = w->cursor.steps % w->nodes;
  void **at = w->milestone[place / w->spacing];
  for (uint64_t left = place % w->spacing; left; left--) at = (void **)*at;
  return at;
}

/* Checks the order of the cycle on the first call, later the position of the walk. */
static inline enum toll_status walk_check_place(struct toll_run *r, struct walk *w) {
  if (!w->proved) return w->computed ? walk_look_up(r, w) : walk_lap(r, w);
  if (w->cursor.at != walk_expected(w))
    return toll_wrong(r, "the walk does not stand where %llu steps lead", (unsigned long long)w->cursor.steps);
  return TOLL_OK;
}

/* The lap comes last: it leaves the caches in the state that the samples need. */
static inline enum toll_status walk_check(struct toll_run *r, struct walk *w, void (*body)(struct toll_run *r)) {
  const struct toll_cursors one = {.first = &w->cursor, .count = 1, .loads = 1};
  return toll_check_loads(r, body, one) == TOLL_OK ? walk_check_place(r, w) : toll_refused(r);
}

static inline void walk_on(struct toll_cursor *cursor, uint64_t loads) {
  cursor->at = walk_follow(cursor->at, loads);
  cursor->steps += loads;
}

#endif
