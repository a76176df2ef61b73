/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of code pages that the instruction TLBs hold: one jump in each small page, in random order, less as many
 * jumps in random order with one in each line, which are in few pages. Both execute as many jumps and lines, so that
 * branch predictor and caches are used equally, and the difference is translation.
 *
 * Jumps a page apart have as many different low address bits as jumps a line apart (code.h); otherwise they would share
 * a few sets of the branch predictor and of the first cache.
 */
#include "code.h"

struct chains {
  struct code_chain paged, packed;
};

static enum toll_status prepare(struct toll_run *r) {
  struct chains *c = r->state;
  const uint64_t pages = toll_number(r, "pages");
  if (code_write_chain(r, &c->paged, pages, toll_page_bytes(), true, false) != TOLL_OK) return toll_refused(r);
  return code_write_chain(r, &c->packed, pages, toll_line_bytes(), true, false);
}

static void jump_pages(struct toll_run *r) {
  code_run(&((struct chains *)r->state)->paged.run, r->iterations, NULL);
}

static void jump_lines(struct toll_run *r) {
  code_run(&((struct chains *)r->state)->packed.run, r->iterations, NULL);
}

static enum toll_status check(struct toll_run *r) {
  const struct chains *c = r->state;
  return code_check_chain(r, &c->paged) == TOLL_OK ? code_check_chain(r, &c->packed) : toll_refused(r);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = (double)((const struct chains *)r->state)->paged.run.blocks;
}

static const struct toll_parameter parameters[] = {{.name = "pages",
                                                    .kind = TOLL_COUNT,
                                                    .summary = "pages of code, and jumps",
                                                    .from = 16,
                                                    .to = 4096,
                                                    .per_octave = 16,
                                                    .typical = "256",
                                                    .refine = true},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "cycles", .unit = "cycle", .summary = "one jump to another page"},
    {.name = "jump", .unit = "ns", .summary = "one jump to another page"},
    {.name = "packed", .unit = "cycle", .summary = "one jump, all of them in few pages", .source = TOLL_CONTROL},
    {.name = "translation",
     .unit = "cycle",
     .summary = "cost of a jump to another page over that of a jump in few pages",
     .means = "translation-of-code",
     .source = TOLL_DIFFERENCE},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How many pages of code do the translation buffers hold, and what does a jump beyond them cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct chains),
    .prepare = prepare,
    .body = jump_pages,
    .control = jump_lines,
    .check = check,
    .work = work,
    .alike = true,
    .revision = 2,
};
