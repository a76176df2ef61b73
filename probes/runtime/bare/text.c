/* SPDX-License-Identifier: Apache-2.0
 *
 * The C library's routines that a compiler calls of itself, and a few words' worth of reading.
 */
#include "bare.h"

int raise(int number);

void *memcpy(void *to, const void *from, size_t count) {
  uint8_t *target = to;
  const uint8_t *source = from;
  for (; count >= 4 && !(((uintptr_t)target | (uintptr_t)source) & 3); count -= 4, target += 4, source += 4)
    *(uint32_t *)(void *)target = *(const uint32_t *)(const void *)source;
  while (count--) *target++ = *source++;
  return to;
}

void *memset(void *to, int byte, size_t count) {
  uint8_t *target = to;
  uint32_t four = (uint8_t)byte * 0x01010101u;
  for (; count >= 4 && !((uintptr_t)target & 3); count -= 4, target += 4) *(uint32_t *)(void *)target = four;
  while (count--) *target++ = (uint8_t)byte;
  return to;
}

int memcmp(const void *a, const void *b, size_t count) {
  const uint8_t *left = a, *right = b;
  for (; count; count--, left++, right++)
    if (*left != *right) return *left - *right;
  return 0;
}

size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length]) length++;
  return length;
}

bool text_begins(const char *text, const char *beginning) {
  while (*beginning)
    if (*text++ != *beginning++) return false;
  return true;
}

bool text_equals(const char *a, const char *b) {
  return text_begins(a, b) && strlen(a) == strlen(b);
}

uintptr_t text_number(const char *text) {
  const uint32_t base = text_begins(text, "0x") ? 16 : 10;
  uintptr_t number = 0;
  for (text += base == 16 ? 2 : 0; *text; text++) {
    uint32_t digit = (uint32_t)(*text <= '9' ? *text - '0' : (*text | 0x20) - 'a' + 10);
    if (digit >= base) break;
    number = number * base + digit;
  }
  return number;
}

char *text_of_number(char digits[TEXT_OF_NUMBER], uint32_t number) {
  char *first = digits + TEXT_OF_NUMBER - 1;
  *first = '\0';
  do *--first = (char)('0' + number % 10);
  while (number /= 10);
  return first;
}

void say_number(uint32_t number) {
  char digits[TEXT_OF_NUMBER];
  board_say(text_of_number(digits, number));
}

void say_address(uintptr_t address) {
  char text[2 * sizeof address + 3] = "0x";
  for (size_t i = 0; i < 2 * sizeof address; i++)
    text[2 + i] = "0123456789abcdef"[address >> (8 * sizeof address - 4 - 4 * i) & 15];
  board_say(text);
}

/* What the compiler's library does about a division by zero: a clock of 0 Hz on the command line. */
int raise(int number) {
  (void)number;
  board_off();
}
