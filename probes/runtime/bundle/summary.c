/* SPDX-License-Identifier: Apache-2.0
 *
 * lmbench's summary from what was measured, in the sections and columns of the file `summary`
 * (src/tollmeter/report/lmbench.py).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

enum { HEAD_BYTES = 4096, ROW_BYTES = 512, MOST_WORDS = 12 };

struct section {
  char head[HEAD_BYTES], row[ROW_BYTES];
  size_t head_used, row_used;
  bool has_any;
};

/* ---- numbers ---- */

static bool has_words(const struct point *point, char **words, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    char value[64];
    const size_t length = strcspn(words[i], "=");
    word_of(point, words[i], length, value, sizeof value);
    if (strcmp(value, words[i] + length + (words[i][length] == '=')) != 0) return false;
  }
  return true;
}

static int metric_named(const struct plan *plan, const struct probe *probe, const char *name) {
  for (unsigned i = 0; i < probe->metrics; i++)
    if (strcmp(plan->metrics[probe->first_metric + i].name, name) == 0) return (int)i;
  return -1;
}

/* is_largest: of the largest buffer, where no cache holds it. */
static double row_value(const struct plan *plan, const struct machine *machine, char **words, unsigned count,
                        bool is_largest) {
  uint64_t largest = is_largest ? 2 * machine->last_bytes : 0;
  double value = NAN;
  for (unsigned i = 0; i < plan->point_count; i++) {
    const struct point *point = &plan->points[i];
    const struct probe *probe = &plan->probes[point->probe];
    if (strcmp(probe->name, words[2]) != 0 || !has_words(point, words + 4, count - 4)) continue;
    const int metric = metric_named(plan, probe, words[3]);
    if (metric < 0 || (is_largest && point->bytes < largest)) continue;
    const struct interval found = interval_of(point, (unsigned)metric);
    if (!found.visits || (!is_largest && isfinite(value))) continue;
    value = found.value / strtod(words[1], NULL);
    largest = point->bytes;
  }
  return value;
}

/* cell: KIND UNIT PROBE METRIC PARAMETER... or level NAME, mhz, one. */
static double cell_value(const struct plan *plan, const struct machine *machine, char *cell) {
  char *words[MOST_WORDS], *place = NULL;
  unsigned count = 0;
  for (char *word = strtok_r(cell, " ", &place); word && count < MOST_WORDS; word = strtok_r(NULL, " ", &place))
    words[count++] = word;
  if (count && strcmp(words[0], "mhz") == 0) return machine->core_hz / 1e6;
  if (count && strcmp(words[0], "one") == 0) return 1;
  if (count == 2 && strcmp(words[0], "level") == 0) {
    struct level levels[MOST_LEVELS];
    const unsigned found = hierarchy_of(plan, machine, levels);
    for (unsigned i = 0; i < found; i++)
      if (strcmp(levels[i].name, words[1]) == 0) return levels[i].latency.value;
  }
  return count >= 4 ? row_value(plan, machine, words, count, strcmp(words[0], "largest") == 0) : NAN;
}

/* The mean of the cells that have a number; after `sum` the sum of all, in which a negative unit subtracts. */
static double cells_value(const struct plan *plan, const struct machine *machine, char *cells) {
  double sum = 0;
  unsigned count = 0;
  const bool is_sum = strncmp(cells, "sum|", 4) == 0;
  char *place = NULL;
  for (char *cell = strtok_r(is_sum ? cells + 4 : cells, "|", &place); cell; cell = strtok_r(NULL, "|", &place)) {
    const double value = cell_value(plan, machine, cell);
    if (is_sum || (isfinite(value) && value > 0)) sum += value, count++;
  }
  if (is_sum) return sum > 0 ? sum : NAN;
  return count ? sum / count : NAN;
}

/* As lmbench's getsummary cuts a number to its column. */
static void number_cut(char *text, size_t room, double value, int width, bool is_whole) {
  char digits[64];
  const char unit = value >= 1e7 ? 'M' : value >= 1e4 ? 'K' : 0;
  if (!isfinite(value)) {
    snprintf(text, room, "%*s", width, "");
  } else if (is_whole) {
    snprintf(digits, sizeof digits, "%.0f", value);
    snprintf(text, room, "%*.*s", width, width, digits);
  } else if (unit) {
    snprintf(digits, sizeof digits, "%.1f", value / (unit == 'M' ? 1e6 : 1e3));
    snprintf(text, room, "%*.*s%c", width - 1, width - 1, digits, unit);
  } else {
    snprintf(digits, sizeof digits, "%.*f", value >= 10 ? 1 : width - 2, value);
    snprintf(text, room, "%*.*s", width, width, digits);
  }
}

/* ---- the file ---- */

/* line: WIDTH BLANKS WHOLE ALWAYS CELLS between tabs. */
static void column_add(struct section *section, const struct plan *plan, const struct machine *machine, char *line) {
  int width, blanks, is_whole, is_always, used = 0;
  char text[80];
  if (sscanf(line, "%d\t%d\t%d\t%d%n", &width, &blanks, &is_whole, &is_always, &used) != 4 || width > 40) return;
  char *cells = line[used] ? line + used + 1 : line + used;
  const double value = cells_value(plan, machine, cells);
  number_cut(text, sizeof text, value, width, is_whole);
  section->has_any |= isfinite(value) && !is_always;
  section->row_used +=
      (size_t)snprintf(section->row + section->row_used, ROW_BYTES - section->row_used, "%*s%s", blanks, "", text);
}

static void section_print(const struct section *section, const struct machine *machine) {
  char system[96];
  if (!section->has_any) return;
  const char *rest = strchr(machine->kernel, ' ');
  snprintf(system, sizeof system, "%.*s", (int)(rest ? rest + 1 - machine->kernel + (long)strcspn(rest + 1, " ") : 90),
           machine->kernel);
  printf("%s%-9.9s %13.13s", section->head, machine->host, system);
  if (strstr(section->head, "Description")) printf(" %23.23s", machine->cpu);
  puts(section->row);
}

void summary_print(const char *folder, const struct plan *plan, const struct machine *machine) {
  static struct section section;
  static char line[LONGEST_LINE];
  char path[1200];
  bool is_titled = false;
  snprintf(path, sizeof path, "%s/summary", folder);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "head\t", 5) == 0 && section.head_used < HEAD_BYTES) {
      section.head_used +=
          (size_t)snprintf(section.head + section.head_used, HEAD_BYTES - section.head_used, "%s\n", line + 5);
    } else if (strncmp(line, "column\t", 7) == 0 && section.row_used < ROW_BYTES) {
      column_add(&section, plan, machine, line + 7);
    } else {
      if (section.has_any && !is_titled) puts("\nThe columns of lmbench 3's summary\n");
      is_titled |= section.has_any;
      section_print(&section, machine);
      section = (struct section){.head_used = 0};
    }
  }
  if (file) fclose(file);
  fflush(stdout);
}
