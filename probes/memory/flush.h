/* SPDX-License-Identifier: Apache-2.0
 *
 * Evicts lines from all caches, which a program may do on x86 and aarch64. Elsewhere only other lines evict them.
 */
#ifndef MEMORY_FLUSH_H
#define MEMORY_FLUSH_H

#include "toll.h"

#if defined(__x86_64__) || defined(__i386__)
static inline bool can_flush(void) {
  return toll_cpu_has("clflush");
}
static inline void flush(const void *line) {
  __asm__ volatile("clflush (%0)" : : "r"(line) : "memory");
}
static inline void flushed(void) {
  __asm__ volatile("mfence" : : : "memory");
}
#elif defined(__aarch64__)
static inline bool can_flush(void) {
  return true;
}
static inline void flush(const void *line) {
  __asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
}
static inline void flushed(void) {
  __asm__ volatile("dsb ish" : : : "memory");
}
#else
static inline bool can_flush(void) {
  return false;
}
static inline void flush(const void *line) {
  (void)line;
}
static inline void flushed(void) {}
#endif

/* Every line of the buffer; returns when the last one is out. */
static inline void flush_buffer(const char *start, size_t bytes, size_t line) {
  for (size_t at = 0; at < bytes; at += line) flush(start + at);
  flushed();
}

#endif
