/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads small files of /proc and /sys. Either may be missing: each function reports that in its return value.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* Reads an open file to its end or until text is full; /proc returns at most a page per read(). */
static size_t read_all(int file, char *text, size_t room) {
  size_t used = 0;
  while (used + 1 < room) {
    ssize_t got = read(file, text + used, room - 1 - used);
    if (got <= 0) break;
    used += (size_t)got;
  }
  text[used] = '\0';
  return used;
}

static const char *system_root(void) {
  static const char *root;
  if (!root && !(root = getenv("TOLL_SYSTEM_ROOT"))) root = "";
  return root;
}

bool toll_system_is_folder(void) {
  return system_root()[0] != '\0';
}

const char *toll_system_path(const char *path, char *room, size_t bytes) {
  const bool moves = toll_system_is_folder() && (strncmp(path, "/sys/", 5) == 0 || strncmp(path, "/proc/", 6) == 0);
  if (!moves) return path;
  snprintf(room, bytes, "%s%s", system_root(), path);
  return room;
}

static bool read_whole(const char *path, char *text, size_t room, size_t *used) {
  char moved[TOLL_FOLDER_BYTES];
  text[0] = '\0';
  int file = open(toll_system_path(path, moved, sizeof moved), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  *used = read_all(file, text, room);
  close(file);
  return *used > 0;
}

bool toll_read_text(const char *path, char *text, size_t room) {
  size_t used = 0;
  if (!read_whole(path, text, room, &used)) return false;
  while (used > 0 && strchr(" \t\r\n", text[used - 1])) text[--used] = '\0';
  return used > 0;
}

bool toll_read_number(const char *path, uint64_t *number) {
  char text[64], *end;
  if (!toll_read_text(path, text, sizeof text)) return false;
  *number = strtoull(text, &end, 10);
  return end != text;
}

bool toll_read_cell(const char *path, uint32_t *value) {
  char bytes[8];
  size_t used = 0;
  if (!read_whole(path, bytes, sizeof bytes, &used) || used < 4) return false;
  *value = 0;
  for (size_t i = 0; i < 4; i++) *value = *value << 8 | (unsigned char)bytes[i];
  return true;
}

bool toll_find_field(const char *path, const char *key, char *text, size_t room) {
  enum { WHOLE = 16384 };
  char *whole = malloc(WHOLE);
  size_t used = 0, key_length = strlen(key);
  bool found = false;
  text[0] = '\0';
  if (whole && read_whole(path, whole, WHOLE, &used)) {
    for (char *line = strtok(whole, "\n"); line && !found; line = strtok(NULL, "\n")) {
      if (strncmp(line, key, key_length) != 0) continue;
      const char *value = line + key_length + strspn(line + key_length, " \t:");
      size_t length = strlen(value) < room ? strlen(value) : room - 1;
      memcpy(text, value, length);
      text[length] = '\0';
      found = true;
    }
  }
  free(whole);
  return found;
}
