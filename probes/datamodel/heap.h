/* SPDX-License-Identifier: Apache-2.0
 *
 * A counted heap for C++ objects: the requested bytes, and the bytes that malloc took for them.
 *
 * The C++ library is not linked (musl's compiler has none), so new and delete are malloc and free here; each adds its size
 * to the account. malloc gives at least what was asked, rounded to its classes, after a header of one word: both grow
 * with the pointer's width, besides the objects themselves.
 */
#ifndef TOLL_DATAMODEL_HEAP_H
#define TOLL_DATAMODEL_HEAP_H

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "heap_metrics.h"
#include "toll.h"

namespace heap {

struct Account {
  uint64_t objects, asked_bytes, taken_bytes; /* alive now */
};
static Account account;

inline void *take(size_t bytes) {
  void *object = malloc(bytes);
  if (!object) abort();
  account.objects++;
  account.asked_bytes += bytes;
  account.taken_bytes += malloc_usable_size(object) + sizeof(size_t);
  return object;
}

/* For a delete without a size: uses the size of malloc's block, which is a few bytes more. */
inline void give_unsized(void *object) {
  if (!object) return;
  const size_t usable = malloc_usable_size(object);
  account.objects--;
  account.asked_bytes -= usable;
  account.taken_bytes -= usable + sizeof(size_t);
  free(object);
}

inline void give(void *object, size_t bytes) {
  if (!object) return;
  account.objects--;
  account.asked_bytes -= bytes;
  account.taken_bytes -= malloc_usable_size(object) + sizeof(size_t);
  free(object);
}

inline void report(struct toll_run *r) {
  toll_report(r, "asked", static_cast<double>(account.asked_bytes));
  toll_report(r, "taken", static_cast<double>(account.taken_bytes));
}

}  // namespace heap

void *operator new(size_t bytes) {
  return heap::take(bytes);
}
void operator delete(void *object, size_t bytes) noexcept {
  heap::give(object, bytes);
}
/* The classes here have known sizes: it is a C++ library's own code that calls this one. */
void operator delete(void *object) noexcept {
  heap::give_unsized(object);
}

#endif
