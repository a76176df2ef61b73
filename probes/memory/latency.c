/* SPDX-License-Identifier: Apache-2.0
 *
 * The latency of one load, over the size of what is loaded from: a walk along one random cycle through all lines of the
 * buffer. Random, since prefetchers follow any constant stride, forward or backward, and would be timed instead; one
 * node a line, since a second load from a line would be a hit; one cycle over all of them, since several shorter ones
 * would each stay in a nearer cache (Sattolo 1986).
 *
 * Beyond the reach of the translation buffers a load pays for its translation too. Three page modes tell the two apart:
 * small pages pay, huge pages pay little, and on small pages in page-local order, which stays within 32 pages for 512
 * loads, a page's translation is paid once for 16 of its lines.
 *
 * The size is what was asked for, in whole lines: caches of 1.25 MiB exist, and a size that is rounded to a power of
 * two never finds them. A run begins with one size in each doubling and adds sizes near the knees; a sixteenth of a
 * doubling is one way of a cache of 16 to 31 ways, and half a way of one of 8 to 15.
 */
#include "walk.h"

enum { SMALL, HUGE_PAGES, LOCAL };

static enum toll_status prepare(struct toll_run *r) {
  unsigned pages = toll_choice(r, "pages");
  size_t bytes;
  if (asked(r, "size", &bytes) != TOLL_OK) return toll_refused(r);
  const enum toll_pages of = pages == HUGE_PAGES ? TOLL_PAGES_HUGE : TOLL_PAGES_SMALL;
  void *buffer = toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .pages = of, .drawn = true});
  if (!buffer) return toll_refused(r);
  return walk_lay(r, r->state, buffer, bytes, toll_line_bytes(),
                  pages == LOCAL ? TOLL_ORDER_PAGE_LOCAL : TOLL_ORDER_RANDOM);
}

static void load(struct toll_run *r) {
  walk_on(&((struct walk *)r->state)->cursor, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  return walk_check(r, r->state, load);
}

static const char *const page_kinds[] = {"small", "huge", "local", NULL};
static const struct toll_parameter parameters[] = {{.name = "size",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes that the walk goes through",
                                                    .from = 1024,
                                                    .to = 4,
                                                    .to_scale = TOLL_TIMES_LAST_CACHE,
                                                    .per_octave = 16,
                                                    .typical = "16384",
                                                    .refine = true},
                                                   {.name = "pages",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "small pages, huge pages, or small ones a few at a time",
                                                    .choices = page_kinds,
                                                    .typical = "small"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "load",
                                              .unit = "ns",
                                              .summary = "one load whose address is the result of the load before",
                                              .means = "latency-of-size"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How long does a load take, by the size of the memory that it may hit?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct walk),
    .prepare = prepare,
    .body = load,
    .check = check,
    .quantum = WALK_TURN,
    .revision = 3,
};
