/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of one load in a walk with a constant stride, forward or backward, and in random order over the same
 * places. What a constant stride gains over the random order is what the prefetchers know: strides up to some length,
 * within a page, in one direction or both. A stride shorter than a line shows how many loads one line serves.
 *
 * Each load waits for the one before, as in all walks here. A walk that goes forward in fixed strides and is taken for
 * the memory's latency was seen to give 15 ns where random order gives 115: only the comparison says anything.
 */
#include "large.h"
#include "walk.h"

static enum toll_status prepare(struct toll_run *r) {
  size_t bytes, stride;
  if (asked(r, "size", &bytes) != TOLL_OK || asked(r, "stride", &stride) != TOLL_OK) return toll_refused(r);
  char *buffer = large_buffer(r, bytes, 0);
  if (!buffer) return toll_refused(r);
  return walk_lay(r, r->state, buffer, bytes, stride, walk_order(r));
}

static void load(struct toll_run *r) {
  walk_on(&((struct walk *)r->state)->cursor, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  return walk_check(r, r->state, load);
}

static void finish(struct toll_run *r) {
  const struct walk *w = r->state;
  toll_report(r, "huge_pages", huge_share(w->base, w->nodes * w->stride));
}

static const uint64_t strides[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, TOLL_END};
static const struct toll_parameter parameters[] = {{.name = "size",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes that the walk goes through",
                                                    .from = 16384,
                                                    .to = 4,
                                                    .to_scale = TOLL_TIMES_LAST_CACHE,
                                                    .per_octave = 1,
                                                    .typical = "16777216"},
                                                   {.name = "stride",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes from one place to the next in memory",
                                                    .values = strides,
                                                    .typical = "64"},
                                                   {.name = "order",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "which place comes next",
                                                    .choices = walk_orders,
                                                    .typical = "forward"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "load",
                                              .unit = "ns",
                                              .summary = "one load of a walk that goes on by the stride",
                                              .means = "latency-of-stride"},
                                             HUGE_SHARE_METRIC,
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "Which strides do the prefetchers follow, and what does a load then cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct walk),
    .prepare = prepare,
    .body = load,
    .check = check,
    .finish = finish,
    .quantum = WALK_TURN,
    .revision = 1,
};
