/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a cache keeps what is written (write-back) or sends every store on (write-through), and whether a store that
 * misses fetches its line (write-allocate). Three tests, each beside a baseline that does the same without saying
 * anything about the policy:
 *
 *   resident   a store to each line of the set, again and again; baseline: a load of each
 *   evict      a store to each line, then loads of as many other lines, which push the first ones out; baseline: loads
 *              in place of the stores. Only a line that was kept dirty has to travel once more.
 *   reload     stores to lines that no cache has, then a chase through the same lines; baseline: the same stores, then
 *              a chase through as many untouched lines. Where the store fetched its line the chase hits.
 *
 * Over the sizes the answer holds for each level (the study of the Cortex-A9 shows what a cache that writes through by
 * a wrong setting does to the bandwidth of writing).
 */
#include "flush.h"
#include "large.h"
#include "walk.h"

#define POOL_BYTES ((size_t)4 << 20)

enum { RESIDENT, EVICT, RELOAD };

struct policy {
  unsigned test;
  char *memory;
  size_t line, lines, bytes; /* sizes and number of lines of one set */
  size_t sets, next;         /* sets in the pool; the next to be used */
  size_t step;               /* from one stored line to the next, in lines */
  unsigned long stored;      /* the last value stored */
  char *stored_set;
  unsigned long seen;
  uint64_t strayed; /* chases that did not make exactly one lap */
  bool flushes;     /* the pool of `reload`, each time round */
};

typedef unsigned long value __attribute__((may_alias));

/* Its second word: the first is the chase's. */
static inline value *word_of(const struct policy *p, char *set, size_t i) {
  return (value *)(void *)(set + i * p->line + sizeof(void *));
}

static size_t greatest_common(size_t a, size_t b) {
  while (b) {
    size_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Near the golden section of the lines, so that stores go everywhere without an order that a prefetcher learns. */
static size_t scattered_step(size_t lines) {
  size_t step = lines * 5 / 8 | 1;
  while (greatest_common(step, lines) != 1) step += 2;
  return step;
}

/* The sets of `reload` must be in no cache when their turn comes. The pool is flushed each time round. Without such an
 * instruction it exceeds all caches four times; of a last-level cache of 260 MiB each layout then took a second. */
static size_t sets_of(const struct policy *p) {
  if (p->test == RESIDENT) return 1;
  if (p->test == EVICT) return 2;
  return p->flushes ? POOL_BYTES / p->bytes / 2 * 2 + 2 : 4 * toll_last_cache_bytes() / p->bytes + 4;
}

static enum toll_status prepare(struct toll_run *r) {
  struct policy *p = r->state;
  p->test = toll_choice(r, "test");
  p->line = toll_line_bytes();
  if (asked(r, "size", &p->bytes) != TOLL_OK) return toll_refused(r);
  p->lines = p->bytes / p->line;
  p->bytes = p->lines * p->line;
  if (!p->lines) return toll_fail(r, "the size holds no line");
  p->flushes = p->test == RELOAD && can_flush(); /* asked once: a guest leaves to its host for it */
  p->sets = sets_of(p);
  p->step = scattered_step(p->lines);
  p->memory = large_buffer(r, p->sets * p->bytes, 0);
  if (!p->memory) return toll_refused(r);
  for (size_t set = 0; p->test == RELOAD && set < p->sets; set++)
    toll_chase(r, p->memory + set * p->bytes, p->bytes, p->line, TOLL_ORDER_RANDOM);
  return TOLL_OK;
}

static void store_all(struct policy *p, char *set) {
  unsigned long stored = ++p->stored;
  for (size_t i = 0; i < p->lines; i++) *word_of(p, set, i) = stored;
  p->stored_set = set;
  TOLL_MEMORY();
}

/* An order that no prefetcher learns: a prefetcher would load the lines that the store did not allocate. */
static void store_scattered(struct policy *p, char *set) {
  unsigned long stored = ++p->stored;
  for (size_t i = 0, place = 0; i < p->lines; i++) {
    *word_of(p, set, place) = stored;
    place += p->step;
    place -= p->lines & -(size_t)(place >= p->lines);
  }
  p->stored_set = set;
  TOLL_MEMORY();
}

static void load_all(struct policy *p, char *set) {
  unsigned long seen = 0;
  for (size_t i = 0; i < p->lines; i++) {
    seen += *word_of(p, set, i);
    TOLL_OPAQUE(seen);
  }
  p->seen += seen;
}

/* The last load is separate and must close the lap: a chase of no load or of two laps would also end at the head. */
static void chase_all(struct policy *p, char *set) {
  void **head = (void **)(void *)set, **at = head;
  for (size_t left = p->lines - 1; left; left--) at = (void **)*at;
  p->strayed += *at != head;
}

static void flush_pool(const struct policy *p) {
  toll_timer_pause();
  flush_buffer(p->memory, p->sets * p->bytes, p->line);
  toll_timer_resume();
}

static char *next_set(struct policy *p) {
  if (!p->next && p->flushes) flush_pool(p);
  char *set = p->memory + p->next * p->bytes;
  p->next = p->next + 1 < p->sets ? p->next + 1 : 0;
  return set;
}

static void reload(struct policy *p, bool same) {
  char *set = next_set(p);
  store_scattered(p, set);
  chase_all(p, same ? set : next_set(p));
}

static void stores(struct toll_run *r) {
  struct policy *p = r->state;
  for (uint64_t left = r->iterations; left; left--) {
    if (p->test == RELOAD) reload(p, true);
    if (p->test != RELOAD) store_all(p, p->memory);
    if (p->test == EVICT) load_all(p, p->memory + p->bytes);
  }
}

static void baseline(struct toll_run *r) {
  struct policy *p = r->state;
  for (uint64_t left = r->iterations; left; left--) {
    if (p->test == RELOAD) reload(p, false);
    if (p->test != RELOAD) load_all(p, p->memory);
    if (p->test == EVICT) load_all(p, p->memory + p->bytes);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct policy *p = r->state;
  if (p->strayed) return toll_wrong(r, "%llu chases were not one lap", (unsigned long long)p->strayed);
  for (size_t i = 0; i < p->lines; i++)
    if (*word_of(p, p->stored_set, i) != p->stored)
      return toll_wrong(r, "line %zu does not hold what was stored last", i);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct policy *p = r->state;
  work->operations = (double)p->lines * (p->test == RESIDENT ? 1 : 2);
}

static const char *const tests[] = {"resident", "evict", "reload", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "test", .kind = TOLL_CHOICE, .summary = "what is done with the lines", .choices = tests},
    {.name = "size",
     .kind = TOLL_SIZE,
     .summary = "bytes of the set of lines",
     .from = 8192,
     .to = 2,
     .to_scale = TOLL_TIMES_LAST_CACHE,
     .per_octave = 1,
     .typical = "16384"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "test", .unit = "ns", .summary = "one access of the test", .means = "write-policy"},
    {.name = "baseline",
     .unit = "ns",
     .summary = "one access of the control, which shows no effect of the policy",
     .source = TOLL_CONTROL,
     .means = "write-policy-baseline"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "Does a cache keep what is written, and does a store that misses fetch its line?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct policy),
    .prepare = prepare,
    .body = stores,
    .control = baseline,
    .check = check,
    .work = work,
    .pauses = true,
    .revision = 2,
};
