/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a line that is in another CPU's cache, by its coherence state there (Molka et al., Memory performance and
 * cache coherency effects on an Intel Nehalem multiprocessor system, 2009). A partner puts a group of lines into the
 * state; then the timed CPU accesses each once, in random order, each access waiting for the one before. A group is 256
 * lines, which an L1 holds; of the state `shared` 1024, since what it takes to push them out is the same for any
 * number, and a hundred times what 256 accesses take.
 *
 *   modified    the partner has written the line
 *   exclusive   the partner alone has read it
 *   shared      the partner and the timed CPU have read it, and the timed CPU has pushed it out of its own caches
 *   owned       the partner has written it and a third CPU has read it since
 *   forward     the partner and then a third CPU have read it
 *   invalid     no cache has it: the line comes from memory
 *
 * Each time round the lines are first flushed from all caches, by the partner and with the watch stopped, so that nothing
 * is left of the time before; no flush is inside the timed stretch. The lines are the next ones of a random cycle through
 * 4 MiB of fresh pages, on huge pages where there are any: then translations stay out of the time. `home` tells which
 * of the two CPUs touched the pages first, and so on whose memory node they lie. Only the timed accesses follow the cycle: in
 * all other steps the lines are given by a list, so that many are under way at once, and the making of a state takes less long
 * beside what is timed.
 *
 * A store is timed as an atomic addition of nothing, whose old value is the next address: a plain store is not waited
 * for. It needs the line for itself, as a store does.
 */
#include <stdatomic.h>

#include "flush.h"
#include "large.h"

#define POOL_BYTES ((size_t)4 << 20)
/* More than a core's own caches hold, or two cores' common one; not those of a cluster that has 12 MiB. */
#define SWEEP_BYTES ((size_t)8 << 20)
#define MOST_STEPS  6

enum who { TIMED, PARTNER, THIRD };
enum what { NOTHING, LAY, FLUSH, READ, WRITE, SWEEP, ACCESS };

struct step {
  enum who who;
  enum what what;
};

/* The steps that make each state, for a group of lines. The last step of each is timed. */
static const struct {
  const char *name;
  size_t lines;
  bool third;
  struct step steps[MOST_STEPS];
} states[] = {
    {"modified", 256, false, {{PARTNER, FLUSH}, {PARTNER, WRITE}, {TIMED, ACCESS}}},
    {"exclusive", 256, false, {{PARTNER, FLUSH}, {PARTNER, READ}, {TIMED, ACCESS}}},
    {"shared", 1024, false, {{PARTNER, FLUSH}, {PARTNER, READ}, {TIMED, READ}, {TIMED, SWEEP}, {TIMED, ACCESS}}},
    {"owned", 256, true, {{PARTNER, FLUSH}, {PARTNER, WRITE}, {THIRD, READ}, {TIMED, ACCESS}}},
    {"forward", 256, true, {{PARTNER, FLUSH}, {PARTNER, READ}, {THIRD, READ}, {TIMED, ACCESS}}},
    {"invalid", 256, false, {{PARTNER, FLUSH}, {TIMED, ACCESS}}},
};
static const char *const state_names[] = {"modified", "exclusive", "shared", "owned", "forward", "invalid", NULL};

/* A node of the cycle: its first word leads to the next, its second is what the partner writes. */
struct node {
  _Atomic(struct node *) next;
  _Atomic unsigned long written;
};

struct transfer {
  const struct step *steps;
  unsigned step_count;
  bool stores;
  enum who home;
  size_t line, lines, groups; /* bytes of a line, lines of a group, groups of the pool */
  char *pool, *sweep;
  struct node *head;     /* first node of the next group, as the timed worker counts */
  uint64_t asked;        /* groups */
  uint64_t accessed;     /* groups */
  uint64_t strayed;      /* groups whose accesses did not lead to the next one */
  _Atomic uint32_t turn; /* a visit is over long before 2 to the 32nd */
  char padding[128];
  struct own {
    uint32_t turn;
    char padding[128];
  } own[3];
  struct node **nodes; /* in the order of the cycle */
};

/* ---- the steps ---- */

static struct node *next_of(struct node *node) {
  return atomic_load_explicit(&node->next, memory_order_relaxed);
}

static struct node **nodes_of(const struct transfer *t, uint64_t group) {
  return t->nodes + group % t->groups * t->lines;
}

static struct node *head_of(const struct transfer *t, uint64_t group) {
  return *nodes_of(t, group);
}

/* Runs on the pages' home CPU: touches the pages, draws the cycle, and records its order. */
static void lay(struct toll_run *r, struct transfer *t) {
  touch_here(t->pool, POOL_BYTES);
  struct node *node = (struct node *)(void *)toll_chase(r, t->pool, POOL_BYTES, t->line, TOLL_ORDER_RANDOM);
  for (size_t i = 0; i < t->groups * t->lines; i++, node = next_of(node)) t->nodes[i] = node;
  t->head = t->nodes[0];
}

static void flush_group(struct node *const *nodes, size_t lines) {
  for (size_t i = 0; i < lines; i++) flush(nodes[i]);
  flushed();
}

static void write_group(struct node *const *nodes, size_t lines, unsigned long value) {
  for (size_t i = 0; i < lines; i++) atomic_store_explicit(&nodes[i]->written, value, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
}

/* Each value must have arrived before the fence permits the next step. */
static void share_group(struct node *const *nodes, size_t lines) {
  uintptr_t seen = 0;
  for (size_t i = 0; i < lines; i++) seen += (uintptr_t)next_of(nodes[i]);
  TOLL_USE(seen);
  atomic_thread_fence(memory_order_seq_cst);
}

static struct node *read_group(struct node *node, size_t lines) {
  for (size_t i = 0; i < lines; i++) node = next_of(node);
  return node;
}

static struct node *store_group(struct node *node, size_t lines) {
  uintptr_t nothing = 0;
  TOLL_OPAQUE(nothing);
  for (size_t i = 0; i < lines; i++)
    node = (struct node *)atomic_fetch_add_explicit((_Atomic uintptr_t *)(void *)&node->next, nothing,
                                                    memory_order_relaxed);
  return node;
}

static void sweep_caches(const struct transfer *t) {
  unsigned long seen = 0;
  for (size_t i = 0; i < SWEEP_BYTES; i += t->line) seen += *(const volatile unsigned long *)(t->sweep + i);
  TOLL_USE(seen);
}

static void take_step(struct toll_run *r, struct transfer *t, enum what what, uint64_t group) {
  switch (what) {
    case LAY: lay(r, t); break;
    case FLUSH: flush_group(nodes_of(t, group), t->lines); break;
    case READ: share_group(nodes_of(t, group), t->lines); break;
    case WRITE: write_group(nodes_of(t, group), t->lines, (unsigned long)group + 1); break;
    case SWEEP: sweep_caches(t); break;
    case ACCESS:
      toll_timer_resume();
      t->head = t->stores ? store_group(t->head, t->lines) : read_group(t->head, t->lines);
      toll_timer_pause();
      t->strayed += t->head != head_of(t, ++t->accessed);
      break;
    case NOTHING: break;
  }
}

/* All workers go through the same steps in the same order; each takes its own when the turn has come to it. */
static void turn_to(struct toll_run *r, struct transfer *t, enum who me, struct step step, uint64_t group) {
  uint32_t mine = t->own[me].turn++;
  if (step.who != me) return;
  while (atomic_load_explicit(&t->turn, memory_order_acquire) != mine) continue;
  take_step(r, t, step.what, group);
  atomic_store_explicit(&t->turn, mine + 1, memory_order_release);
}

static void go_through(struct toll_run *r, enum who me) {
  struct transfer *t = r->state;
  if (!t->own[me].turn) turn_to(r, t, me, (struct step){t->home, LAY}, 0);
  uint64_t group = (t->own[me].turn - 1) / t->step_count;
  for (uint64_t left = r->iterations; left; left--, group++)
    for (unsigned s = 0; s < t->step_count; s++) turn_to(r, t, me, t->steps[s], group);
}

/* ---- the visit ---- */

static unsigned thirds(const struct toll_run *r) {
  return states[toll_choice(r, "state")].third ? 1 : 0;
}

static enum toll_status prepare(struct toll_run *r) {
  struct transfer *t = r->state;
  unsigned state = toll_choice(r, "state");
  if (r->cpu_count < 2 + thirds(r))
    return toll_skip(r, "the state %s is made with %u CPUs, and this run may use %u", states[state].name, 2 + thirds(r),
                     r->cpu_count);
  if (!can_flush()) return toll_skip(r, "a program cannot flush a line from all caches on this architecture");
  t->steps = states[state].steps;
  while (t->steps[t->step_count].what != NOTHING) t->step_count++;
  t->stores = toll_choice(r, "access") != 0;
  t->home = toll_choice(r, "home") ? PARTNER : TIMED;
  t->line = toll_line_bytes() < 32 ? 32 : toll_line_bytes();
  t->lines = states[state].lines;
  t->groups = POOL_BYTES / t->line / t->lines;
  t->pool = large_buffer(r, POOL_BYTES, 0);
  if (!t->pool) return toll_refused(r);
  t->sweep = large_buffer(r, SWEEP_BYTES, 0);
  t->nodes = (struct node **)(void *)large_buffer(r, t->groups * t->lines * sizeof *t->nodes, 0);
  return t->sweep && t->nodes ? TOLL_OK : toll_refused(r);
}

static void access_groups(struct toll_run *r) {
  toll_timer_pause();
  ((struct transfer *)r->state)->asked += r->iterations;
  go_through(r, TIMED);
  toll_timer_resume();
}

static void be_partner(struct toll_run *r) {
  go_through(r, PARTNER);
}

static void be_third(struct toll_run *r) {
  go_through(r, THIRD);
}

/* The accesses must lead from group to group, and the last group must hold what the partner wrote there. */
static enum toll_status check(struct toll_run *r) {
  const struct transfer *t = r->state;
  bool written = false;
  for (unsigned s = 0; s < t->step_count; s++) written |= t->steps[s].what == WRITE;
  if (t->accessed != t->asked) return toll_wrong(r, "the number of accessed groups is not the one that was asked for");
  if (t->strayed) return toll_wrong(r, "the accesses do not lead from group to group");
  struct node *node = head_of(t, t->accessed - 1);
  for (size_t i = 0; written && i < t->lines; i++, node = next_of(node))
    if (atomic_load(&node->written) != (unsigned long)t->accessed)
      return toll_wrong(r, "line %zu does not hold what the partner wrote", i);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct transfer *t = r->state;
  work->operations = (double)t->lines;
}

static const struct toll_role roles[] = {
    {.name = "partner", .body = be_partner, .worker = TOLL_THREAD, .pace = TOLL_LOCKSTEP},
    {.name = "third", .body = be_third, .worker = TOLL_THREAD, .pace = TOLL_LOCKSTEP, .count = thirds},
    {0}};
static const char *const accesses[] = {"load", "store", NULL};
static const char *const homes[] = {"timed", "partner", NULL};
static const struct toll_parameter parameters[] = {{.name = "state",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "state in which the partner left the line",
                                                    .choices = state_names,
                                                    .typical = "modified"},
                                                   {.name = "access",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "access of the timed CPU to the line",
                                                    .choices = accesses,
                                                    .typical = "load"},
                                                   {.name = "home",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "which CPU touched the pages first",
                                                    .choices = homes,
                                                    .typical = "timed"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "access",
                                              .unit = "ns",
                                              .summary = "one access to a line in the given state",
                                              .means = "transfer-of-state",
                                              .toll = "{access} of a line {state} in another CPU's cache"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to get a line from another CPU's cache, by its state there?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct transfer),
    .prepare = prepare,
    .body = access_groups,
    .check = check,
    .work = work,
    .roles = roles,
    .pauses = true,
    .revision = 3,
};
