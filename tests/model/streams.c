/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a probe's walk meets its lines, by the runtime's own code, and how far apart the loads of a stream lie,
 * by the emulator's: chase.c, random.c, reuse.c and stack.c are compiled into this library as they stand.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "../../emulator/reuse.h"
#include "../../probes/runtime/internal.h"
#include "model.h"

static size_t base_page_bytes;

size_t toll_page_bytes(void) {
  return base_page_bytes;
}

/* No cache of the machine that runs the model needs to be left in any state. */
size_t toll_last_cache_bytes(void) {
  return 0;
}

size_t toll_line_bytes(void) {
  return 64;
}

/* Writes the numbers of the nodes that a walk with toll_chase() meets, from its head on; returns how many, 0 without
 * memory. A node's number is its place in the buffer in strides. page_bytes: of a base page.
 *
 * The order does not depend on how far apart the nodes lie, but for the seed, of which the stride is a part: here they
 * lie side by side, with as many in a page, and a walk over 256 MiB needs 32. */
uint64_t stream_chase(uint64_t seed, uint64_t count, uint64_t stride, int order, uint64_t page_bytes, uint32_t *nodes) {
  const uint64_t side_by_side = sizeof(void *), bytes = count * side_by_side;
  base_page_bytes = (page_bytes < stride ? 1 : page_bytes / stride) * side_by_side;
  struct toll_visit visit = {0};
  struct toll_run r = {.seed = seed ^ stride ^ side_by_side, .visit = &visit};
  char *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (buffer == MAP_FAILED) return 0;
  madvise(buffer, bytes, MADV_HUGEPAGE);
  void **head = toll_chase(&r, buffer, bytes, side_by_side, (enum toll_order)order), **at = head;
  uint64_t met = 0;
  do {
    nodes[met++] = (uint32_t)((uint64_t)((char *)at - buffer) / side_by_side);
    at = (void **)*at;
  } while (at != head);
  munmap(buffer, bytes);
  return met;
}

/* As the emulator's plugin tells it (emulator/distances.c), with an operation in place of an instruction. Counted are the
 * operations from `from` on. loads: of each of REUSE_SIZES places the size in lines, those foreseen, and the others. */
bool stream_distances(const uint32_t *lines, const uint8_t *operations, uint64_t count, uint64_t from, uint64_t one_in,
                      double (*loads)[3]) {
  struct habit habits[UINT8_MAX + 1] = {{0}};
  struct reuse reuse;
  if (!reuse_make(&reuse, one_in)) return false;
  for (uint64_t i = 0; i < count; i++) {
    if (operations[i] == OP_STORE)
      reuse_store(&reuse, lines[i]);
    else
      reuse_load(&reuse, &habits[operations[i]], lines[i], i >= from);
  }
  for (unsigned place = 0; place < REUSE_SIZES; place++) {
    loads[place][0] = reuse_lines(place);
    loads[place][1] = (double)reuse.foreseen[place];
    loads[place][2] = (double)reuse.others[place];
  }
  stack_drop(&reuse.stack);
  return true;
}
