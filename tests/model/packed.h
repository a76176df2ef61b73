/* SPDX-License-Identifier: Apache-2.0
 *
 * The probe's own search for cells that fit together (probes/memory/pack.h), asked of a modelled cache.
 */
#ifndef PACKED_H
#define PACKED_H

#include <stdint.h>

/* Cycles of one lap through these lines. */
typedef double packed_walk(void *machine, const uint32_t *lines, uint64_t count);

/* lines: those of each candidate, one cell after the other. noise: by how much a lap's time may be too long, as a share. */
struct packed {
  packed_walk *walk;
  void *machine;
  const uint32_t *lines;
  uint32_t candidates, cell_lines, second;
  double noise;
  uint64_t seed;
};

/* How many cells fit; 0 where that is not found. */
uint32_t packed_cells(const struct packed *asked);

#endif
