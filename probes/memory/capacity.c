/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory the first or the second cache holds at once, counted in pages that fit into it together (pack.h).
 *
 * Latency over size cannot show this if frames are random, as in a guest whose huge pages are small pages of its host:
 * a cache with random replacement and a larger one with LRU have nearly the same curve. Here the policy has no effect,
 * since the pages are chosen so that nothing is replaced. The count can only be too low: pages that fit were refused or
 * not tried, or another program used a part of the cache meanwhile.
 */
#include <stdlib.h>
#include <time.h>

#include "pack.h"
#include "walk.h"

/* TOGETHER cells are walked in one random order before the next ones, so that their translations stay at hand. */
enum { CELL = 4096, TOGETHER = 32, CANDIDATES = 4096, LEAST_LINE = 16, LAPS = 3, FEW = 64, TRIES = 3 };

struct capacity {
  struct pack pack;
  uint32_t cells[CANDIDATES];
  uint16_t order[TOGETHER * (CELL / LEAST_LINE)]; /* a cell of a group and a line in it */
  char *base;
  size_t line;
  unsigned lines;  /* lines of a cell */
  double deadline; /* in seconds of this thread's CPU time */
  void **head;
  struct toll_cursor cursor;
};

static double seconds_of(clockid_t clock) {
  struct timespec now = {0, 0};
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds(void) {
  return seconds_of(CLOCK_MONOTONIC_RAW);
}

/* The search's time is CPU time: it does not pass while the process is stopped or waits for a CPU. */
static double seconds_worked(void) {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

/* The lines of the cells from `next` to `end`, in groups of TOGETHER. */
struct lines {
  unsigned next, end, place;
};

static void **next_line(const struct capacity *c, struct lines *lines) {
  const unsigned places = TOGETHER * c->lines;
  for (;; lines->place++) {
    if (lines->place == places) lines->place = 0, lines->next += TOGETHER;
    const unsigned cell = lines->next + c->order[lines->place] / c->lines;
    if (cell < lines->end) break;
  }
  const unsigned place = c->order[lines->place++];
  return (void **)(void *)(c->base + (size_t)c->cells[lines->next + place / c->lines] * CELL +
                           place % c->lines * c->line);
}

/* Links the first `count` cells into a cycle, with the lines of those from `tested` on evenly between all others: a
 * prefetcher that learns which lines of a page are used within a short time would bring a page whose lines follow each
 * other, and hide that it does not fit (Zen 5: walks through 16 MiB at the latency of an L2 of 1 MiB). */
static void thread(struct capacity *c, unsigned tested, unsigned count) {
  struct lines set = {.end = tested}, fresh = {.next = tested, .end = count};
  const uint64_t all = (uint64_t)count * c->lines, of_fresh = (uint64_t)(count - tested) * c->lines;
  void **last = (void **)&c->head;
  for (uint64_t i = 0; i < all; i++) {
    const bool is_fresh = (i + 1) * of_fresh / all > i * of_fresh / all;
    void **here = next_line(c, is_fresh ? &fresh : &set);
    *last = here;
    last = here;
  }
  *last = c->head;
}

/* Few cells are walked several times in a lap, so that a lap is long compared with the clock's step. A lap is a
 * whole number of the walk's turns: a cell whose lines are long may be half a turn. */
static uint64_t repeats_of(const struct capacity *c, unsigned count) {
  const uint64_t parts = c->lines < WALK_TURN ? WALK_TURN / c->lines : 1;
  return (FEW / count + parts) / parts * parts;
}

/* The first lap loads the lines into the cache. */
static double lap(void *context, const uint32_t *cells, unsigned tested, unsigned count) {
  struct capacity *c = context;
  double least = DBL_MAX;
  (void)cells;
  if (seconds_worked() > c->deadline) return least;
  const uint64_t repeats = repeats_of(c, count), loads = repeats * count * c->lines;
  thread(c, tested, count);
  void **at = c->head;
  for (unsigned i = 0; i <= LAPS; i++) {
    const double began = seconds();
    at = walk_follow(at, loads);
    TOLL_USE(at);
    const double took = (seconds() - began) / (double)repeats;
    if (i && took < least) least = took;
  }
  return least;
}

static void shuffle(struct capacity *c, uint64_t random) {
  for (uint32_t i = 0; i < CANDIDATES; i++) {
    const uint32_t j = (uint32_t)toll_random_below(&random, i + 1);
    c->cells[i] = c->cells[j];
    c->cells[j] = i;
  }
  for (unsigned i = 0; i < TOGETHER * c->lines; i++) {
    const unsigned j = (unsigned)toll_random_below(&random, i + 1);
    c->order[i] = c->order[j];
    c->order[j] = (uint16_t)i;
  }
}

/* Seconds of CPU time for all tries. On a contended core no set of pages stays in the second cache, and the search ends
 * by its limit: in a run of 25 s one search of 4 s took as long as the visits of all tolls. */
static double limit_s(const struct toll_run *r) {
  enum { LEAST = 1, MOST = 4, PART = 16 };
  const double part_s = toll_left_s(r) / PART;
  return part_s < LEAST ? LEAST : part_s < MOST ? part_s : MOST;
}

/* A search that has not ended by its deadline starts again with the pages in another order: of twelve searches on an idle
 * core four did not end within a second, and each of these ended at its second try. */
static enum toll_status search(struct toll_run *r, struct capacity *c) {
  static const double shares[TRIES] = {0.25, 0.25, 0.5};
  const double most_s = limit_s(r);
  bool found = false;
  for (unsigned i = 0; i < TRIES; i++) {
    shuffle(c, r->seed + i);
    c->deadline = seconds_worked() + shares[i] * most_s;
    c->pack = (struct pack){.lap = lap, .context = c, .cells = c->cells, .candidates = CANDIDATES};
    found = pack_level(&c->pack, toll_choice(r, "level"));
    if (found) break;
  }
  if (c->pack.ended)
    return toll_skip(r, "the pages that fit were not found in %.1f s of CPU time, a sixteenth of the run's or 4 s",
                     most_s);
  if (!found) return toll_skip(r, "no search found where that cache ends, among %d MiB", CANDIDATES * CELL >> 20);
  thread(c, 0, c->pack.held);
  c->cursor.at = c->head;
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct capacity *c = r->state;
  if (toll_prepare_in_place(r) != TOLL_OK) return toll_refused(r);
  if (!toll_clock_is_real()) return toll_skip(r, "pages that fit are counted by the time of a lap, and here is none");
  c->line = toll_line_bytes();
  if (c->line < LEAST_LINE) return toll_skip(r, "lines of %zu bytes are too short", c->line);
  c->lines = (unsigned)(CELL / c->line);
  c->base = toll_buffer(r, (struct toll_buffer_request){.bytes = CANDIDATES * CELL, .pages = TOLL_PAGES_LARGE});
  if (!c->base) return toll_refused(r);
  return search(r, c);
}

static void load(struct toll_run *r) {
  walk_on(&((struct capacity *)r->state)->cursor, r->iterations);
}

/* The walk must come back to its head after as many steps as there are lines, and not before; and the samples' steps must
 * have led where it stands. */
static enum toll_status check(struct toll_run *r) {
  struct capacity *c = r->state;
  const struct toll_cursors one = {.first = &c->cursor, .count = 1, .loads = 1};
  const uint64_t lines = (uint64_t)c->pack.held * c->lines, place = c->cursor.steps % lines;
  if (toll_check_loads(r, load, one) != TOLL_OK) return toll_refused(r);
  void **at = c->head;
  for (uint64_t step = 0; step < lines; step++) {
    if (step && at == c->head) return toll_wrong(r, "the walk is back too early");
    if (step == place && at != c->cursor.at) return toll_wrong(r, "the walk does not stand where its steps lead");
    at = (void **)*at;
  }
  return at == c->head ? TOLL_OK : toll_wrong(r, "the walk does not close");
}

static void finish(struct toll_run *r) {
  toll_report(r, "held", (double)((const struct capacity *)r->state)->pack.held * CELL);
}

static const char *const levels[] = {"first", "second", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "level", .kind = TOLL_CHOICE, .summary = "which cache, nearest first", .choices = levels}, {0}};
static const struct toll_metric metrics[] = {{.name = "held",
                                              .unit = "B",
                                              .better = TOLL_NEITHER,
                                              .summary = "memory in pages that fit into the cache together",
                                              .source = TOLL_GAUGE,
                                              .means = "capacity"},
                                             {.name = "load", .unit = "ns", .summary = "one load of a walk through it"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How much memory do the first and the second cache hold at once?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct capacity),
    .prepare = prepare,
    .body = load,
    .check = check,
    .finish = finish,
    .quantum = WALK_TURN,
    .once = true,
    .revision = 1,
};
