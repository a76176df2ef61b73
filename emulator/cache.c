/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of one set-associative cache: the lines in it, which of them are dirty, and which one is evicted.
 */
#include <stdlib.h>
#include <string.h>

#include "../probes/runtime/toll.h"
#include "cache.h"

enum { NOWHERE = -1 };

bool cache_make(struct cache *cache, uint64_t sets, uint32_t ways, uint32_t replacement, uint64_t seed) {
  *cache = (struct cache){.sets = sets, .ways = ways, .replacement = replacement, .random = seed};
  cache->lines = malloc(sets * ways * sizeof *cache->lines);
  cache->dirty = calloc(sets, sizeof *cache->dirty);
  cache->recent = calloc(sets, sizeof *cache->recent);
  if (!cache->lines || !cache->dirty || !cache->recent) return false;
  memset(cache->lines, 0xff, sets * ways * sizeof *cache->lines);
  return true;
}

void cache_drop(struct cache *cache) {
  free(cache->lines);
  free(cache->dirty);
  free(cache->recent);
}

static uint32_t *set_of(const struct cache *cache, uint32_t line) {
  return cache->lines + line % cache->sets * cache->ways;
}

static int way_of(const uint32_t *set, uint32_t ways, uint32_t line) {
  for (uint32_t way = 0; way < ways; way++)
    if (set[way] == line) return (int)way;
  return NOWHERE;
}

/* Moves way to the front, and its dirty mark with it. */
static void to_front(uint32_t *set, uint64_t *dirty, unsigned way) {
  uint32_t line = set[way];
  uint64_t mark = *dirty >> way & 1, below = *dirty & ((UINT64_C(1) << way) - 1),
           above = *dirty >> way >> 1 << way << 1;
  memmove(set + 1, set, way * sizeof *set);
  set[0] = line;
  *dirty = above | below << 1 | mark;
}

static void note_use(struct cache *cache, uint64_t index, uint32_t *set, unsigned way) {
  uint64_t all = cache->ways == 64 ? UINT64_MAX : (UINT64_C(1) << cache->ways) - 1;
  if (cache->replacement == REPLACE_OLDEST) {
    if (way) to_front(set, &cache->dirty[index], way);
  } else if (cache->replacement == REPLACE_NOT_RECENT) {
    cache->recent[index] |= UINT64_C(1) << way;
    if (cache->recent[index] == all) cache->recent[index] = UINT64_C(1) << way;
  }
}

bool cache_touch(struct cache *cache, uint32_t line) {
  uint32_t *set = set_of(cache, line);
  int way = way_of(set, cache->ways, line);
  if (way == NOWHERE) return false;
  note_use(cache, line % cache->sets, set, (unsigned)way);
  return true;
}

void cache_dirty(struct cache *cache, uint32_t line) {
  int way = way_of(set_of(cache, line), cache->ways, line);
  if (way != NOWHERE) cache->dirty[line % cache->sets] |= UINT64_C(1) << way;
}

static unsigned leaving_way(struct cache *cache, uint64_t index, const uint32_t *set) {
  int empty = way_of(set, cache->ways, LINE_NONE);
  if (empty != NOWHERE) return (unsigned)empty;
  if (cache->replacement == REPLACE_OLDEST) return cache->ways - 1;
  unsigned way = (unsigned)toll_random_below(&cache->random, cache->ways);
  if (cache->replacement == REPLACE_NOT_RECENT)
    while (cache->recent[index] >> way & 1) way = (way + 1) % cache->ways;
  return way;
}

bool cache_insert(struct cache *cache, uint32_t line, bool dirty, uint32_t *victim) {
  uint64_t index = line % cache->sets, *marks = &cache->dirty[index];
  uint32_t *set = set_of(cache, line);
  unsigned way = leaving_way(cache, index, set);
  bool leaves_dirty = set[way] != LINE_NONE && (*marks >> way & 1);
  *victim = set[way];
  set[way] = line;
  *marks = (*marks & ~(UINT64_C(1) << way)) | (uint64_t)dirty << way;
  note_use(cache, index, set, way);
  return leaves_dirty;
}

bool cache_remove(struct cache *cache, uint32_t line) {
  uint32_t *set = set_of(cache, line);
  uint64_t *marks = &cache->dirty[line % cache->sets];
  int way = way_of(set, cache->ways, line);
  if (way == NOWHERE) return false;
  bool dirty = *marks >> way & 1;
  set[way] = LINE_NONE;
  *marks &= ~(UINT64_C(1) << way);
  return dirty;
}

/* A line of another program: a line number that the modelled program does not use, in a random set. */
void cache_insert_foreign(struct cache *cache, uint32_t *victim, bool *dirty) {
  uint32_t line = (uint32_t)(UINT64_C(0x80000000) + toll_random_below(&cache->random, UINT64_C(0x7fffffff)));
  *dirty = cache_insert(cache, line, false, victim);
}
