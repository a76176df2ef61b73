/* SPDX-License-Identifier: Apache-2.0
 *
 * The round trip of a line between two CPUs: one writes a number, the other sees it and answers with the next. With a
 * flag each side only reads until the other has written, and the line travels twice; with compare-and-swap each side
 * keeps asking for the line to write it, as locks do, and both pull at it.
 *
 * Where a line is homed matters as much as where the CPUs are: a hash of its address chooses the slice of the shared
 * cache, or the directory, that orders its transfers. On one Zen 5 guest a round trip took 75 ns on a third of all lines
 * and 105 to 130 ns on the others. So the round trips go through 128 lines of fresh pages, in an order that the seed draws,
 * and the time is the mean over their homes. Neighbours of these lines are not used, since some cores fetch lines in pairs.
 * All of them fit into the first cache of each side, evenly over its sets.
 *
 * Spinning does without the hint that it spins: on some cores the hint sleeps longer than the round trip takes.
 */
#include <stdatomic.h>

#include "toll.h"

#define LINES         128
#define TRIPS_ON_LINE 8 /* the last of them waits for its answer before the next line: with 4 it took 3 % longer */
#define TRIPS_ON_ALL  (LINES * TRIPS_ON_LINE)
#define IN_A_ROW      32  /* the first lines of so many pairs, then the second ones of as many: all sets of a cache */
#define LINE_PAIR     128 /* two lines: some cores fetch lines in pairs */

struct exchange {
  bool swaps;
  char padding[LINE_PAIR];
  struct side {
    uint64_t trips; /* hand-overs so far, as this side counts them */
    char padding[LINE_PAIR - sizeof(uint64_t)];
  } sides[2];
  _Atomic uint32_t *lines[LINES];
};

static void draw_lines(struct exchange *e, char *fresh, size_t line, uint64_t seed) {
  for (size_t i = 0; i < LINES; i++) {
    const size_t drawn = toll_random_below(&seed, i + 1), place = 2 * i + i / IN_A_ROW % 2;
    e->lines[i] = e->lines[drawn];
    e->lines[drawn] = (_Atomic uint32_t *)(void *)(fresh + place * line);
  }
}

static enum toll_status prepare(struct toll_run *r) {
  struct exchange *e = r->state;
  const size_t line = toll_line_bytes(), bytes = 2 * LINES * line;
  char *fresh = toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .pages = TOLL_PAGES_SMALL, .shared = true});
  if (!fresh) return toll_refused(r);
  draw_lines(e, fresh, line, r->seed);
  e->swaps = toll_choice(r, "method") != 0;
  return TOLL_OK;
}

static inline void await(_Atomic uint32_t *line, uint32_t awaited) {
  while (atomic_load_explicit(line, memory_order_acquire) != awaited) continue;
}

static inline void swap(_Atomic uint32_t *line, uint32_t awaited, uint32_t next) {
  for (uint32_t seen = awaited; !atomic_compare_exchange_strong(line, &seen, next); seen = awaited) continue;
}

/* The number in a line before this round trip: two for each earlier round trip of the line. */
static inline uint32_t number_before(uint64_t trip) {
  return (uint32_t)(2 * (trip / TRIPS_ON_ALL * TRIPS_ON_LINE + trip % TRIPS_ON_LINE));
}

/* Answers every second number of a line, beginning with the one that this side awaits. The first side begins on the
 * next line when its last number was answered, so that round trips do not overlap. */
static inline void pass_on(struct toll_run *r, unsigned side, bool swaps) {
  struct exchange *e = r->state;
  const uint64_t end = e->sides[side].trips + r->iterations;
  for (uint64_t trip = e->sides[side].trips; trip < end; trip++) {
    _Atomic uint32_t *line = e->lines[trip / TRIPS_ON_LINE % LINES];
    const uint32_t awaited = number_before(trip) + side;
    const bool leaves = side == 0 && trip % TRIPS_ON_LINE == TRIPS_ON_LINE - 1;
    if (swaps) {
      swap(line, awaited, awaited + 1);
      if (leaves) swap(line, awaited + 2, awaited + 2);
    } else {
      await(line, awaited);
      atomic_store_explicit(line, awaited + 1, memory_order_release);
      if (leaves) await(line, awaited + 2);
    }
  }
  e->sides[side].trips = end;
}

static void serve(struct toll_run *r) {
  const bool swaps = ((struct exchange *)r->state)->swaps;
  if (swaps)
    pass_on(r, 0, true);
  else
    pass_on(r, 0, false);
}

static void answer(struct toll_run *r) {
  const bool swaps = ((struct exchange *)r->state)->swaps;
  if (swaps)
    pass_on(r, 1, true);
  else
    pass_on(r, 1, false);
}

/* Checks that every number was answered once, by the right side: both sides have made as many round trips, and each
 * line contains twice the number of its round trips. */
static enum toll_status check(struct toll_run *r) {
  const struct exchange *e = r->state;
  const uint64_t trips = e->sides[0].trips, others = e->sides[1].trips;
  if (trips != others)
    return toll_wrong(r, "the sides count %llu and %llu round trips", (unsigned long long)trips,
                      (unsigned long long)others);
  for (uint64_t i = 0; i < LINES; i++) {
    const uint64_t begun = trips % TRIPS_ON_ALL, first = i * TRIPS_ON_LINE;
    const uint64_t more = begun < first ? 0 : begun - first < TRIPS_ON_LINE ? begun - first : TRIPS_ON_LINE;
    const uint32_t expected = (uint32_t)(2 * (trips / TRIPS_ON_ALL * TRIPS_ON_LINE + more));
    const uint32_t stands = atomic_load(e->lines[i]);
    if (stands != expected) return toll_wrong(r, "line %u stands at %u in place of %u", (unsigned)i, stands, expected);
  }
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
    .revision = 2,
};
