/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers for probes of caches and memory: huge pages if the system provides them, so that translation of small pages
 * does not affect the result; and the share of the memory in huge pages, which is reported with it.
 */
#ifndef MEMORY_LARGE_H
#define MEMORY_LARGE_H

#include <sys/mman.h>
#include <unistd.h>

#include "asked.h"

#define HUGE_SHARE_METRIC                                                          \
  {                                                                                \
    .name = "huge_pages", .unit = "ratio", .better = TOLL_NEITHER,                 \
    .summary = "share of the memory that lies in huge pages", .source = TOLL_GAUGE \
  }

static inline double huge_share(const void *memory, size_t bytes) {
  size_t huge = toll_huge_bytes(memory);
  return huge >= bytes ? 1 : (double)huge / (double)bytes;
}

static inline char *large_buffer(struct toll_run *r, size_t bytes, unsigned colour) {
  return (char *)toll_buffer(r,
                             (struct toll_buffer_request){.bytes = bytes, .pages = TOLL_PAGES_LARGE, .colour = colour});
}

/* Whole huge pages, for memory that a companion touches again. */
static inline size_t whole_huge_pages(size_t bytes) {
  size_t page = toll_huge_page_bytes();
  return (bytes + page - 1) / page * page;
}

/* Gives the pages back and touches them anew: a page lies on the memory node of the CPU that first touches it, and all
 * buffers were first touched on the timed worker's. Where there is one node they lie there already. memory: of
 * large_buffer(), whole huge pages, colour 0, not written yet. */
static inline void touch_here(char *memory, size_t bytes) {
  if (toll_node_count() == 1) return;
  madvise(memory, bytes, MADV_DONTNEED);
  for (size_t i = 0; i < bytes; i += toll_page_bytes()) *(volatile char *)(memory + i) = 0;
}

/* A size that is many times one last cache, for as many last caches as so many of the visit's CPUs have between them. */
static inline size_t for_all_caches(const struct toll_run *r, size_t size, unsigned cpus) {
  const size_t caches = toll_last_caches_bytes(r, cpus) / toll_last_cache_bytes();
  if (caches < 2) return size;
  return size < SIZE_MAX / 4 / caches ? size * caches : SIZE_MAX / 4;
}

#endif
