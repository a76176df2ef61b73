/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that a library of headers takes, by malloc itself or by new, counted: its calls are compiled here, and go
 * by these names. Include it before the library, and after the headers of C and C++, whose own calls are not counted.
 *
 * Such a program frees everything before it ends, so the peak of live memory is used; a probe reports it among
 * HEAP_METRICS.
 */
#ifndef TOLL_DATAMODEL_BLOCKS_H
#define TOLL_DATAMODEL_BLOCKS_H

#include <malloc.h>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <vector>

#include "heap_metrics.h"
#include "toll.h"

namespace blocks {

enum { MOST = 256 };
struct Bytes {
  size_t asked, taken;
};
struct Block {
  void *start;
  Bytes bytes;
};
static Block alive[MOST]; /* each is a matrix or a vector; a few exist at a time */
static Bytes now, most;

inline void *took(void *start, size_t bytes) {
  unsigned free_place = 0;
  if (!start) return nullptr;
  while (free_place < MOST && alive[free_place].start) free_place++;
  if (free_place == MOST) abort();
  alive[free_place] = {start, {bytes, malloc_usable_size(start) + sizeof(size_t)}};
  now.asked += bytes;
  now.taken += alive[free_place].bytes.taken;
  if (now.asked > most.asked) most = now;
  return start;
}

inline void gives(const void *start) {
  for (Block &block : alive) {
    if (!start || block.start != start) continue;
    now.asked -= block.bytes.asked;
    now.taken -= block.bytes.taken;
    block.start = nullptr;
  }
}

inline void report(struct toll_run *r) {
  toll_report(r, "asked", static_cast<double>(most.asked));
  toll_report(r, "taken", static_cast<double>(most.taken));
}

}  // namespace blocks

inline void *blocks_malloc(size_t bytes) {
  return blocks::took(std::malloc(bytes), bytes);
}
inline void *blocks_realloc(void *start, size_t bytes) {
  blocks::gives(start);
  return blocks::took(std::realloc(start, bytes), bytes);
}
inline void blocks_free(void *start) {
  blocks::gives(start);
  std::free(start);
}

void *operator new(size_t bytes) {
  void *start = blocks_malloc(bytes);
  if (!start) abort();
  return start;
}
void operator delete(void *start) noexcept {
  blocks_free(start);
}
void operator delete(void *start, size_t) noexcept {
  blocks_free(start);
}

/* The library says std::malloc here and malloc there. */
namespace std {
using ::blocks_free;
using ::blocks_malloc;
using ::blocks_realloc;
}  // namespace std
#define malloc(bytes)         blocks_malloc(bytes)
#define realloc(start, bytes) blocks_realloc(start, bytes)
#define free(start)           blocks_free(start)

#endif
