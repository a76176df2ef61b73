/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of a memory hierarchy, for tests: address streams in, core cycles out. What it stands on is textbook (Hennessy
 * and Patterson, Computer Architecture, appendix B and chapter 2): set-associative caches behind each other, a bounded
 * number of misses under way at each (Kroft 1981), a store buffer, translation buffers, and a prefetcher that follows
 * constant strides inside a page (Chen and Baer 1995).
 *
 * Everything is counted in lines and core cycles. A machine of which only one line in 2^k is looked at behaves like one
 * with 2^k times fewer sets and 2^k times fewer lines in a page, so long as all of its caches take those k bits of the
 * line's number as they are: large machines are run that way (set sampling, Puzak 1985).
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "../../emulator/cache.h"

enum { MOST_LEVELS = 4, MOST_TLBS = 2, MOST_CHAINS = 64, MOST_UNDER_WAY = 256, FLIGHTS = 512 };

struct level_shape {
  uint64_t sets;
  uint32_t ways, replacement;
  uint32_t write_through, no_allocate;
  uint32_t misses;   /* requests past this level that may be under way */
  uint32_t victims;  /* it holds what the level above gave up, and nothing that this still has */
  double latency;    /* from issue to data where the line is found here */
  double transfer;   /* how long one line keeps the way into or out of this level busy */
  double neighbours; /* lines that others put here for each of our look-ups */
};

struct tlb_shape {
  uint32_t sets, ways;
  double miss; /* what finding a translation behind this buffer costs */
};

struct shape {
  uint32_t levels, tlbs;
  struct level_shape level[MOST_LEVELS];
  struct tlb_shape tlb[MOST_TLBS];
  double memory_latency, memory_transfer;
  double load_gap, store_gap;    /* at most one load, one store in so many cycles */
  uint32_t window, store_buffer; /* loads and stores that may be under way */
  uint32_t page_lines;           /* of a base page */
  uint32_t translation_pages;    /* base pages that one translation covers */
  uint32_t prefetch_forward, prefetch_backward;
  uint32_t prefetch_depth, prefetch_reach; /* strides ahead; the longest stride in lines */
  uint32_t prefetch_pairs;                 /* a miss of the second level brings the other line of its pair */
  uint32_t unused;
};

/* What an operation does. Below MOST_CHAINS: a load that waits for the load before it of the same chain. From OP_LOADS on:
 * loads that wait for none, of so many instructions, each with a stride of its own. */
enum { OP_LOAD = MOST_CHAINS, OP_STORE, OP_FENCE, OP_LOADS };

struct machine;

/* frames: the physical frame of each base page, kept by the caller. NULL without memory. */
struct machine *model_new(const struct shape *shape, const uint32_t *frames, uint64_t seed);
void model_free(struct machine *m);
/* Runs `count` operations on virtual lines, and returns the cycles until all are done. */
double model_run(struct machine *m, const uint32_t *lines, const uint8_t *operations, uint64_t count);
/* Look-ups answered by each level, then by memory, since the machine was made. */
void model_hits(const struct machine *m, uint64_t *hits);
/* Cycles that translation adds to `count` dependent loads of pages, all of them after `warm` others. */
double model_translate(const struct shape *shape, const uint32_t *pages, uint64_t warm, uint64_t count);

#endif
