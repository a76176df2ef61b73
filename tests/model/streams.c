/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a probe's walk meets its lines, by the runtime's own code: chase.c and random.c are compiled into
 * this library as they stand.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "../../probes/runtime/toll.h"

static size_t base_page_bytes;

size_t toll_page_bytes(void) {
  return base_page_bytes;
}

/* Writes the numbers of the nodes that a walk with toll_chase() meets, from its head on; returns how many, 0 without
 * memory. A node's number is its place in the buffer in strides. page_bytes: of a base page. */
uint64_t stream_chase(uint64_t seed, uint64_t bytes, uint64_t stride, int order, uint64_t page_bytes, uint32_t *nodes) {
  base_page_bytes = page_bytes;
  struct toll_run r = {.seed = seed};
  char *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (buffer == MAP_FAILED) return 0;
  madvise(buffer, bytes, MADV_HUGEPAGE);
  void **head = toll_chase(&r, buffer, bytes, stride, (enum toll_order)order), **at = head;
  uint64_t count = 0;
  do {
    nodes[count++] = (uint32_t)((uint64_t)((char *)at - buffer) / stride);
    at = (void **)*at;
  } while (at != head);
  munmap(buffer, bytes);
  return count;
}
