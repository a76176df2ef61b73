/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of a core's out-of-order window, by Henry Wong's method (Measuring Reorder Buffer Capacity, 2013). Two loads
 * that miss every cache stand with N other instructions between them. While the core takes in all of them, both misses
 * are under way at once and a pair takes as long as one miss; as soon as a structure that the instructions in between
 * fill is full, the second load waits for the first, and a pair takes as long as two.
 *
 * The instruction in between names the structure: additions that wait for the load take an entry of a scheduler, loads
 * one of the load queue and stores one of the store queue. All of them are executed at once or with the first miss, so
 * that none of their own time counts. Of ten instructions of `mix` four write a general register and four a vector register,
 * one stores and one is a branch that is never taken, so that the reorder buffer is full before any other structure is:
 * half of the 512 entries of a Golden Cove would be more general registers than it has left, and the buffer seem to have
 * 440. Nops, which Wong uses, take half an entry each on Zen 4, and so do moves.
 *
 * Each load is a step of a walk of its own through half of the buffer, which is much larger than the private caches.
 * Pages are huge where the system gives them: a walk of the page tables would take a place among the misses.
 */
#include "code.h"
#include "walk.h"

enum { WALKS = 2, LINE = 64, MOST = 1024, MIX = 3 };

/* Returns the kind of the instruction at this position between the loads. The first choices of the parameter are of
 * one kind each. */
static enum code_instruction kind_of(unsigned filler, uint64_t number) {
  static const enum code_instruction mix[] = {CODE_GENERAL, CODE_GENERAL, CODE_VECTOR, CODE_VECTOR, CODE_STORE,
                                              CODE_GENERAL, CODE_GENERAL, CODE_VECTOR, CODE_VECTOR, CODE_BRANCH};
  return filler == MIX ? mix[number % (sizeof mix / sizeof mix[0])] : (enum code_instruction)filler;
}

struct window {
  struct code code;
  code_entry entry;
  struct walk walk[WALKS];
  uintptr_t at[WALKS + 1]; /* the data of the code: both cursors, and a word for loads and stores */
  uint64_t blocks, expected;
};

static void write_code(struct window *w, unsigned filler, uint64_t fillers) {
  struct code *c = &w->code;
  code_begin(c);
  code_take_cursors(c);
  const uint8_t *first = c->at;
  for (unsigned i = 0; i < WALKS; i++) {
    code_follow(c, i);
    code_count(c, i);
    for (uint64_t j = 0; j < fillers; j++) code_filler(c, kind_of(filler, j), i);
  }
  code_leave_cursors(c);
  code_end(c, first);
  w->entry = (code_entry)(uintptr_t)c->base;
}

static enum toll_status prepare(struct toll_run *r) {
  struct window *w = r->state;
  const uint64_t fillers = toll_number(r, "fillers");
  size_t size;
  if (fillers > MOST) return toll_fail(r, "at most %d instructions are put between two loads", MOST);
  if (asked(r, "size", &size) != TOLL_OK) return toll_refused(r);
  if (code_open(r, &w->code, (size_t)(fillers + 16) * 2 * CODE_LONGEST, false) != TOLL_OK) return toll_refused(r);
  write_code(w, toll_choice(r, "filler"), fillers);
  if (code_seal(r, &w->code) != TOLL_OK) return toll_refused(r);
  const size_t part = size / WALKS / LINE * LINE;
  char *buffer = toll_buffer(r, (struct toll_buffer_request){.bytes = part * WALKS, .pages = TOLL_PAGES_LARGE});
  if (!buffer) return toll_refused(r);
  struct toll_run own = *r;
  for (unsigned i = 0; i < WALKS; i++) {
    own.seed = toll_random(&own.seed);
    if (walk_lay_part(&own, &w->walk[i], buffer + i * part, part, LINE, TOLL_ORDER_RANDOM, size) != TOLL_OK)
      return toll_refused(r);
  }
  return TOLL_OK;
}

static void load_pairs(struct toll_run *r) {
  struct window *w = r->state;
  for (unsigned i = 0; i < WALKS; i++) w->at[i] = (uintptr_t)w->walk[i].cursor.at;
  w->blocks += w->entry(r->iterations, w->at);
  w->expected += WALKS * r->iterations;
  for (unsigned i = 0; i < WALKS; i++) {
    w->walk[i].cursor.at = (void **)w->at[i];
    w->walk[i].cursor.steps += r->iterations;
  }
}

static enum toll_status check(struct toll_run *r) {
  struct window *w = r->state;
  const struct toll_cursors both = {
      .first = &w->walk[0].cursor, .count = WALKS, .stride = sizeof(struct walk), .loads = 1};
  if (toll_check_loads(r, load_pairs, both) != TOLL_OK) return toll_refused(r);
  for (unsigned i = 0; i < WALKS; i++)
    if (walk_check_place(r, &w->walk[i]) != TOLL_OK) return toll_refused(r);
  if (w->blocks == w->expected) return TOLL_OK;
  return toll_wrong(r, "%llu loads were counted, and not %llu", (unsigned long long)w->blocks,
                    (unsigned long long)w->expected);
}

static const char *const fillers_[] = {
    [CODE_ADD] = "add", [CODE_LOAD] = "load", [CODE_STORE] = "store", [MIX] = "mix", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "fillers",
     .kind = TOLL_COUNT,
     .summary = "instructions between the two loads",
     .from = 32,
     .to = MOST,
     .per_octave = 32,
     .typical = "64",
     .refine = true},
    {.name = "filler", .kind = TOLL_CHOICE, .summary = "kind of instruction between the loads", .choices = fillers_},
    {.name = "size",
     .kind = TOLL_SIZE,
     .summary = "bytes that both loads together go through",
     .from = 65536,
     .to = 4,
     .to_scale = TOLL_TIMES_LAST_CACHE,
     .per_octave = 1,
     .typical = "134217728"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "pair",
                                              .unit = "ns",
                                              .summary = "two loads with a number of instructions between them",
                                              .means = "cost-of-fillers"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many instructions does a core take in while it waits for a load?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct window),
    .prepare = prepare,
    .body = load_pairs,
    .check = check,
    .revision = 2,
};
