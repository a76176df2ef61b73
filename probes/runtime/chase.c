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

/* ---- large cycles, laid without reading ---- */

static uint32_t mixed(uint32_t value) {
  value = (value ^ value >> 16) * UINT32_C(0x7feb352d);
  value = (value ^ value >> 15) * UINT32_C(0x846ca68b);
  return value ^ value >> 16;
}

bool toll_chase_is_large(size_t count) {
  enum { LARGE = 1 << 15 };
  return count >= LARGE && count <= UINT32_MAX;
}

struct toll_shuffle toll_chase_shuffle(const struct toll_run *r, size_t count, size_t stride) {
  struct toll_shuffle shuffle = {.count = count, .low = 1};
  uint64_t random = r->seed ^ (uint64_t)(uintptr_t)stride;
  while ((uint64_t)shuffle.low * shuffle.low < count) shuffle.low++;
  shuffle.high = (uint32_t)((count + shuffle.low - 1) / shuffle.low);
  for (unsigned i = 0; i < TOLL_SHUFFLE_ROUNDS; i++) shuffle.key[i] = (uint32_t)toll_random(&random);
  return shuffle;
}

/* value + mixed(by) modulo `below`, which is invertible for any `by`. */
static uint32_t moved(uint32_t value, uint32_t by, uint32_t below) {
  uint32_t sum = value + (uint32_t)((uint64_t)mixed(by) * below >> 32);
  return sum < below ? sum : sum - below;
}

/* A Feistel network: each digit in turn is moved by a hash of the other, which can be undone, so no two places meet. Four
 * rounds make a permutation that nothing tells from a random one (Luby and Rackoff: How to construct pseudorandom
 * permutations, 1988). The digits' bases are near the root of the count, so that one place in some thousand falls past
 * it and goes round again; halves of a binary number sent up to half of them round, and each cost a mispredicted branch. */
size_t toll_shuffle_at(const struct toll_shuffle *s, uint64_t place) {
  uint32_t value = (uint32_t)place;
  do {
    uint32_t low = value % s->low, high = value / s->low;
    for (unsigned i = 0; i < TOLL_SHUFFLE_ROUNDS; i += 2) {
      low = moved(low, high ^ s->key[i], s->low);
      high = moved(high, low ^ s->key[i + 1], s->high);
    }
    value = high * s->low + low;
  } while (value >= s->count);
  return value;
}

/* Stores that wait for nothing, many under way at once: 128 MiB are laid in a tenth of the time that swaps take, each of
 * which waits for the cell that it takes from memory. A pass of reads in order then leaves the lines clean: the samples
 * would pay for the dirty ones. */
static void lay(struct lane lane, const struct toll_shuffle *shuffle) {
  void **head = cell(lane, toll_shuffle_at(shuffle, 0)), **here = head;
  for (uint64_t place = 1; place < shuffle->count; place++) {
    void **next = cell(lane, toll_shuffle_at(shuffle, place));
    *here = next;
    here = next;
  }
  *here = head;
  for (size_t i = 0; i < shuffle->count; i++) TOLL_USE(*cell(lane, i));
}

/* ---- page-local order ---- */

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

/* The position of the walk, at which the next patch begins. */
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

static size_t cells_together(size_t stride) {
  return PAGES_TOGETHER * (toll_page_bytes() / stride);
}

size_t toll_chase_patch(size_t stride, size_t index) {
  const size_t group = cells_together(stride);
  return group ? index / group * CELLS_APART + index % group % CELLS_APART : 0;
}

void toll_chase_fetch(void *buffer, size_t bytes, size_t stride, size_t patch) {
  struct lane lane = {buffer, stride};
  const size_t group = cells_together(stride), first = patch / CELLS_APART * group + patch % CELLS_APART;
  const size_t end = least((patch / CELLS_APART + 1) * group, bytes / stride);
  for (size_t i = first; i < end; i += CELLS_APART) TOLL_USE(*cell(lane, i));
}

static void in_order(struct lane lane, size_t count, bool forward) {
  for (size_t i = 0; i < count; i++) *cell(lane, i) = cell(lane, (i + (forward ? 1 : count - 1)) % count);
}

/* Properties of a walk's first steps: the share that leads to a neighbouring cell, which a prefetcher predicts, and
 * the number of pages that they enter. */
static void look_at_steps(struct toll_visit *visit, void **head, size_t stride) {
  enum { STEPS = 256 };
  uintptr_t pages[STEPS];
  unsigned near = 0, count = 0;
  void **at = head;
  for (unsigned step = 0; step < STEPS; step++) {
    void **next = *at;
    const ptrdiff_t distance = (char *)next - (char *)at;
    near += (size_t)(distance < 0 ? -distance : distance) == stride;
    at = next;
    unsigned known = 0;
    pages[count] = (uintptr_t)at / toll_page_bytes();
    while (pages[known] != pages[count]) known++;
    count += known == count;
  }
  visit->chase_in_order = (double)near / STEPS;
  visit->chase_pages = count;
  visit->chase_stride = stride;
}

static void **thread(struct toll_run *r, void *buffer, size_t bytes, size_t stride, enum toll_order order) {
  struct lane lane = {buffer, stride};
  size_t count = bytes / stride, in_page = toll_page_bytes() / stride;
  uint64_t random = r->seed ^ (uint64_t)(uintptr_t)stride;
  if (order == TOLL_ORDER_FORWARD || order == TOLL_ORDER_BACKWARD)
    in_order(lane, count, order == TOLL_ORDER_FORWARD);
  else if (order == TOLL_ORDER_RANDOM && toll_chase_is_large(count)) {
    struct toll_shuffle shuffle = toll_chase_shuffle(r, count, stride);
    lay(lane, &shuffle);
    return cell(lane, toll_shuffle_at(&shuffle, 0));
  } else if (order == TOLL_ORDER_RANDOM || in_page < 2 || !join_patches(lane, count, cells_together(stride), &random))
    sattolo(lane, 0, count, &random);
  return cell(lane, 0);
}

void **toll_chase(struct toll_run *r, void *buffer, size_t bytes, size_t stride, enum toll_order order) {
  void **head = thread(r, buffer, bytes, stride, order);
  r->visit->chase_bytes += bytes;
  look_at_steps(r->visit, head, stride);
  return head;
}
