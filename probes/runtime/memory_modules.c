/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory modules that the firmware lists (SMBIOS 3.6, section 7.18: memory device, type 17). The table is readable
 * by root alone, and guests often have none.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { TABLE_BYTES = 1 << 16, MEMORY_DEVICE = 17, END_OF_TABLE = 127, HEAD = 4 };
enum { SIZE_AT = 0x0C, RATED_AT = 0x15, CONFIGURED_AT = 0x20 };

struct modules {
  unsigned slots, filled, slowest_rated, slowest_configured; /* rates in millions of transfers a second; 0: unknown */
};

static unsigned word_at(const unsigned char *structure, unsigned place) {
  return place + 1 < structure[1] ? structure[place] | (unsigned)structure[place + 1] << 8 : 0;
}

static unsigned slower(unsigned known, unsigned other) {
  return !other || (known && known < other) ? known : other;
}

static void add_device(struct modules *modules, const unsigned char *structure) {
  modules->slots++;
  if (!word_at(structure, SIZE_AT)) return; /* an empty slot */
  modules->filled++;
  modules->slowest_rated = slower(modules->slowest_rated, word_at(structure, RATED_AT));
  modules->slowest_configured = slower(modules->slowest_configured, word_at(structure, CONFIGURED_AT));
}

/* A structure is followed by its strings, which end with two zeros. */
static size_t next_structure(const unsigned char *table, size_t bytes, size_t at) {
  for (at += table[at + 1]; at + 1 < bytes; at++)
    if (!table[at] && !table[at + 1]) return at + 2;
  return bytes;
}

static size_t read_table(unsigned char *table) {
  char moved[TOLL_FOLDER_BYTES];
  size_t used = 0;
  const int file = open(toll_system_path("/sys/firmware/dmi/tables/DMI", moved, sizeof moved), O_RDONLY | O_CLOEXEC);
  for (ssize_t got; file >= 0 && used < TABLE_BYTES; used += (size_t)got)
    if ((got = read(file, table + used, TABLE_BYTES - used)) <= 0) break;
  if (file >= 0) close(file);
  return used;
}

static void put_number(const char *name, unsigned number) {
  char text[16];
  snprintf(text, sizeof text, "%u", number);
  if (number) toll_put_text(name, text);
}

void toll_put_memory_modules(void) {
  static unsigned char table[TABLE_BYTES];
  struct modules modules = {0};
  const size_t bytes = read_table(table);
  for (size_t at = 0; at + HEAD <= bytes && table[at] != END_OF_TABLE && table[at + 1] >= HEAD;
       at = next_structure(table, bytes, at))
    if (table[at] == MEMORY_DEVICE && at + table[at + 1] <= bytes) add_device(&modules, table + at);
  put_number("memory_slots", modules.slots);
  put_number("memory_modules", modules.filled);
  put_number("memory_rated_mts", modules.slowest_rated);
  put_number("memory_configured_mts", modules.slowest_configured);
}
