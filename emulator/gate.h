/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of a plugin that is loaded beside count.so: gate=PATH, the counter's page, in which the program sets
 * whether the plugin counts at the moment; and the path of the plugin's output.
 */
#ifndef TOLL_GATE_H
#define TOLL_GATE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct gate {
  const volatile uint32_t *page;
  FILE *report;
};

/* The value of a key among the plugin's arguments; empty if it is missing. */
static inline const char *gate_word(const char *key, int count, char **words) {
  const size_t bytes = strlen(key);
  for (int i = 0; i < count; i++)
    if (strncmp(words[i], key, bytes) == 0) return words[i] + bytes;
  return "";
}

/* key: the key of the output path. False if either file cannot be opened. */
static inline bool gate_find(struct gate *gate, const char *key, int count, char **words) {
  enum { PAGE_BYTES = 24 };
  const int file = open(gate_word("gate=", count, words), O_RDONLY | O_CLOEXEC);
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  gate->page = mapped == MAP_FAILED ? NULL : mapped;
  gate->report = fopen(gate_word(key, count, words), "w");
  return gate->page && gate->report;
}

static inline bool gate_is_open(const struct gate *gate) {
  enum { GATE_WORD = 4 };
  return gate->page[GATE_WORD] != 0;
}

#endif
