/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells that fit into a cache together: as many as it holds, whatever it replaces and wherever their frames lie.
 *
 * A cell is a stretch of memory that is contiguous for the hardware as well: a base page, or a part of one. Cells in which
 * no set is asked for more lines than it has ways cause no misses under any policy, once all of their lines were loaded.
 * With one cell too many, each set that it overfills misses at least once in every lap, since a set cannot have held all of
 * its lines at the lap's begin. So a cell is refused where a lap with it takes longer than one without it by more than its
 * own loads take in this cache, and half of what so many misses cost. Both times are taken right before on this machine.
 * Whole cells are walked, since a hash may choose a set by any of their address bits.
 *
 * The lap is the caller's: a probe times one, a test asks a modelled cache.
 */
#ifndef TOLL_PACK_H
#define TOLL_PACK_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

/* No two levels of a machine are closer in latency than this. */
#define PACK_LEAST_RATIO 1.35

/* Times are of all lines of a cell. cells: all candidates in random order, of which the first `held` are in the set. */
struct pack {
  /* The least time of some laps through the first `count` cells; what those from `tested` on cost is asked. DBL_MAX where
   * there is no time left: the search ends. */
  double (*lap)(void *context, const uint32_t *cells, unsigned tested, unsigned count);
  void *context;
  uint32_t *cells;
  unsigned candidates, held;
  double hit, miss; /* in the level that is filled; what is added where it misses */
  double least;     /* lap through the set */
  bool ended;       /* without a result: a lap was DBL_MAX */
};

static inline double pack_lap(struct pack *p, unsigned tested, unsigned count) {
  const double lap = p->ended ? DBL_MAX : p->lap(p->context, p->cells, tested, count);
  p->ended = lap >= DBL_MAX;
  return lap;
}

static inline void pack_swap(struct pack *p, unsigned a, unsigned b) {
  uint32_t cell = p->cells[a];
  p->cells[a] = p->cells[b];
  p->cells[b] = cell;
}

/* The time of one cell among the first `count`. The rest of the search depends on it, so a disturbed time must not
 * be accepted. */
static inline double pack_mean(struct pack *p, unsigned count) {
  double least = DBL_MAX;
  for (unsigned turn = 0; turn < 3; turn++) {
    const double lap = pack_lap(p, 0, count);
    if (lap < least) least = lap;
  }
  return least / count;
}

/* Finds the times of a level that holds the first `from` cells and of the level after it. Returns how many cells exceed
 * the former, to a factor of two; 0 where none do. */
static inline unsigned pack_overflow(struct pack *p, unsigned from) {
  p->hit = pack_mean(p, from);
  for (unsigned count = 2 * from; !p->ended && 2 * count <= p->candidates; count *= 2)
    if (pack_mean(p, count) > PACK_LEAST_RATIO * p->hit) {
      p->miss = pack_mean(p, 2 * count) - p->hit;
      if (p->miss > (PACK_LEAST_RATIO - 1) * p->hit) return count;
    }
  return 0;
}

/* Whether a lap through the first `count` cells is too long for a set that fits. */
static inline bool pack_misses(const struct pack *p, double lap, unsigned count) {
  return lap > PACK_LEAST_RATIO * p->hit * count;
}

/* Whether the lap through the set and `more` cells shows that these do not fit. */
static inline bool pack_exceeds(const struct pack *p, double lap, unsigned more) {
  return lap - p->least > p->hit * more + p->miss / 2;
}

/* Whether the next `more` cells fit beside the set, twice in a row: of the candidates beyond a full cache none may pass by
 * chance, while one that fits and was refused comes again. A time that was disturbed is too long: that of the set is taken
 * again before cells are accepted by it. If both were disturbed, the set may come to exceed the cache; then the laps are so
 * long that most further cells pass. So no set grows that misses. */
static inline bool pack_fits(struct pack *p, unsigned more) {
  double with = DBL_MAX;
  for (unsigned turn = 0; turn < 2; turn++) {
    with = pack_lap(p, p->held, p->held + more);
    if (pack_misses(p, with, p->held + more) || pack_exceeds(p, with, more)) return false;
    const double without = pack_lap(p, p->held, p->held);
    if (without < p->least) p->least = without;
    if (pack_exceeds(p, with, more)) return false;
  }
  p->held += more;
  p->least = with;
  return true;
}

/* Adds candidates, several at a time while they fit, until so many in a row were refused that few of their kind can be
 * missing. */
static inline void pack_grow(struct pack *p) {
  enum { SEEN = 128, AGAIN = 16 };
  unsigned step = 1, refused = 0;
  p->least = pack_lap(p, 0, p->held);
  for (unsigned next = p->held; !p->ended && next < p->candidates && refused < SEEN;) {
    const unsigned more = step < p->candidates - next ? step : p->candidates - next;
    for (unsigned i = 0; i < more; i++) pack_swap(p, p->held + i, next + i);
    if (pack_fits(p, more)) {
      next += more, step *= 2, refused = 0;
    } else if (more > 1) {
      for (unsigned i = more; i-- > 0;) pack_swap(p, p->held + i, next + i);
      step = more / 2;
    } else {
      next++;
      if (++refused % AGAIN == 0) p->least = pack_lap(p, p->held, p->held); /* the clock may have changed */
    }
  }
}

/* Whether the set misses less without its last cell, in two successive comparisons, or misses too often for a
 * comparison. */
static inline bool pack_suffers(struct pack *p) {
  for (unsigned turn = 0; turn < 2; turn++) {
    const double with = pack_lap(p, p->held - 1, p->held);
    p->least = pack_lap(p, p->held - 1, p->held - 1);
    if (!pack_misses(p, with, p->held) && !pack_exceeds(p, with, 1)) return false;
  }
  return true;
}

static inline void pack_prune(struct pack *p) {
  for (unsigned i = p->held; !p->ended && p->held > 1 && i-- > 0;) {
    pack_swap(p, i, p->held - 1);
    p->held -= pack_suffers(p);
  }
}

/* Fills the first level, or the second. False where the candidates do not exceed it, or where the set misses in the end. */
static inline bool pack_level(struct pack *p, bool second) {
  const unsigned first = pack_overflow(p, 1);
  p->held = 1;
  if (!first) return false;
  if (second) {
    p->held = 2 * first; /* exceed the first level, so that all loads are of the second */
    if (!pack_overflow(p, p->held)) return false;
    pack_grow(p);
    pack_prune(p);
  }
  pack_grow(p);
  return !pack_misses(p, pack_mean(p, p->held) * p->held, p->held) && !p->ended;
}

#endif
