/* SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include <math.h>
#include <stdlib.h>

#include "../../probes/memory/pack.h"
#include "../../probes/runtime/toll.h"
#include "model.h"

enum { TOGETHER = 32, ONE_DISTURBED_IN = 50 };

struct packing {
  const struct packed *asked;
  uint32_t *order, *walk; /* of the lines of a group; one lap */
  uint64_t random;
};

static double chance(struct packing *p) {
  return (double)(toll_random(&p->random) >> 11) * 0x1p-53;
}

/* As in the probe: groups of cells, each in the same random order of its lines. */
static uint64_t laid(struct packing *p, const uint32_t *cells, unsigned count) {
  const unsigned in = p->asked->cell_lines;
  uint64_t length = 0;
  for (unsigned group = 0; group < count; group += TOGETHER)
    for (unsigned place = 0; place < TOGETHER * in; place++) {
      const unsigned cell = group + p->order[place] / in;
      if (cell < count) p->walk[length++] = p->asked->lines[(uint64_t)cells[cell] * in + p->order[place] % in];
    }
  return length;
}

static double lap(void *context, const uint32_t *cells, unsigned tested, unsigned count) {
  struct packing *p = context;
  const uint64_t length = laid(p, cells, count);
  (void)tested;
  for (unsigned warm = 0; warm < 2; warm++) p->asked->walk(p->asked->machine, p->walk, length);
  const double longer = fabs(chance(p) + chance(p) + chance(p) - 1.5) * 2 * p->asked->noise;
  const double burst = chance(p) * ONE_DISTURBED_IN < 1 ? 1 + chance(p) / 2 : 1;
  return p->asked->walk(p->asked->machine, p->walk, length) * (1 + longer) * burst;
}

static void shuffle(struct packing *p, uint32_t *numbers, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t j = (uint32_t)toll_random_below(&p->random, i + 1);
    numbers[i] = numbers[j];
    numbers[j] = i;
  }
}

uint32_t packed_cells(const struct packed *asked) {
  const uint32_t places = TOGETHER * asked->cell_lines;
  struct packing p = {.asked = asked, .random = asked->seed};
  struct pack pack = {.lap = lap, .context = &p, .candidates = asked->candidates};
  p.order = calloc(places, sizeof *p.order);
  p.walk = calloc((uint64_t)asked->candidates * asked->cell_lines, sizeof *p.walk);
  pack.cells = calloc(asked->candidates, sizeof *pack.cells);
  bool found = p.order && p.walk && pack.cells;
  if (found) {
    shuffle(&p, p.order, places);
    shuffle(&p, pack.cells, asked->candidates);
    found = pack_level(&pack, asked->second);
  }
  free(p.order);
  free(p.walk);
  free(pack.cells);
  return found ? pack.held : 0;
}

/* ---- on the first model ---- */

struct chased {
  struct machine *machine;
  uint8_t *operations; /* all are loads of one chain */
};

static double chase(void *machine, const uint32_t *lines, uint64_t count) {
  const struct chased *chased = machine;
  return model_run(chased->machine, lines, chased->operations, count);
}

uint32_t model_packed(struct machine *machine, struct packed asked) {
  struct chased chased = {machine, calloc((uint64_t)asked.candidates * asked.cell_lines, 1)};
  asked.walk = chase;
  asked.machine = &chased;
  const uint32_t cells = chased.operations ? packed_cells(&asked) : 0;
  free(chased.operations);
  return cells;
}
