/* SPDX-License-Identifier: Apache-2.0
 *
 * Words at any address, and two copy loops that several probes use.
 *
 * In the byte loop each byte passes through an opaque register; otherwise the compiler would vectorise the loop, or
 * replace it by memcpy. Words are read through types that may alias anything; a misaligned one is a plain load where
 * the architecture has it, and what the compiler makes of a packed type where it has not.
 */
#ifndef TOLL_ALIGNMENT_WORDS_H
#define TOLL_ALIGNMENT_WORDS_H

#include <string.h>

#include "toll.h"

typedef uintptr_t __attribute__((may_alias)) copy_word;
typedef uint16_t __attribute__((may_alias)) copy_half;
typedef struct {
  uintptr_t word;
} __attribute__((packed, may_alias)) copy_packed;
typedef struct {
  uint32_t word;
} __attribute__((packed, may_alias)) copy_packed32;

enum { COPY_WORD = sizeof(uintptr_t) };

static inline void copy_byte_loop(unsigned char *to, const unsigned char *from, size_t bytes) {
  for (; bytes; bytes--) {
    unsigned char byte = *from++;
    TOLL_OPAQUE(byte);
    *to++ = byte;
  }
}

TOLL_NOINLINE static void copy_unaligned_words(void *target, const void *source, size_t bytes) {
  copy_packed *to = target;
  const copy_packed *from = source;
  for (; bytes >= COPY_WORD; bytes -= COPY_WORD) {
    uintptr_t word = (from++)->word;
    TOLL_OPAQUE(word);
    (to++)->word = word;
  }
  copy_byte_loop((unsigned char *)to, (const unsigned char *)from, bytes);
}

#endif
