/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of this target. An emulator's run time says nothing about the emulated machine, so the environment names
 * what replaces the clock:
 *
 *   TOLL_CLOCK=virtual            the system's clock runs on an emulator's count of instructions, and is labelled so
 *   TOLL_CLOCK=instructions:PATH  the emulator keeps the number of instructions executed so far in the file PATH
 *
 * The file is a page that the emulator maps too: reading the counter is a load, and no system call. Its first word is
 * the count, its second is 1, both 64 bits in the emulator's byte order, which need not be this program's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

static const char *kind = "hardware";
static const volatile uint32_t *counter; /* count, then mark, each in two halves */
static bool swapped;                     /* the emulator's byte order differs from this program's */

static bool refuse(char *error, size_t room, const char *what, const char *path) {
  snprintf(error, room, "%s: %.100s: %s", what, path, strerror(errno));
  return false;
}

/* The page's third word is the gate of a profile: open if it is not 0, in any byte order. */
void toll_counter_gate(bool open) {
  enum { GATE = 4 };
  ((volatile uint32_t *)counter)[GATE] = open;
}

static bool open_counter(const char *path, char *error, size_t room) {
  enum { BYTES = 24 };
  const bool gated = getenv("TOLL_PROFILE") != NULL;
  uint64_t mark;
  int file = open(path, (gated ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (file < 0) return refuse(error, room, "the instruction counter cannot be opened", path);
  void *page = mmap(NULL, BYTES, PROT_READ | (gated ? PROT_WRITE : 0), MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) return refuse(error, room, "the instruction counter cannot be mapped", path);
  counter = page;
  memcpy(&mark, (const char *)page + sizeof mark, sizeof mark);
  swapped = mark != 1;
  return true;
}

bool toll_clock_choose(char *error, size_t room) {
  static const char counted[] = "instructions:";
  const char *wanted = getenv("TOLL_CLOCK");
  if (!wanted) return true;
  if (strncmp(wanted, counted, sizeof counted - 1) == 0) {
    kind = "instructions";
    return open_counter(wanted + sizeof counted - 1, error, room);
  }
  if (strcmp(wanted, "virtual") == 0) {
    kind = "virtual";
    return true;
  }
  snprintf(error, room, "TOLL_CLOCK is not understood: %.100s", wanted);
  return false;
}

const char *toll_clock_kind(void) {
  return kind;
}

bool toll_counts_instructions(void) {
  return counter != NULL;
}

bool toll_clock_is_real(void) {
  return strcmp(kind, "hardware") == 0;
}

bool toll_accounts_are_own(void) {
  return !toll_counts_instructions();
}

enum toll_status toll_needs_kernel(struct toll_run *r) {
  const char *asked = getenv("TOLL_PROFILE");
  if (!toll_counts_instructions() || (asked && strstr(asked, "+misses"))) return TOLL_OK;
  return toll_skip(r,
                   "only the program's own instructions are counted here, and what it crosses into is the kernel: "
                   "a guest (--target guest) or a machine of its own sees both");
}

/* In halves, since a 32-bit program has no single load for it. The low half wraps every 2^32 instructions, and the high
 * one is read again to see it. */
uint64_t toll_counter_read(void) {
  const unsigned low = swapped == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) ? 0 : 1;
  uint32_t high, rest;
  do {
    high = counter[1 - low];
    rest = counter[low];
  } while (counter[1 - low] != high);
  if (swapped) {
    high = __builtin_bswap32(high);
    rest = __builtin_bswap32(rest);
  }
  return (uint64_t)high << 32 | rest;
}
