/* SPDX-License-Identifier: Apache-2.0
 *
 * Chases: cycles of pointers whose every load waits for the one before. The permutation is made in place, in the very
 * words that the chase will follow, so that building one needs no memory of its own.
 */
#include <stdlib.h>

#include "internal.h"

struct lane {
  char *start;
  size_t stride;
};

static void **cell(struct lane lane, size_t index) {
  return (void **)(void *)(lane.start + index * lane.stride);
}

/* One cycle through cells first .. first+count-1 (Sattolo: An algorithm to generate a random cyclic permutation, 1986).
 * Every cell first points at itself; each swap joins one more cell to the single cycle. */
static void sattolo(struct lane lane, size_t first, size_t count, uint64_t *random) {
  for (size_t i = 0; i < count; i++) *cell(lane, first + i) = cell(lane, first + i);
  for (size_t i = count; i-- > 1;) {
    void **here = cell(lane, first + i), **there = cell(lane, first + toll_random_below(random, i));
    void *target = *here;
    *here = *there;
    *there = target;
  }
}

static void shuffle(uint32_t *order, size_t count, uint64_t *random) {
  for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  for (size_t i = count; i-- > 1;) {
    size_t j = (size_t)toll_random_below(random, i + 1);
    uint32_t value = order[i];
    order[i] = order[j];
    order[j] = value;
  }
}

/* Follows a patch's cycle from its first cell to the last before it closes. */
static void **last_of_cycle(void **head) {
  void **last = head;
  while (*last != (void *)head) last = (void **)*last;
  return last;
}

/* Page-local order: a cycle through every fourth cell of a few neighbouring pages, opened and joined to that of the next
 * such pages, until all pages were met; then the next quarter of the cells, with the pages in another order.
 *
 * Few pages, so that their translations stay in any buffer; 32 are what the smallest first ones of today hold. But never
 * all lines of a page in a row: within a page a prefetcher foresees them, and a load from memory then took 69 ns where
 * it takes 156. And only every fourth, since the neighbours of a line are fetched with it and would be met while they
 * are still near. Seen on Zen 4 over 64 MiB, where random order through huge pages takes 150 to 156 ns: a page at a time
 * 60 to 80 ns; eight pages 133, thirty-two 117; thirty-two and every second line 155, every fourth 154 to 158. */
enum { PAGES_TOGETHER = 32, CELLS_APART = 4 };

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Where the walk has come to, of which the next patch follows. */
struct joint {
  void **head, **tail;
};

static void join(struct joint *walk, struct lane patch, size_t cells, uint64_t *random) {
  sattolo(patch, 0, cells, random);
  void **head = cell(patch, 0), **tail = last_of_cycle(head);
  if (walk->tail) *walk->tail = head;
  if (!walk->head) walk->head = head;
  walk->tail = tail;
}

static bool join_patches(struct lane lane, size_t count, size_t group, uint64_t *random) {
  size_t groups = (count + group - 1) / group;
  uint32_t *order = malloc(groups * sizeof *order);
  if (!order) return false;
  struct joint walk = {NULL, NULL};
  for (size_t pass = 0; pass < CELLS_APART; pass++) {
    shuffle(order, groups, random);
    for (size_t g = 0; g < groups; g++) {
      size_t first = order[g] * group + pass, end = least((order[g] + 1) * group, count);
      struct lane patch = {lane.start + first * lane.stride, lane.stride * CELLS_APART};
      if (first < end) join(&walk, patch, (end - first + CELLS_APART - 1) / CELLS_APART, random);
    }
  }
  *walk.tail = walk.head;
  free(order);
  return true;
}

static void in_order(struct lane lane, size_t count, bool forward) {
  for (size_t i = 0; i < count; i++) *cell(lane, i) = cell(lane, (i + (forward ? 1 : count - 1)) % count);
}

void **toll_chase(struct toll_run *r, void *buffer, size_t bytes, size_t stride, enum toll_order order) {
  struct lane lane = {buffer, stride};
  size_t count = bytes / stride, in_page = toll_page_bytes() / stride;
  uint64_t random = r->seed ^ (uint64_t)(uintptr_t)stride;
  if (order == TOLL_ORDER_FORWARD || order == TOLL_ORDER_BACKWARD)
    in_order(lane, count, order == TOLL_ORDER_FORWARD);
  else if (order == TOLL_ORDER_RANDOM || in_page < 2 || !join_patches(lane, count, PAGES_TOGETHER * in_page, &random))
    sattolo(lane, 0, count, &random);
  return cell(lane, 0);
}
