/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a line is, by what a second access costs at some distance from a first that missed: next to nothing in the
 * same line, a miss of its own in the next. Each load waits for the one before, or the two misses would overlap and the
 * second look free at any distance. The control loads the first of each pair alone, through a pointer of its own in
 * the same line, so that the difference is the second access and nothing else.
 *
 * Pairs begin 1 KiB apart, in random order over 256 KiB: 256 lines in a sixteenth of the first cache's sets, far more
 * than its ways, so that every first access misses there, and few enough to hit in the second cache, whose time is
 * steady. A footprint beyond all caches would widen the contrast and drown it in the noise of a shared memory: a second
 * access seen there varied from -8 to 64 ns within a line. A neighbouring line that some cores fetch along with the
 * missing one comes into the second cache and not the first, so it is not mistaken for the same line.
 */
#include "toll.h"

#define BLOCK  ((size_t)1024)
#define BLOCKS ((size_t)256)

struct pairs {
  char *base;
  void **at, **head;          /* of the pairs */
  void **alone, **alone_head; /* of the first accesses alone */
  uint64_t done;
  bool proved;
};

/* The order comes as one cycle over the blocks; it is bent so that each block's first word leads to the word `distance`
 * further, and that one to the next block. The second word of a block carries the order of the control. */
static void bend(struct pairs *p, void **head, size_t distance) {
  void **block = head;
  do {
    void **next = *block, **second = (void **)(void *)((char *)block + distance);
    block[1] = next + 1;
    *block = second;
    *second = next;
    block = next;
  } while (block != head);
  p->at = p->head = head;
  p->alone = p->alone_head = head + 1;
}

static enum toll_status prepare(struct toll_run *r) {
  struct pairs *p = r->state;
  size_t distance = (size_t)toll_number(r, "distance");
  if (distance < 2 * sizeof(void *) || distance > BLOCK - sizeof(void *) || distance % sizeof(void *))
    return toll_fail(r, "a distance is a multiple of %zu from %zu to %zu bytes", sizeof(void *), 2 * sizeof(void *),
                     BLOCK - sizeof(void *));
  p->base = toll_buffer(r, (struct toll_buffer_request){.bytes = BLOCKS * BLOCK, .pages = TOLL_PAGES_LARGE});
  if (!p->base) return toll_refused(r);
  bend(p, toll_chase(r, p->base, BLOCKS * BLOCK, BLOCK, TOLL_ORDER_RANDOM), distance);
  return TOLL_OK;
}

static inline void **pairs_on(void **at, uint64_t count) {
  for (; count; count--) {
    at = *at;
    at = *at;
  }
  return at;
}

static void load_pairs(struct toll_run *r) {
  struct pairs *p = r->state;
  p->at = pairs_on(p->at, r->iterations);
  p->done += r->iterations;
}

static void load_first(struct toll_run *r) {
  struct pairs *p = r->state;
  void **at = p->alone;
  for (uint64_t left = r->iterations; left; left--) at = *at;
  p->alone = at;
}

/* One lap must pass each block once, the pairs and the control alike. */
static enum toll_status lap(struct toll_run *r) {
  struct pairs *p = r->state;
  void **at = p->head, **alone = p->alone_head;
  for (size_t block = 0; block < BLOCKS; block++) {
    if (alone != at + 1) return toll_wrong(r, "the control leaves the pairs after %zu blocks", block);
    if (block && at == p->head) return toll_wrong(r, "the pairs are back after %zu blocks", block);
    at = pairs_on(at, 1);
    alone = *alone;
  }
  if (at != p->head) return toll_wrong(r, "the pairs do not close after %zu blocks", BLOCKS);
  p->proved = true;
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  struct pairs *p = r->state;
  if (!p->proved) return lap(r);
  if (p->at != pairs_on(p->head, p->done % BLOCKS)) return toll_wrong(r, "the pairs do not stand where they should");
  return TOLL_OK;
}

const struct toll_probe toll_probe = {
    .question = "How far from a missing access is a second one free: how long is a line?",
    .metrics =
        (struct toll_metric[]){{"second_access", "ns", TOLL_LESS, "an access that many bytes from one that missed",
                                TOLL_DIFFERENCE, "line-pair-of-distance", NULL},
                               {"first_access", "ns", TOLL_LESS, "the access that missed", TOLL_CONTROL, NULL, NULL},
                               {0}},
    .parameters = (struct toll_parameter[]){{.name = "distance",
                                             .kind = TOLL_SIZE,
                                             .summary = "bytes from the first access to the second",
                                             .values = (const uint64_t[]){16, 24, 32, 48, 56, 64, 72, 96, 120, 128, 136,
                                                                          192, 256, 384, 512, TOLL_END},
                                             .typical = "64"},
                                            {0}},
    .state_bytes = sizeof(struct pairs),
    .prepare = prepare,
    .body = load_pairs,
    .control = load_first,
    .check = check,
    .revision = 1,
};
