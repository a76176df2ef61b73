/* SPDX-License-Identifier: Apache-2.0
 *
 * What huge pages would gain a program whose loads go anywhere in so much memory: the same random walk, over the same
 * lines in the same order, on small pages and on huge ones, side by side in every sample, and as many loads of each. The
 * walk of fewer loads comes round more seldom, and neighbours push its lines out of a shared cache meanwhile: with lengths
 * of their own, found at a bad moment, 2 MiB on huge pages took 110 ns a load beside 16 on small ones when they took 3,008
 * loads to 20,000, and 43 beside 106 when it was three to one.
 */
#include "walk.h"

struct twins {
  struct walk small, huge;
};

static enum toll_status lay(struct toll_run *r, struct walk *w, enum toll_pages pages) {
  size_t bytes;
  if (asked(r, "size", &bytes) != TOLL_OK) return toll_refused(r);
  void *buffer = toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .pages = pages});
  return buffer ? walk_lay(r, w, buffer, bytes, toll_line_bytes(), TOLL_ORDER_RANDOM) : toll_refused(r);
}

static enum toll_status prepare(struct toll_run *r) {
  struct twins *twins = r->state;
  if (lay(r, &twins->huge, TOLL_PAGES_HUGE) != TOLL_OK) return toll_refused(r);
  return lay(r, &twins->small, TOLL_PAGES_SMALL);
}

static void load_small(struct toll_run *r) {
  walk_on(&((struct twins *)r->state)->small.cursor, r->iterations);
}

static void load_huge(struct toll_run *r) {
  walk_on(&((struct twins *)r->state)->huge.cursor, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  struct twins *twins = r->state;
  if (walk_check(r, &twins->huge, load_huge) != TOLL_OK) return toll_refused(r);
  return walk_check(r, &twins->small, load_small);
}

static const struct toll_parameter parameters[] = {{.name = "size",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes that the loads go to",
                                                    .from = 65536,
                                                    .to = 4,
                                                    .to_scale = TOLL_TIMES_LAST_CACHE,
                                                    .per_octave = 1,
                                                    .typical = "16777216"},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "gain",
     .unit = "ns",
     .better = TOLL_NEITHER,
     .summary = "time that small pages add to one load",
     .source = TOLL_DIFFERENCE,
     .means = "gain-of-huge-pages"},
    {.name = "small", .unit = "ns", .summary = "one load on small pages"},
    {.name = "huge", .unit = "ns", .summary = "one load on huge pages", .source = TOLL_CONTROL},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What would huge pages gain a program that loads from anywhere in its memory?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct twins),
    .prepare = prepare,
    .body = load_small,
    .control = load_huge,
    .check = check,
    .quantum = WALK_TURN,
    .alike = true,
    .revision = 2,
};
