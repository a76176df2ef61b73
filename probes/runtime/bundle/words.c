/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads single values from records. A key stands in quotes before a colon, and a quote inside a text is escaped: no text
 * can look like a key.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bundle.h"

const char *value_of(const char *line, const char *key) {
  char quoted[80];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *found = strstr(line, quoted);
  return found ? found + strlen(quoted) : NULL;
}

double number_of(const char *line, const char *key, double otherwise) {
  const char *text = value_of(line, key);
  char *rest;
  if (!text) return otherwise;
  const double number = strtod(text, &rest);
  return rest == text ? otherwise : number;
}

/* Escaped characters are left as they are: such a text is only printed. */
bool text_of(const char *line, const char *key, char *text, size_t room) {
  const char *from = value_of(line, key);
  size_t used = 0;
  text[0] = '\0';
  if (!from || *from++ != '"') return false;
  for (; *from && *from != '"' && used + 2 < room; from++) {
    if (*from == '\\' && from[1]) text[used++] = *from++;
    text[used++] = *from;
  }
  text[used] = '\0';
  return true;
}

/* The elapsed time. The clock may be set back soon after a boot, and the budget must still end. */
double now_s(void) {
  static double last_s, passed_s;
  struct timespec now = {0, 0};
  const bool has_clock = clock_gettime(CLOCK_MONOTONIC, &now) == 0;
  const double read_s = has_clock ? (double)now.tv_sec + (double)now.tv_nsec * 1e-9 : (double)time(NULL);
  if (read_s > last_s) passed_s += read_s - last_s;
  last_s = read_s;
  return passed_s;
}

bool is_there(const char *path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) close(file);
  return file >= 0;
}
