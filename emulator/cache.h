/* SPDX-License-Identifier: Apache-2.0
 *
 * A set-associative cache: which lines it holds, which of them are dirty, and which one leaves. Of the column that is
 * modelled (misses.c), and of the machines that the tests model.
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
  uint32_t *lines; /* of a set: most recent first where the oldest goes */
  uint64_t *dirty, *recent;
  uint64_t random;
};

bool cache_make(struct cache *cache, uint64_t sets, uint32_t ways, uint32_t replacement, uint64_t seed);
void cache_drop(struct cache *cache);
/* Whether the line is there; it is then the most recent one. */
bool cache_touch(struct cache *cache, uint32_t line);
/* Marks a line that is there. */
void cache_dirty(struct cache *cache, uint32_t line);
/* Puts a line in that is not there. True where a dirty line had to leave; *victim is what left, LINE_NONE if nothing. */
bool cache_insert(struct cache *cache, uint32_t line, bool dirty, uint32_t *victim);
/* Takes out a line, if it is there. True where it was dirty. */
bool cache_remove(struct cache *cache, uint32_t line);
void cache_insert_foreign(struct cache *cache, uint32_t *victim, bool *dirty);

#endif
