/* SPDX-License-Identifier: Apache-2.0
 *
 * The second model's caches: which level serves each load of a walk, and how long that takes.
 *
 * It shares nothing with the first model. Replacement: true LRU, random, a tree of bits (tree-PLRU), one bit for each way
 * (NRU), or two (SRRIP; Jaleel et al. 2010). The last cache may lie in slices that a hash of the physical address chooses
 * (Maurice et al. 2015), may hold the victims of the cache before it alone (exclusive), or be a superset of the nearer
 * ones (inclusive). Other cores put lines of their own into it, so many in each cycle.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "packed.h"

enum { LRU, RANDOM, TREE, NRU, SRRIP };
enum { BESIDE, EXCLUSIVE, INCLUSIVE };
enum { MOST_LEVELS = 3, MOST_WAYS = 32 };
static const uint32_t EMPTY = UINT32_MAX, FOREIGN = UINT32_C(1) << 31;

struct set_cache {
  uint32_t sets, ways, slices, policy, relation, reserved;
  double latency, foreign_per_cycle;
};

struct machine_shape {
  const struct set_cache *level;
  double memory;
  uint64_t phase, seed;
  uint32_t levels, pairs, sampling, reserved;
};

struct set {
  uint32_t line[MOST_WAYS], age[MOST_WAYS];
  uint32_t tree;
};

struct caches {
  const struct set_cache *shape;
  unsigned levels, sampling;
  bool pairs;
  double memory, debt;
  uint64_t random, clock, phase;
  struct set *sets[MOST_LEVELS];
};

static uint64_t draw(struct caches *c) {
  c->random ^= c->random << 13;
  c->random ^= c->random >> 7;
  c->random ^= c->random << 17;
  return c->random;
}

/* The murmur finaliser: every bit of the address tells in the choice of a slice. */
static uint64_t mixed(uint64_t line) {
  line = (line ^ line >> 33) * UINT64_C(0xff51afd7ed558ccd);
  line = (line ^ line >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return line ^ line >> 33;
}

static struct set *set_of(const struct caches *c, unsigned level, uint32_t line) {
  const struct set_cache *s = &c->shape[level];
  uint64_t slice = s->slices > 1 ? mixed(line) % s->slices : 0;
  return &c->sets[level][slice * s->sets + line % s->sets];
}

static int way_of(const struct set *set, uint32_t ways, uint32_t line) {
  for (uint32_t way = 0; way < ways; way++)
    if (set->line[way] == line) return (int)way;
  return -1;
}

/* Walks the tree: turns each node away from `way`, or where way is -1 follows the nodes to the way that leaves. */
static unsigned tree_walk(struct set *set, uint32_t ways, int way) {
  uint32_t low = 0, high = ways, node = 1;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    bool right = way < 0 ? set->tree >> (node & 31) & 1 : (uint32_t)way >= middle;
    if (way >= 0) set->tree = (set->tree & ~(1u << (node & 31))) | (uint32_t)!right << (node & 31);
    node = 2 * node + right;
    if (right)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static void note_use(struct caches *c, const struct set_cache *s, struct set *set, int way, bool fresh) {
  if (s->policy == LRU) set->age[way] = (uint32_t)++c->clock;
  if (s->policy == TREE) tree_walk(set, s->ways, way);
  if (s->policy == SRRIP) set->age[way] = fresh ? 2 : 0;
  if (s->policy != NRU) return;
  set->age[way] = 1;
  for (uint32_t other = 0; other < s->ways; other++)
    if (!set->age[other]) return;
  memset(set->age, 0, sizeof set->age);
  set->age[way] = 1;
}

static unsigned leaving(struct caches *c, const struct set_cache *s, struct set *set) {
  int empty = way_of(set, s->ways, EMPTY);
  unsigned least = 0;
  if (empty >= 0) return (unsigned)empty;
  if (s->policy == RANDOM) return (unsigned)(draw(c) % s->ways);
  if (s->policy == TREE) return tree_walk(set, s->ways, -1);
  if (s->policy == LRU) {
    for (unsigned way = 1; way < s->ways; way++)
      if (set->age[way] < set->age[least]) least = way;
    return least;
  }
  for (uint32_t wanted = s->policy == NRU ? 0 : 3;;) {
    for (unsigned way = 0; way < s->ways; way++)
      if (set->age[way] == wanted) return way;
    for (unsigned way = 0; way < s->ways; way++) set->age[way]++;
  }
}

static void drop(struct caches *c, unsigned level, uint32_t line) {
  struct set *set = set_of(c, level, line);
  int way = way_of(set, c->shape[level].ways, line);
  if (way >= 0) set->line[way] = EMPTY;
}

static bool touch(struct caches *c, unsigned level, uint32_t line) {
  struct set *set = set_of(c, level, line);
  int way = way_of(set, c->shape[level].ways, line);
  if (way >= 0) note_use(c, &c->shape[level], set, way, false);
  return way >= 0;
}

static void put_into(struct caches *c, unsigned level, struct set *set, uint32_t line) {
  const struct set_cache *s = &c->shape[level];
  unsigned way = leaving(c, s, set);
  uint32_t victim = set->line[way];
  set->line[way] = line;
  note_use(c, s, set, (int)way, true);
  if (victim == EMPTY || victim & FOREIGN) return;
  if (s->relation == INCLUSIVE)
    for (unsigned nearer = 0; nearer < level; nearer++) drop(c, nearer, victim);
  if (level + 1 < c->levels && c->shape[level + 1].relation == EXCLUSIVE && !touch(c, level + 1, victim))
    put_into(c, level + 1, set_of(c, level + 1, victim), victim);
}

static void put(struct caches *c, unsigned level, uint32_t line) {
  if (!touch(c, level, line)) put_into(c, level, set_of(c, level, line), line);
}

/* Into the sets that the sampled lines fall into: so small a share of the sets, and of the time that the whole walk takes. */
static void others_come(struct caches *c, double cycles) {
  unsigned level = c->levels - 1;
  const struct set_cache *s = &c->shape[level];
  for (c->debt += s->foreign_per_cycle * cycles; c->debt >= 1; c->debt -= 1) {
    uint64_t any = draw(c), pair = (any % (s->sets / 2) / c->sampling * c->sampling + c->phase) % (s->sets / 2);
    uint64_t index = 2 * pair + (any >> 40) % 2, slice = (any >> 44) % s->slices;
    put_into(c, level, &c->sets[level][slice * s->sets + index], FOREIGN | (uint32_t)(any >> 34));
  }
}

static void bring(struct caches *c, unsigned first, unsigned from, uint32_t line) {
  if (from < c->levels && c->shape[from].relation == EXCLUSIVE) drop(c, from, line);
  for (unsigned level = from; level-- > first;)
    if (level == 0 || c->shape[level].relation != EXCLUSIVE) put(c, level, line);
}

static double load(struct caches *c, uint32_t line) {
  unsigned level = 0;
  while (level < c->levels && !touch(c, level, line)) level++;
  bring(c, 0, level, line);
  if (c->pairs && level > 1 && c->levels > 1 && way_of(set_of(c, 1, line ^ 1), c->shape[1].ways, line ^ 1) < 0)
    bring(c, 1, c->levels, line ^ 1);
  double cycles = level < c->levels ? c->shape[level].latency : c->memory;
  others_come(c, cycles);
  return cycles;
}

static bool make(struct caches *c) {
  for (unsigned level = 0; level < c->levels; level++) {
    size_t count = (size_t)c->shape[level].sets * c->shape[level].slices;
    c->sets[level] = calloc(count, sizeof *c->sets[level]);
    if (!c->sets[level]) return false;
    for (size_t set = 0; set < count; set++) memset(c->sets[level][set].line, 0xff, sizeof c->sets[level][set].line);
  }
  return true;
}

static double walked(void *machine, const uint32_t *lines, uint64_t count) {
  double cycles = 0;
  for (uint64_t i = 0; i < count; i++) cycles += load(machine, lines[i]);
  return cycles;
}

static void drop_all(const struct caches *c) {
  for (unsigned level = 0; level < c->levels; level++) free(c->sets[level]);
}

static struct caches made_of(const struct machine_shape *m) {
  return (struct caches){.shape = m->level,
                         .levels = m->levels,
                         .memory = m->memory,
                         .pairs = m->pairs,
                         .sampling = m->sampling,
                         .phase = m->phase,
                         .random = m->seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
}

/* Mean cycles of a load in the last of `laps` laps over physical lines in the order of a walk; below 0 without memory. */
double set_caches_walk(const struct machine_shape *shape, const uint32_t *lines, uint64_t count, uint32_t laps) {
  struct caches c = made_of(shape);
  double cycles = -1;
  if (make(&c))
    for (uint32_t lap = 0; lap < laps; lap++) cycles = walked(&c, lines, count);
  drop_all(&c);
  return cycles < 0 ? cycles : cycles / (double)count;
}

/* How many cells fit into one of its caches together; 0 without memory, too. */
uint32_t set_caches_packed(const struct machine_shape *shape, struct packed asked) {
  struct caches c = made_of(shape);
  asked.walk = walked;
  asked.machine = &c;
  const uint32_t cells = make(&c) ? packed_cells(&asked) : 0;
  drop_all(&c);
  return cells;
}
