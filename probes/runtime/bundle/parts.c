/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins the executables of an ABI's folder again (src/tollmeter/library/executable_parts.py): `parts` says of each which
 * runs of `reference` it has, which fields of four bytes differ in them and by how much, and its other bytes. Where all
 * instructions are words (MIPS), a word's change is guessed from the last one of an equal word. Numbers have seven bits in
 * a byte, the lowest first. Both files are then removed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle.h"

enum { FIELD_BYTES = 4, LONGEST_NAME = 64, GUESSES_BITS = 15 };

struct bytes {
  const unsigned char *at, *end;
};

/* The sum of all that is taken is checked where it is used: past the end a number is 0. */
static size_t number_take(struct bytes *from) {
  size_t number = 0;
  for (unsigned shift = 0; from->at < from->end && shift < 32; shift += 7) {
    const unsigned char byte = *from->at++;
    number |= (size_t)(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return number;
}

static bool bytes_take(struct bytes *from, size_t count, struct bytes *taken) {
  if ((size_t)(from->end - from->at) < count) return false;
  *taken = (struct bytes){from->at, from->at + count};
  from->at += count;
  return true;
}

static bool file_read(const char *folder, const char *name, struct bytes *content) {
  char path[1200];
  struct stat status;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  const size_t room = fstat(fileno(file), &status) == 0 ? (size_t)status.st_size : 0;
  unsigned char *text = malloc(room + 1);
  const size_t length = text ? fread(text, 1, room, file) : 0;
  fclose(file);
  unlink(path);
  *content = (struct bytes){text, text + length};
  return length && length == room;
}

static bool file_write(const char *folder, const char *name, const unsigned char *content, size_t length) {
  char path[1200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file) return false;
  const bool is_written = fwrite(content, 1, length, file) == length;
  return fclose(file) == 0 && is_written && chmod(path, 0755) == 0;
}

/* An executable under way, and the streams that all are made of. */
struct joined {
  bool in_words;
  unsigned char *content;
  size_t length, filled, source;
  struct bytes runs, gaps, changes, own;
};

/* The last change of the words of each hash, in this executable. */
struct guess {
  uint32_t word, change;
};
static struct guess guesses[1 << GUESSES_BITS];

static bool own_add(struct joined *to, size_t count) {
  struct bytes own;
  if (count > to->length - to->filled || !bytes_take(&to->own, count, &own)) return false;
  memcpy(to->content + to->filled, own.at, count);
  to->filled += count;
  return true;
}

static uint32_t word_at(const unsigned char *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void word_put(unsigned char *at, uint32_t word) {
  for (unsigned i = 0; i < FIELD_BYTES; i++) at[i] = (unsigned char)(word >> 8 * i);
}

/* The last gap of a run leads to its end. */
static bool fields_change(struct joined *to, unsigned char *run, size_t count) {
  struct bytes change;
  for (size_t at = number_take(&to->gaps); at != count; at += FIELD_BYTES + number_take(&to->gaps)) {
    if (at > count || count - at < FIELD_BYTES || !bytes_take(&to->changes, FIELD_BYTES, &change)) return false;
    word_put(run + at, word_at(run + at) + word_at(change.at));
  }
  return true;
}

static bool guessed_words_change(struct joined *to, unsigned char *run, size_t count) {
  size_t guessed = number_take(&to->gaps);
  for (size_t at = 0; at + FIELD_BYTES <= count; at += FIELD_BYTES) {
    const uint32_t word = word_at(run + at);
    struct guess *guess = &guesses[(word * UINT32_C(2654435761)) >> (32 - GUESSES_BITS)];
    uint32_t change = guess->word == word ? guess->change : 0;
    if (!guessed--) {
      struct bytes error;
      if (!bytes_take(&to->changes, FIELD_BYTES, &error)) return false;
      change += word_at(error.at);
      *guess = (struct guess){word, change};
      guessed = number_take(&to->gaps);
    }
    word_put(run + at, word + change);
  }
  return !guessed;
}

static bool run_add(struct joined *to, size_t count, const struct bytes *reference) {
  const size_t room = (size_t)(reference->end - reference->at);
  unsigned char *run = to->content + to->filled;
  if (count > to->length - to->filled || to->source > room || count > room - to->source) return false;
  memcpy(run, reference->at + to->source, count);
  to->filled += count;
  to->source += count;
  return to->in_words ? guessed_words_change(to, run, count) : fields_change(to, run, count);
}

static bool content_join(struct joined *to, size_t runs, const struct bytes *reference) {
  to->filled = to->source = 0;
  memset(guesses, 0, sizeof guesses);
  while (runs--) {
    const size_t own = number_take(&to->runs), count = number_take(&to->runs), step = number_take(&to->runs);
    if (!own_add(to, own)) return false;
    to->source += step & 1 ? 0 - (step + 1) / 2 : step / 2;
    if (!run_add(to, count, reference)) return false;
  }
  return own_add(to, to->length - to->filled);
}

static bool executable_join(const char *folder, struct joined *to, const struct bytes *reference) {
  struct bytes spelled;
  char name[LONGEST_NAME];
  const size_t name_length = number_take(&to->runs);
  if (name_length >= sizeof name || !bytes_take(&to->runs, name_length, &spelled)) return false;
  snprintf(name, sizeof name, "%.*s", (int)name_length, (const char *)spelled.at);
  to->length = number_take(&to->runs);
  const size_t runs = number_take(&to->runs);
  to->content = malloc(to->length + 1);
  const bool is_joined =
      to->content && content_join(to, runs, reference) && file_write(folder, name, to->content, to->length);
  free(to->content);
  return is_joined;
}

static bool streams_open(struct joined *to, struct bytes *parts) {
  struct bytes *const streams[] = {&to->runs, &to->gaps, &to->changes, &to->own};
  size_t sizes[4];
  to->in_words = number_take(parts) != 0;
  for (unsigned i = 0; i < 4; i++) sizes[i] = number_take(parts);
  for (unsigned i = 0; i < 4; i++)
    if (!bytes_take(parts, sizes[i], streams[i])) return false;
  return true;
}

bool parts_join(const char *folder) {
  struct bytes reference, parts;
  struct joined to = {0};
  bool is_joined =
      file_read(folder, "reference", &reference) && file_read(folder, "parts", &parts) && streams_open(&to, &parts);
  while (is_joined && to.runs.at < to.runs.end) is_joined = executable_join(folder, &to, &reference);
  return is_joined;
}
