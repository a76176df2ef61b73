/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for cells that fit together (probes/memory/pack.h) ends: at once where there is no time left, and with a cell
 * at least where every set seems to miss less without its last one. What it finds is tested on modelled caches.
 */
#include "../../probes/memory/pack.h"
#include "expect.h"

TOLL_TEST_NAME("test.pack");

enum { CANDIDATES = 256, FIRST = 4, SECOND = 16 };
static uint32_t cells[CANDIDATES];

struct laps {
  unsigned made, most;
};

/* Of a machine with two levels: all cells miss where one level cannot hold them. */
static double lap(void *context, const uint32_t *order, unsigned changed, unsigned count) {
  struct laps *laps = context;
  (void)order;
  (void)changed;
  EXPECT(count > 0 && laps->made <= laps->most);
  if (laps->made++ == laps->most) return DBL_MAX;
  return count * (count <= FIRST ? 1.0 : count <= SECOND ? 4.0 : 16.0);
}

/* Of a set that misses less without its last cell, whichever it is. */
static double lap_of_misses(void *context, const uint32_t *order, unsigned changed, unsigned count) {
  (void)context;
  (void)order;
  (void)changed;
  EXPECT(count > 0);
  return count * 1000.0;
}

int main(void) {
  struct laps laps = {0, UINT32_MAX};
  struct pack pack = {.lap = lap, .context = &laps, .cells = cells, .candidates = CANDIDATES};
  EXPECT(pack_level(&pack, true) && !pack.ended && pack.held == SECOND);
  const unsigned needed = laps.made;
  for (unsigned most = 0; most < needed; most++) {
    laps = (struct laps){0, most};
    pack = (struct pack){.lap = lap, .context = &laps, .cells = cells, .candidates = CANDIDATES};
    EXPECT(!pack_level(&pack, true) && pack.ended && pack.held > 0);
  }
  pack = (struct pack){.lap = lap_of_misses, .cells = cells, .candidates = CANDIDATES, .held = SECOND, .hit = 1};
  pack_prune(&pack);
  EXPECT(pack.held == 1);
  return failures;
}
