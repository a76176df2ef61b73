/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that a C library would provide. The compiler itself may emit calls of the first three. */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  void *start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return start;
}

void *memset(void *to, int byte, size_t bytes) {
  void *start = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(byte) : "memory");
  return start;
}

int memcmp(const void *left, const void *right, size_t bytes) {
  const unsigned char *a = left, *b = right;
  for (size_t i = 0; i < bytes; i++)
    if (a[i] != b[i]) return a[i] - b[i];
  return 0;
}

size_t strlen(const char *text) {
  size_t count = 0;
  while (text[count]) count++;
  return count;
}

char *strchr(const char *text, int wanted) {
  while (*text && *text != (char)wanted) text++;
  return *text == (char)wanted ? (char *)text : NULL;
}

int strncmp(const char *left, const char *right, size_t most) {
  for (size_t i = 0; i < most; i++)
    if (left[i] != right[i] || !left[i]) return (unsigned char)left[i] - (unsigned char)right[i];
  return 0;
}

int strcmp(const char *left, const char *right) {
  while (*left && *left == *right) left++, right++;
  return (unsigned char)*left - (unsigned char)*right;
}
