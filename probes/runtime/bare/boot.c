/* SPDX-License-Identifier: Apache-2.0
 *
 * What the boot loader leaves: words of a command line; tags, each its length in words and then its kind, as old ones
 * leave them (Linux's "Booting ARM Linux", 4a); or a device tree (Devicetree Specification 0.4, chapter 5), of which only
 * the memory, the timer's frequency and what was chosen matter. The first file system is the archive of programs. The
 * command line says `wire=ADDRESS`, the UART on which the host talks, `timer_hz=N`, how fast the core's timer counts, and
 * `clock=real` where that is no emulator's.
 */
#include "bare.h"

void boot_read_words(struct boot *boot, const char *line) {
  while (*line) {
    if (text_begins(line, "wire=")) boot->wire = text_number(line + 5);
    if (text_begins(line, "clock=real")) boot->real = true;
    if (text_begins(line, "clock=counted")) boot->counted = true;
    if (text_begins(line, "timer_hz=")) boot->timer_hz = (uint32_t)text_number(line + 9);
    while (*line && *line++ != ' ') continue;
  }
}

/* ---- tags -------------------------------------------------------------------------------------------------------- */

struct tag {
  uint32_t words, kind, data[2];
};
enum { NO_MORE = 0, MEMORY = 0x54410002, ARCHIVE = 0x54420005, COMMAND_LINE = 0x54410009 };

static void read_tags(struct boot *boot, const struct tag *tag) {
  for (; tag->kind != NO_MORE && tag->words; tag = (const void *)((const uint32_t *)tag + tag->words)) {
    if (tag->kind == MEMORY) {
      boot->memory_bytes = tag->data[0];
      boot->memory_at = tag->data[1];
    }
    if (tag->kind == ARCHIVE) {
      boot->archive_start = tag->data[0];
      boot->archive_end = tag->data[0] + tag->data[1];
    }
    if (tag->kind == COMMAND_LINE) boot_read_words(boot, (const char *)tag->data);
  }
}

/* ---- the device tree, whose words are big-endian ------------------------------------------------------------------ */

enum { MAGIC = 0, STRUCTURE = 2, TEXTS = 3 }; /* words of its header */
enum { BEGIN = 1, END = 2, PROPERTY = 3, SKIP = 4 };

static uint32_t word(const uint32_t *cell) {
  const uint8_t *bytes = (const uint8_t *)cell;
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static const uint32_t *after_text(const char *text) {
  return (const uint32_t *)(const void *)(text + ((strlen(text) + 4) & ~3u));
}

/* A number of one or two cells; of two, a core of 32 bits sees the lower half. */
static uintptr_t number_of(const uint32_t *cells, uint32_t bytes) {
  return (uintptr_t)(bytes >= 8 ? (uint64_t)word(cells) << 32 | word(cells + 1) : word(cells));
}

static void read_property(struct boot *boot, const char *node, const char *name, const uint32_t *cells,
                          uint32_t bytes) {
  if (bytes >= 8 && text_begins(node, "memory") && text_equals(name, "reg")) {
    const uint32_t half = bytes >= 16 ? 8 : 4;
    boot->memory_at = number_of(cells, half);
    boot->memory_bytes = number_of(cells + half / 4, half);
  }
  if (text_equals(name, "timebase-frequency") && bytes >= 4) boot->timer_hz = (uint32_t)number_of(cells, bytes);
  if (!text_equals(node, "chosen") || bytes < 4) return;
  if (text_equals(name, "linux,initrd-start")) boot->archive_start = number_of(cells, bytes);
  if (text_equals(name, "linux,initrd-end")) boot->archive_end = number_of(cells, bytes);
  if (text_equals(name, "bootargs")) boot_read_words(boot, (const char *)cells);
}

static void read_tree(struct boot *boot, const uint32_t *tree) {
  const char *texts = (const char *)tree + word(tree + TEXTS), *node = "";
  const uint32_t *at = (const uint32_t *)(const void *)((const char *)tree + word(tree + STRUCTURE));
  for (uint32_t kind; (kind = word(at++)) >= BEGIN && kind <= SKIP;) {
    if (kind == BEGIN) {
      node = (const char *)at;
      at = after_text(node);
    } else if (kind == PROPERTY) {
      read_property(boot, node, texts + word(at + 1), at + 2, word(at));
      at += 2 + (word(at) + 3) / 4;
    }
  }
}

void boot_read(struct boot *boot, const uint32_t *left) {
  const uint32_t magic = 0xd00dfeed;
  if (word(left + MAGIC) == magic)
    read_tree(boot, left);
  else
    read_tags(boot, (const void *)left);
}
