/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for cells that fit together (probes/memory/pack.h) ends: at once where there is no time left, and with a cell
 * at least where every set seems to miss less without its last one; no set grows in laps that say nothing. What it finds is
 * tested on modelled caches.
 */
#include "../../probes/memory/pack.h"
#include "expect.h"

TOLL_TEST_NAME("test.pack");

enum { CANDIDATES = 256, FIRST = 4, SECOND = 16 };
static uint32_t cells[CANDIDATES];

struct laps {
  unsigned made, most, still_missing;
  bool adapts; /* a set that fits misses for some laps after one that did not fit, as where insertion adapts */
};

/* Of a machine with two levels: all cells miss where one level cannot hold them. */
static double lap(void *context, const uint32_t *order, unsigned tested, unsigned count) {
  struct laps *laps = context;
  (void)order;
  (void)tested;
  EXPECT(count > 0 && laps->made <= laps->most);
  if (laps->made++ == laps->most) return DBL_MAX;
  if (laps->adapts && count > SECOND) laps->still_missing = 3;
  const bool misses = count > SECOND || (laps->still_missing && laps->still_missing--);
  return count * (count <= FIRST ? 1.0 : misses ? 16.0 : 4.0);
}

/* Of a set that misses less without its last cell, whichever it is. */
static double lap_of_misses(void *context, const uint32_t *order, unsigned tested, unsigned count) {
  (void)context;
  (void)order;
  (void)tested;
  EXPECT(count > 0);
  return count * 1000.0;
}

/* Another program takes the CPU for so long that the cells make no difference. */
static double lap_of_another(void *context, const uint32_t *order, unsigned tested, unsigned count) {
  (void)context;
  (void)order;
  (void)tested;
  (void)count;
  return 1e6;
}

int main(void) {
  struct laps laps = {.most = UINT32_MAX};
  struct pack pack = {.lap = lap, .context = &laps, .cells = cells, .candidates = CANDIDATES};
  EXPECT(pack_level(&pack, true) && !pack.ended && pack.held == SECOND);
  const unsigned needed = laps.made;
  for (unsigned most = 0; most < needed; most++) {
    laps = (struct laps){.most = most};
    pack = (struct pack){.lap = lap, .context = &laps, .cells = cells, .candidates = CANDIDATES};
    EXPECT(!pack_level(&pack, true) && pack.ended && pack.held > 0);
  }
  laps = (struct laps){.most = UINT32_MAX, .adapts = true};
  pack = (struct pack){.lap = lap, .context = &laps, .cells = cells, .candidates = CANDIDATES};
  EXPECT(pack_level(&pack, true) && pack.held == SECOND);
  pack = (struct pack){.lap = lap_of_another, .cells = cells, .candidates = CANDIDATES, .held = SECOND, .hit = 1};
  pack_grow(&pack);
  EXPECT(pack.held == SECOND);
  pack = (struct pack){.lap = lap_of_misses, .cells = cells, .candidates = CANDIDATES, .held = SECOND, .hit = 1};
  pack_prune(&pack);
  EXPECT(pack.held == 1);
  return failures;
}
