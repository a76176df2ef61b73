/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap under C++ objects, counted: what was asked for, and what malloc took for it.
 *
 * The C++ library is not linked (musl's compiler has none), so new and delete are malloc and free here; each adds its size
 * to the account. malloc gives at least what was asked, rounded to its classes, behind a header of one word: both grow
 * with the pointer's width, besides the objects themselves.
 */
#ifndef TOLL_DATAMODEL_HEAP_H
#define TOLL_DATAMODEL_HEAP_H

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

inline void give(void *object, size_t bytes) {
  if (!object) return;
  account.objects--;
  account.asked_bytes -= bytes;
  account.taken_bytes -= malloc_usable_size(object) + sizeof(size_t);
  free(object);
}

/* A line `FIELD: N kB` of one of the process's accounts, in bytes; 0 where there is none. */
inline uint64_t account_bytes(const char *path, const char *field) {
  char line[256];
  unsigned long long kilobytes = 0;
  const size_t length = strlen(field);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, field, length) == 0 && sscanf(line + length, ": %llu kB", &kilobytes) == 1) break;
  fclose(file);
  return kilobytes * 1024;
}

/* The most that was ever resident, in bytes; 0 where nobody says, or speaks of an emulator's memory. The high-water mark
 * lags: kernels up to 6.1 add a task's pages to it 64 at a time, and later ones so many for each CPU. What is resident
 * now is counted page by page for smaps_rollup, and is the least that the peak was. Not getrusage's ru_maxrss, which a
 * process inherits through exec from the program that started it. */
inline uint64_t resident_peak_bytes() {
  if (!toll_accounts_are_own()) return 0;
  const uint64_t marked = account_bytes("/proc/self/status", "VmHWM");
  const uint64_t now = account_bytes("/proc/self/smaps_rollup", "Rss");
  return marked > now ? marked : now;
}

inline uint64_t minor_faults() {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_minflt) : 0;
}

}  // namespace heap

void *operator new(size_t bytes) {
  return heap::take(bytes);
}
void operator delete(void *object, size_t bytes) noexcept {
  heap::give(object, bytes);
}
/* The language wants it declared; every class here has a known size, so that nobody calls it. */
void operator delete(void *) noexcept {
  abort();
}

#endif
