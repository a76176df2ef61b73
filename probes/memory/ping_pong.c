/* SPDX-License-Identifier: Apache-2.0
 *
 * The round trip of a line between two CPUs: one writes a number, the other sees it and answers with the next. With a
 * flag each side only reads until the other has written, and the line travels twice; with compare-and-swap each side
 * keeps asking for the line to write it, as locks do, and both pull at it.
 *
 * Where a line is homed matters as much as where the CPUs are: the line is one of a fresh page, chosen by the visit's
 * seed, so that several visits show several homes, and two modes come out as two modes. Spinning does without the hint
 * that it spins: on some cores the hint sleeps longer than the round trip takes.
 */
#include <stdatomic.h>

#include "toll.h"

#define LINE_PAIR 128 /* two lines: some cores fetch lines in pairs */

struct exchange {
  _Atomic uint32_t *line;
  bool swaps;
  char padding[LINE_PAIR];
  struct side {
    uint32_t said; /* the number that was last passed on, by this side's account */
    char padding[LINE_PAIR - sizeof(uint32_t)];
  } sides[2];
};

static enum toll_status prepare(struct toll_run *r) {
  struct exchange *e = r->state;
  uint64_t seed = r->seed;
  size_t line = toll_line_bytes(), page = toll_page_bytes();
  char *fresh = toll_buffer(r, (struct toll_buffer_request){.bytes = page, .pages = TOLL_PAGES_SMALL, .shared = true});
  if (!fresh) return toll_refused(r);
  e->line = (_Atomic uint32_t *)(void *)(fresh + toll_random_below(&seed, page / line) * line);
  e->swaps = toll_choice(r, "method") != 0;
  return TOLL_OK;
}

static inline void await_then_store(_Atomic uint32_t *line, uint32_t awaited) {
  while (atomic_load_explicit(line, memory_order_acquire) != awaited) continue;
  atomic_store_explicit(line, awaited + 1, memory_order_release);
}

static inline void swap(_Atomic uint32_t *line, uint32_t awaited) {
  for (uint32_t seen = awaited; !atomic_compare_exchange_strong(line, &seen, awaited + 1); seen = awaited) continue;
}

/* Passes every second number on, beginning with the one that this side awaits. */
static void pass_on(struct toll_run *r, unsigned side) {
  struct exchange *e = r->state;
  uint32_t awaited = e->sides[side].said;
  if (e->swaps)
    for (uint64_t left = r->iterations; left; left--, awaited += 2) swap(e->line, awaited + side);
  else
    for (uint64_t left = r->iterations; left; left--, awaited += 2) await_then_store(e->line, awaited + side);
  e->sides[side].said = awaited;
}

static void serve(struct toll_run *r) {
  pass_on(r, 0);
}
static void answer(struct toll_run *r) {
  pass_on(r, 1);
}

/* Every number was passed on once, by the side whose turn it was. */
static enum toll_status check(struct toll_run *r) {
  const struct exchange *e = r->state;
  uint32_t stands = atomic_load(e->line);
  if (stands != e->sides[0].said || stands != e->sides[1].said)
    return toll_wrong(r, "the line stands at %u, and the sides count %u and %u", stands, e->sides[0].said,
                      e->sides[1].said);
  return TOLL_OK;
}

static const struct toll_role roles[] = {
    {.name = "partner", .body = answer, .worker = TOLL_THREAD, .pace = TOLL_LOCKSTEP}, {0}};
static const char *const methods[] = {"flag", "compare_and_swap", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "method", .kind = TOLL_CHOICE, .summary = "how a number is handed over", .choices = methods}, {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "a number handed to the other CPU and its answer",
                                              .means = "core-to-core",
                                              .toll = "line to another CPU and back, by {method}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How long does a line take to another CPU and back?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct exchange),
    .prepare = prepare,
    .body = serve,
    .check = check,
    .roles = roles,
    .revision = 1,
};
