/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of a set-associative cache: the lines in it, which of them are dirty, and which one is evicted. Used by
 * misses.c, and by tests that model machines.
 */
#ifndef TOLL_CACHE_H
#define TOLL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define LINE_NONE UINT32_MAX

enum replacement {
  REPLACE_OLDEST,    /* least recently used */
  REPLACE_ANY,       /* at random */
  REPLACE_NOT_RECENT /* any line that was not used since all others were: one bit a line */
};

struct cache {
  uint64_t sets;
  uint32_t ways, replacement;
  uint32_t *lines; /* lines of each set, the most recent first if the oldest is replaced */
  uint64_t *dirty, *recent;
  uint64_t random;
};

bool cache_make(struct cache *cache, uint64_t sets, uint32_t ways, uint32_t replacement, uint64_t seed);
void cache_drop(struct cache *cache);
/* Returns whether the line is in the cache, and makes it the most recent one. */
bool cache_touch(struct cache *cache, uint32_t line);
/* Marks a line in the cache as dirty. */
void cache_dirty(struct cache *cache, uint32_t line);
/* Inserts a line. Returns whether a dirty line was evicted; *victim is the evicted line, LINE_NONE if there was
 * none. */
bool cache_insert(struct cache *cache, uint32_t line, bool dirty, uint32_t *victim);
/* Removes a line, if it is in the cache. Returns whether it was dirty. */
bool cache_remove(struct cache *cache, uint32_t line);
void cache_insert_foreign(struct cache *cache, uint32_t *victim, bool *dirty);

#endif
