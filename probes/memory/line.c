/* SPDX-License-Identifier: Apache-2.0
 *
 * The line size, by the cost of a second access at some distance from a first one that missed: almost nothing in the
 * same line, another miss in the next.
 *
 * Pairs begin 1 KiB apart, in random order over 256 KiB: 256 lines in a sixteenth of the first cache's sets, far more
 * than its ways, so that every first access misses there, and few enough to hit in the second cache, whose time is
 * steady. A footprint beyond all caches would widen the contrast and drown it in the noise of a shared memory: a second
 * access seen there varied from -8 to 64 ns within a line. A neighbouring line that some cores fetch along with the
 * missing one comes into the second cache and not the first, so it is not mistaken for the same line.
 */
#include "large.h"
#include "pairs.h"

#define BLOCK  ((size_t)1024)
#define BLOCKS ((size_t)256)

static size_t offset(const struct pairs *p, size_t pair) {
  (void)p;
  return pair * BLOCK;
}

static enum toll_status prepare(struct toll_run *r) {
  size_t distance, pointer = sizeof(void *);
  if (asked(r, "distance", &distance) != TOLL_OK) return toll_refused(r);
  if (distance < 2 * pointer || distance > BLOCK - pointer || distance % pointer)
    return toll_fail(r, "a distance is a multiple of %zu from %zu to %zu bytes", pointer, 2 * pointer, BLOCK - pointer);
  struct pairs *p = r->state;
  *p = (struct pairs){
      .memory = large_buffer(r, BLOCKS * BLOCK, 0), .count = BLOCKS, .distance = distance, .offset = offset};
  return p->memory ? pairs_lay(r, p) : toll_refused(r);
}

static const uint64_t distances[] = {16, 24, 32, 48, 56, 64, 72, 96, 120, 128, 136, 192, 256, 384, 512, TOLL_END};
static const struct toll_parameter parameters[] = {{.name = "distance",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes from the first access to the second",
                                                    .values = distances,
                                                    .typical = "64"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "second_access",
                                              .unit = "ns",
                                              .summary = "an access at the given distance from one that missed",
                                              .source = TOLL_DIFFERENCE,
                                              .means = "line-pair-of-distance"},
                                             {.name = "first_access",
                                              .unit = "ns",
                                              .summary = "the access that missed, and eight dependent additions",
                                              .source = TOLL_CONTROL},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How far from a missing access is a second one free: how long is a line?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct pairs),
    .prepare = prepare,
    .body = pairs_body,
    .control = pairs_control,
    .check = pairs_check,
    .revision = 2,
};
