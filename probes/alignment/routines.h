/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to copy bytes whose ends need not be aligned, as libraries for small machines and large ones have them.
 *
 * Each takes (target, source, bytes), areas apart from each other, and is a function of its own.
 */
#ifndef TOLL_ALIGNMENT_ROUTINES_H
#define TOLL_ALIGNMENT_ROUTINES_H

#include "words.h"

typedef void copy_routine(void *target, const void *source, size_t bytes);

TOLL_NOINLINE static void copy_bytes(void *target, const void *source, size_t bytes) {
  copy_byte_loop(target, source, bytes);
}

/* Words where both ends are aligned, else bytes all the way: the memcpy of newlib's small build and of many kernels. */
TOLL_NOINLINE static void copy_words_else_bytes(void *target, const void *source, size_t bytes) {
  copy_word *to = target;
  const copy_word *from = source;
  if ((((uintptr_t)target | (uintptr_t)source) & (COPY_WORD - 1)) == 0)
    for (; bytes >= COPY_WORD; bytes -= COPY_WORD) {
      uintptr_t word = *from++;
      TOLL_OPAQUE(word);
      *to++ = word;
    }
  copy_byte_loop((unsigned char *)to, (const unsigned char *)from, bytes);
}

/* 16 bits at a time if both ends have equal alignment to 2 bytes: this restored the speed of a TCP stack after a
 * 14-byte Ethernet header (suite rtems-2005). */
TOLL_NOINLINE static void copy_halfwords(void *target, const void *source, size_t bytes) {
  unsigned char *to = target;
  const unsigned char *from = source;
  if ((((uintptr_t)to ^ (uintptr_t)from) & 1) == 0 && bytes) {
    if ((uintptr_t)to & 1) *to++ = *from++, bytes--;
    for (; bytes >= sizeof(copy_half); bytes -= sizeof(copy_half)) {
      copy_half half = *(const copy_half *)from;
      TOLL_OPAQUE(half);
      *(copy_half *)to = half;
      to += sizeof(copy_half), from += sizeof(copy_half);
    }
  }
  copy_byte_loop(to, from, bytes);
}

/* The word that begins `shift` bits into the first of two adjacent words of memory. */
static inline uintptr_t copy_merge(uintptr_t first, uintptr_t second, unsigned shift) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return first >> shift | second << (8 * COPY_WORD - shift);
#else
  return first << shift | second >> (8 * COPY_WORD - shift);
#endif
}

/* Aligns the target by copying bytes; then copies aligned words, each from two adjacent words of the source, shifted
 * and merged. */
TOLL_NOINLINE static void copy_shift_merge(void *target, const void *source, size_t bytes) {
  unsigned char *to = target;
  const unsigned char *from = source;
  for (; bytes && (uintptr_t)to % COPY_WORD; bytes--) *to++ = *from++;
  const unsigned shift = 8 * (unsigned)((uintptr_t)from % COPY_WORD);
  if (shift && bytes >= 2 * COPY_WORD) {
    const copy_word *word = (const copy_word *)(from - shift / 8);
    uintptr_t first = *word++;
    for (; bytes >= 2 * COPY_WORD; bytes -= COPY_WORD, to += COPY_WORD, from += COPY_WORD) {
      uintptr_t second = *word++;
      TOLL_OPAQUE(second);
      *(copy_word *)to = copy_merge(first, second, shift);
      first = second;
    }
  }
  if (shift)
    copy_byte_loop(to, from, bytes);
  else
    copy_words_else_bytes(to, from, bytes);
}

#if defined(__x86_64__) || defined(__i386__)
#define COPY_HAS_STRING 1
TOLL_NOINLINE static void copy_string(void *target, const void *source, size_t bytes) {
  __asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
}
#else
#define COPY_HAS_STRING 0
TOLL_NOINLINE static void copy_string(void *target, const void *source, size_t bytes) {
  copy_byte_loop(target, source, bytes);
}
#endif

TOLL_NOINLINE static void copy_libc(void *target, const void *source, size_t bytes) {
  memcpy(target, source, bytes);
}

#endif
