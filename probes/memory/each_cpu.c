/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether every CPU is as fast as the others. A short loop runs on each CPU of the visit, a thread a CPU: one CPU after
 * another while all others wait, or on all CPUs at once. The time of each companion is in its lane, so that one visit
 * compares all CPUs within a fraction of a second, and a drift of the machine is the same for all.
 *
 * Each loop depends on another part of the core:
 *
 *   clock    dependent additions, one a cycle: a core that is throttled
 *   width    independent additions: a core whose sibling hyperthread is busy gives fewer; its clock is the same
 *   second_cache  a random walk beyond the first cache
 *   memory   a random walk through memory of the CPU's own node
 *   copy     four lines copied within the first cache: the units that load and store
 *
 * A step of a loop takes 0.5 to 10 us, so that a companion beside a busy machine repeats about a hundred of them a batch.
 *
 * All CPUs of a node walk through one buffer from places that are equally far apart. A place is reached again when the
 * other walks have replaced what the caches held of it. The buffer is flushed when it is made: the CPU that made it would
 * find a part of it in its caches.
 */
#include <sched.h>
#include <stdatomic.h>

#include "flush.h"
#include "large.h"
#include "walk.h"

enum { ADDS = 2048, WIDE = 8, NEAR_LOADS = 256, FAR_LOADS = 32, COPIES = 64 };
enum { COPY_BYTES = 4 * 64, COPY_WORDS = COPY_BYTES / sizeof(uint64_t) };
/* More than the first cache has (32 to 64 KiB, 128 of one maker), less than half of a second cache of 256 KiB: in small
 * pages, whose sets are drawn by chance, more would overflow some sets. */
enum { NEAR_BYTES = 96 << 10 };
enum { TIMES_LAST_CACHE = 4, LEAST_FAR_MIB = 64 };
enum loop { CLOCK, WIDTH, SECOND_CACHE, MEMORY, COPY };

struct node {
  int number;
  char *memory;
  struct walk walk;
  _Atomic uint32_t taken, laid; /* a worker makes the walk; it is made */
};

struct worker {
  struct walk walk;
  struct node *node;
  unsigned place; /* among the workers of its node */
  bool ready;
  unsigned long sum[WIDE], addend;
  uint64_t steps;
  /* At the beginning of a line for all workers: a copy that crosses a line takes longer. */
  uint64_t source[COPY_WORDS] __attribute__((aligned(128))), target[COPY_WORDS];
  char padding[128]; /* neighbours in this array are written by other CPUs */
};

struct sweep {
  enum loop loop;
  unsigned count, node_count;
  size_t far_bytes;
  struct worker *workers;
  struct node *nodes;
};

/* ---- the loops ---- */

#define ADD      \
  sum += addend; \
  TOLL_OPAQUE(sum);
#define ADD_8 ADD ADD ADD ADD ADD ADD ADD ADD

TOLL_NOINLINE static void add(struct worker *own, uint64_t steps) {
  unsigned long sum = own->sum[0], addend = own->addend;
  TOLL_OPAQUE(addend);
  for (uint64_t turns = steps * (ADDS / 64); turns; turns--) {
    ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8 ADD_8
  }
  own->sum[0] = sum;
}

/* Repeats its argument for each chain; the registers limit their number. */
#if __SIZEOF_POINTER__ == 8 && !defined(__arm__)
#define EACH(of) of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7)
enum { CHAINS = 8 };
#else
#define EACH(of) of(0) of(1) of(2) of(3)
enum { CHAINS = 4 };
#endif
#define BEGIN(i) unsigned long sum##i = own->sum[i];
#define ADVANCE(i)  \
  sum##i += addend; \
  TOLL_OPAQUE(sum##i);
#define END(i) own->sum[i] = sum##i;

TOLL_NOINLINE static void add_wide(struct worker *own, uint64_t steps) {
  unsigned long addend = own->addend;
  EACH(BEGIN)
  TOLL_OPAQUE(addend);
  for (uint64_t turns = steps * (ADDS / 8); turns; turns--) {
    EACH(ADVANCE) EACH(ADVANCE) EACH(ADVANCE) EACH(ADVANCE) EACH(ADVANCE) EACH(ADVANCE) EACH(ADVANCE) EACH(ADVANCE)
  }
  EACH(END)
}

/* The first word of the source is the number of the copy. */
TOLL_NOINLINE static void copy(struct worker *own, uint64_t steps) {
  const uint64_t *from = own->source;
  uint64_t *to = own->target, number = own->steps * COPIES;
  for (uint64_t left = steps * COPIES; left; left--) {
    own->source[0] = ++number;
    TOLL_MEMORY();
    for (unsigned i = 0; i < COPY_WORDS; i++) to[i] = from[i];
    TOLL_MEMORY();
  }
}

/* ---- set-up ---- */

static struct node *node_of(struct sweep *s, int cpu) {
  enum { MOST_NODES = 1024 };
  int number = -1;
  for (unsigned i = 0; toll_node_count() > 1 && i < MOST_NODES && number < 0; i++)
    if (toll_node_has(i, cpu)) number = (int)i;
  for (unsigned i = 0; i < s->node_count; i++)
    if (s->nodes[i].number == number) return &s->nodes[i];
  s->nodes[s->node_count].number = number;
  return &s->nodes[s->node_count++];
}

static enum toll_status take_memory(struct toll_run *r, struct sweep *s) {
  const uint64_t least = (uint64_t)LEAST_FAR_MIB << 20, wanted = TIMES_LAST_CACHE * (uint64_t)toll_last_cache_bytes();
  const uint64_t bytes = wanted > least ? wanted : least;
  if (bytes > SIZE_MAX / 4) return toll_skip(r, "memory beyond the caches exceeds what this ABI can address");
  s->far_bytes = whole_huge_pages((size_t)bytes);
  if (toll_needs_memory(r, (uint64_t)s->far_bytes * s->node_count) != TOLL_OK) return toll_refused(r);
  for (unsigned i = 0; i < s->node_count; i++)
    if (!(s->nodes[i].memory = large_buffer(r, s->far_bytes, 0))) return toll_refused(r);
  return TOLL_OK;
}

static enum toll_status take_pages(struct toll_run *r, struct sweep *s) {
  const struct toll_buffer_request near = {.bytes = NEAR_BYTES, .pages = TOLL_PAGES_SMALL};
  for (unsigned i = 0; i < s->count; i++)
    if (!(s->workers[i].walk.base = toll_buffer(r, near))) return toll_refused(r);
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct sweep *s = r->state;
  s->loop = (enum loop)toll_choice(r, "loop");
  s->count = r->cpu_count;
  if (s->count < 2) return toll_skip(r, "CPUs are compared with each other, and this run may use one");
  if (!toll_clock_is_real())
    return toll_skip(r, "CPUs are compared by their times, and this clock counts instructions");
  s->workers = toll_buffer(r, (struct toll_buffer_request){.bytes = s->count * sizeof *s->workers});
  s->nodes = toll_buffer(r, (struct toll_buffer_request){.bytes = s->count * sizeof *s->nodes});
  if (!s->workers || !s->nodes) return toll_refused(r);
  for (unsigned i = 0; i < s->count; i++) {
    struct worker *worker = &s->workers[i];
    worker->addend = (unsigned long)(r->seed | 1);
    worker->node = node_of(s, r->cpus[i]);
    for (unsigned before = 0; before < i; before++) worker->place += s->workers[before].node == worker->node;
    for (unsigned word = 0; word < COPY_WORDS; word++) worker->source[word] = r->seed + word;
  }
  if (s->loop == MEMORY) return take_memory(r, s);
  return s->loop == SECOND_CACHE ? take_pages(r, s) : TOLL_OK;
}

/* The node's first worker makes the walk from its own CPU; background workers wait for it, and workers in turn come
 * later anyway. The walk is flushed from the caches: walk_lay() would leave its last lines there, and one worker's
 * walk starts just before them. */
static void lay_node(struct toll_run *r, const struct sweep *s, struct node *node) {
  touch_here(node->memory, s->far_bytes);
  walk_lay_part(r, &node->walk, node->memory, s->far_bytes, toll_line_bytes(), TOLL_ORDER_RANDOM, SIZE_MAX);
  node->walk.computed = true;
  node->walk.looked_up = WALK_LOOKED_UP;
  walk_check_place(r, &node->walk);
  if (can_flush()) flush_buffer(node->memory, s->far_bytes, toll_line_bytes());
  atomic_store(&node->laid, 1);
}

static void set_up(struct toll_run *r, const struct sweep *s, struct worker *own) {
  own->ready = true;
  if (s->loop == SECOND_CACHE) {
    struct toll_run seeded = *r;
    seeded.seed += r->worker;
    walk_lay(&seeded, &own->walk, own->walk.base, NEAR_BYTES, toll_line_bytes(), TOLL_ORDER_RANDOM);
    walk_check_place(&seeded, &own->walk);
  }
  if (s->loop != MEMORY) return;
  if (!atomic_exchange(&own->node->taken, 1)) lay_node(r, s, own->node);
  while (!atomic_load(&own->node->laid)) sched_yield();
  own->walk = own->node->walk;
  unsigned several = 0;
  for (unsigned i = 0; i < s->count; i++) several += s->workers[i].node == own->node;
  own->walk.cursor.steps = own->walk.nodes / several * own->place;
  own->walk.cursor.at = walk_place(&own->walk, own->walk.cursor.steps);
}

static void run_loop(struct toll_run *r) {
  const struct sweep *s = r->state;
  struct worker *own = &s->workers[r->worker];
  if (!own->ready) set_up(r, s, own);
  switch (s->loop) {
    case CLOCK: add(own, r->iterations); break;
    case WIDTH: add_wide(own, r->iterations); break;
    case COPY: copy(own, r->iterations); break;
    case SECOND_CACHE: walk_on(&own->walk.cursor, r->iterations * NEAR_LOADS); break;
    case MEMORY: walk_on(&own->walk.cursor, r->iterations * FAR_LOADS); break;
  }
  own->steps += r->iterations;
}

/* ---- what proves the work ---- */

static enum toll_status check_sums(struct toll_run *r, const struct worker *own, unsigned chains, uint64_t adds) {
  for (unsigned i = 0; i < chains; i++)
    if (own->sum[i] != (unsigned long)(own->steps * adds) * own->addend)
      return toll_wrong(r, "a chain of additions has another sum than its additions");
  return TOLL_OK;
}

static enum toll_status check_copy(struct toll_run *r, const struct worker *own) {
  for (unsigned i = 0; i < COPY_WORDS; i++)
    if (own->target[i] != (i ? r->seed + i : own->steps * COPIES))
      return toll_wrong(r, "word %u was not copied in the last of %llu copies", i,
                        (unsigned long long)own->steps * COPIES);
  return TOLL_OK;
}

static enum toll_status check_walk(struct toll_run *r, struct worker *own, unsigned loads) {
  const struct toll_cursors one = {.first = &own->walk.cursor, .count = 1, .loads = loads};
  const uint64_t steps = own->steps;
  const enum toll_status status = toll_check_loads(r, run_loop, one);
  own->steps = steps; /* steps of the check are not work */
  return status == TOLL_OK ? walk_check_place(r, &own->walk) : status;
}

static enum toll_status check_one(struct toll_run *r, const struct sweep *s, struct worker *own) {
  if (!own->steps) return toll_wrong(r, "a CPU has done nothing");
  switch (s->loop) {
    case CLOCK: return check_sums(r, own, 1, ADDS);
    case WIDTH: return check_sums(r, own, CHAINS, ADDS);
    case COPY: return check_copy(r, own);
    case SECOND_CACHE: return check_walk(r, own, NEAR_LOADS);
    case MEMORY: return check_walk(r, own, FAR_LOADS);
  }
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  const struct sweep *s = r->state;
  struct toll_run of = *r;
  for (of.worker = 0; of.worker < r->workers; of.worker++)
    if (toll_refused(r) != TOLL_OK || check_one(&of, s, &s->workers[of.worker]) != TOLL_OK) return toll_refused(r);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  static const double operations[] = {ADDS, ADDS * CHAINS, NEAR_LOADS, FAR_LOADS, COPIES};
  work->operations = operations[((const struct sweep *)r->state)->loop];
}

/* ---- description ---- */

static unsigned all_in_turn(const struct toll_run *r) {
  return toll_choice(r, "beside") ? 0 : r->cpu_count - 1;
}

static unsigned all_at_once(const struct toll_run *r) {
  return toll_choice(r, "beside") ? r->cpu_count - 1 : 0;
}

static const struct toll_role roles[] = {
    {.name = "in_turn", .body = run_loop, .worker = TOLL_THREAD, .pace = TOLL_IN_TURN, .count = all_in_turn},
    {.name = "at_once",
     .body = run_loop,
     .worker = TOLL_THREAD,
     .pace = TOLL_BACKGROUND,
     .count = all_at_once,
     .background_iterations = 8},
    {0}};
static const char *const loops[] = {"clock", "width", "second_cache", "memory", "copy", NULL};
static const char *const besides[] = {"nothing", "all", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "loop", .kind = TOLL_CHOICE, .summary = "what each CPU does", .choices = loops},
    {.name = "beside",
     .kind = TOLL_CHOICE,
     .summary = "what all other CPUs do meanwhile: nothing, or the same",
     .choices = besides},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "step", .unit = "ns", .summary = "one addition, load or copy on the first CPU", .means = "step-of-cpu"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "Is every CPU as fast as the others?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct sweep),
    .prepare = prepare,
    .body = run_loop,
    .check = check,
    .work = work,
    .roles = roles,
    .revision = 1,
};
