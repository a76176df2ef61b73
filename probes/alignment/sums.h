/* SPDX-License-Identifier: Apache-2.0
 *
 * The Internet checksum (RFC 1071) of bytes that start at any address, added up in three widths.
 *
 * Each returns the sum as a 16-bit word in memory order, neither complemented nor byte-swapped, of at most 65535 bytes.
 * The target is for routines that copy as well, and is not used here.
 */
#ifndef TOLL_ALIGNMENT_SUMS_H
#define TOLL_ALIGNMENT_SUMS_H

#include "words.h"

typedef uint16_t checksum_routine(void *target, const unsigned char *data, size_t bytes);

static uint16_t fold(uint64_t sum) {
  sum = (sum & UINT32_MAX) + (sum >> 32);
  sum = (sum & UINT32_MAX) + (sum >> 32);
  sum = (sum & UINT16_MAX) + (sum >> 16);
  sum = (sum & UINT16_MAX) + (sum >> 16);
  return (uint16_t)((sum & UINT16_MAX) + (sum >> 16));
}

static uint16_t swap(uint16_t sum) {
  return (uint16_t)(sum << 8 | sum >> 8);
}

/* Two bytes as a 16-bit word in memory order. */
static inline uint32_t pair(unsigned char first, unsigned char second) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return first | (uint32_t)second << 8;
#else
  return second | (uint32_t)first << 8;
#endif
}

/* The sum of a datagram, which fits into 32 bits. */
static inline uint32_t sum_pairs(const unsigned char *data, size_t bytes) {
  uint32_t sum = 0;
  for (; bytes > 1; bytes -= 2, data += 2) {
    unsigned char first = data[0], second = data[1];
    TOLL_OPAQUE(first); /* or the compiler would load both at once */
    sum += pair(first, second);
  }
  return bytes ? sum + pair(*data, 0) : sum;
}

TOLL_NOINLINE static uint16_t sum_bytes(void *target, const unsigned char *data, size_t bytes) {
  (void)target;
  return fold(sum_pairs(data, bytes));
}

/* Never a misaligned load: an odd start is a word whose first byte is missing. */
TOLL_NOINLINE static uint16_t sum_halfwords(void *target, const unsigned char *data, size_t bytes) {
  (void)target;
  const bool odd = (uintptr_t)data & 1 && bytes;
  uint32_t sum = odd ? pair(0, *data) : 0;
  if (odd) data++, bytes--;
  for (; bytes > 1; bytes -= 2, data += 2) {
    copy_half half = *(const copy_half *)data;
    TOLL_OPAQUE(half);
    sum += half;
  }
  const uint16_t folded = fold(bytes ? sum + pair(*data, 0) : sum);
  return odd ? swap(folded) : folded;
}

/* 32 bits at a time into 64, wherever the payload starts. */
TOLL_NOINLINE static uint16_t sum_words(void *target, const unsigned char *data, size_t bytes) {
  (void)target;
  uint64_t sum = 0;
  for (; bytes >= sizeof(uint32_t); bytes -= sizeof(uint32_t), data += sizeof(uint32_t)) {
    uint32_t word = ((const copy_packed32 *)data)->word;
    TOLL_OPAQUE(word);
    sum += word;
  }
  return fold(sum + sum_pairs(data, bytes));
}

#endif
