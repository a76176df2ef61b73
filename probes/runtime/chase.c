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

/* Follows the group's cycle from its first cell to the last before it closes. */
static void **last_of_cycle(void **head) {
  void **last = head;
  while (*last != (void *)head) last = (void **)*last;
  return last;
}

/* A cycle inside each group of cells, opened and joined to the next group's in random order. */
static bool join_groups(struct lane lane, size_t count, size_t group, uint64_t *random) {
  size_t groups = (count + group - 1) / group;
  uint32_t *order = malloc(groups * sizeof *order);
  if (!order) return false;
  shuffle(order, groups, random);
  for (size_t g = 0; g < groups; g++) {
    size_t first = g * group;
    sattolo(lane, first, count - first < group ? count - first : group, random);
  }
  void ***tails = malloc(groups * sizeof *tails);
  if (tails)
    for (size_t g = 0; g < groups; g++) tails[g] = last_of_cycle(cell(lane, g * group));
  for (size_t g = 0; tails && g < groups; g++) *tails[order[g]] = cell(lane, order[(g + 1) % groups] * group);
  bool joined = tails != NULL;
  free(tails);
  free(order);
  return joined;
}

static void in_order(struct lane lane, size_t count, bool forward) {
  for (size_t i = 0; i < count; i++) *cell(lane, i) = cell(lane, (i + (forward ? 1 : count - 1)) % count);
}

void **toll_chase(struct toll_run *r, void *buffer, size_t bytes, size_t stride, enum toll_order order) {
  struct lane lane = {buffer, stride};
  size_t count = bytes / stride, group = toll_page_bytes() / stride;
  uint64_t random = r->seed ^ (uint64_t)(uintptr_t)stride;
  if (order == TOLL_ORDER_FORWARD || order == TOLL_ORDER_BACKWARD)
    in_order(lane, count, order == TOLL_ORDER_FORWARD);
  else if (order == TOLL_ORDER_RANDOM || group < 2 || !join_groups(lane, count, group, &random))
    sattolo(lane, 0, count, &random);
  return cell(lane, 0);
}
