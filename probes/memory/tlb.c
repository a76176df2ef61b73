/* SPDX-License-Identifier: Apache-2.0
 *
 * What translation adds to a load, by how many pages the loads go to: one line in each of many pages, less as many
 * lines packed into few. Both walks meet their lines in the same random order, so the caches see the same number of
 * lines and the difference is the translation alone.
 *
 * The line's place differs from page to page. Were it the same, all lines would fall into the few sets that share its
 * low address bits, and their conflicts would be taken for the translation buffer's knee.
 */
#include "walk.h"

/* Filling more would take longer than measuring, and would use memory that other programs need. */
#define MOST_BYTES (1u << 30)

struct translation {
  struct walk packed;
  char *pages;
  size_t page, line;
  struct toll_cursor paged;
  bool proved;
};

/* Line i of the walk over pages. On huge pages the step also passes over a base page each time, so that the lines spread
 * over the sets of physically indexed caches as packed ones do. On small ones the place moves by one more line after
 * each page full of lines: where frames follow each other, a page's number and its line's place would otherwise rise
 * in step for ever, and all lines fall into one in so many sets. */
static void **place(const struct translation *t, size_t i) {
  size_t base = toll_page_bytes(), step = t->page > base ? base + t->line : t->line;
  size_t offset = i * step + i / (base / t->line) * t->line;
  return (void **)(void *)(t->pages + i * t->page + offset % t->page / t->line * t->line);
}

static size_t number_of(const struct translation *t, void **packed) {
  return (size_t)((char *)packed - t->packed.base) / t->line;
}

static void mirror(struct translation *t) {
  void **packed = t->packed.head;
  do {
    void **next = (void **)*packed;
    *place(t, number_of(t, packed)) = place(t, number_of(t, next));
    packed = next;
  } while (packed != t->packed.head);
  t->paged.at = place(t, number_of(t, t->packed.head));
}

static enum toll_status prepare(struct toll_run *r) {
  struct translation *t = r->state;
  uint64_t count = toll_number(r, "count");
  bool huge = toll_choice(r, "pages") != 0;
  enum toll_pages pages = huge ? TOLL_PAGES_HUGE : TOLL_PAGES_SMALL;
  t->page = huge ? toll_huge_page_bytes() : toll_page_bytes();
  t->line = toll_line_bytes();
  if (count > MOST_BYTES / t->page)
    return toll_skip(r, "so many pages are %llu MiB, and no more than %u MiB are filled for one line in each",
                     (unsigned long long)(count * t->page >> 20), MOST_BYTES >> 20);
  t->pages = toll_buffer(r, (struct toll_buffer_request){.bytes = (size_t)count * t->page, .pages = pages});
  if (!t->pages) return toll_refused(r);
  void *packed = toll_buffer(r, (struct toll_buffer_request){.bytes = (size_t)count * t->line, .pages = pages});
  if (!packed) return toll_refused(r);
  if (walk_lay(r, &t->packed, packed, (size_t)count * t->line, t->line, TOLL_ORDER_RANDOM) != TOLL_OK)
    return toll_refused(r);
  mirror(t);
  return TOLL_OK;
}

static void load_pages(struct toll_run *r) {
  walk_on(&((struct translation *)r->state)->paged, r->iterations);
}

static void load_packed(struct toll_run *r) {
  walk_on(&((struct translation *)r->state)->packed.cursor, r->iterations);
}

/* Checks that both walks are at the same line of the same order, in its page and among the packed lines. */
static enum toll_status check(struct toll_run *r) {
  struct translation *t = r->state;
  const struct toll_cursors paged_loads = {.first = &t->paged, .count = 1, .loads = 1};
  if (toll_check_loads(r, load_pages, paged_loads) != TOLL_OK) return toll_refused(r);
  if (walk_check(r, &t->packed, load_packed) != TOLL_OK) return toll_refused(r);
  void **packed = t->packed.head, **paged = place(t, number_of(t, packed));
  uint64_t steps = t->proved ? t->paged.steps % t->packed.nodes : t->packed.nodes;
  for (; steps; steps--) {
    packed = (void **)*packed;
    paged = (void **)*paged;
    if (paged != place(t, number_of(t, packed)))
      return toll_wrong(r, "the walk over pages leaves the order of its lines");
  }
  if (t->proved && paged != t->paged.at)
    return toll_wrong(r, "the walk over pages does not stand where its steps lead");
  t->proved = true;
  return TOLL_OK;
}

static const char *const page_kinds[] = {"small", "huge", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "count",
     .kind = TOLL_COUNT,
     .summary = "pages, and lines",
     .from = 8,
     .to = 16384,
     .per_octave = 2,
     .typical = "1024",
     .refine = true},
    {.name = "pages", .kind = TOLL_CHOICE, .summary = "small or huge pages", .choices = page_kinds},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "translation",
     .unit = "ns",
     .summary = "cost of a load in another page over that of one in few pages",
     .source = TOLL_DIFFERENCE,
     .means = "translation-of-pages"},
    {.name = "load", .unit = "ns", .summary = "one load, each in another page"},
    {.name = "packed", .unit = "ns", .summary = "one load, all lines in few pages", .source = TOLL_CONTROL},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How many pages do the translation buffers reach, and what does a translation beyond them cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct translation),
    .prepare = prepare,
    .body = load_pages,
    .control = load_packed,
    .check = check,
    .quantum = WALK_TURN,
    .revision = 1,
};
