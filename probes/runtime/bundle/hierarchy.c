/* SPDX-License-Identifier: Apache-2.0
 *
 * Levels of the memory hierarchy from the latency of dependent loads over the size of a buffer. A level's latency is that
 * of the largest buffer that half of it holds. It ends where the latency passes the geometric mean of its own and the next
 * one's: between two measured sizes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

enum { MOST_SIZES = 128 };

struct place {
  uint64_t bytes;
  struct interval latency;
};

static int by_size(const void *one, const void *other) {
  const struct place *a = one, *b = other;
  return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int latency_metric(const struct plan *plan, const struct probe *probe) {
  for (unsigned i = 0; i < probe->metrics; i++)
    if (strcmp(plan->metrics[probe->first_metric + i].means, "latency-of-size") == 0) return (int)i;
  return -1;
}

/* The curve on small pages in the first ABI that has one, ordered by size. */
static unsigned curve_of(const struct plan *plan, struct place *places) {
  unsigned count = 0, abi = UINT16_MAX;
  for (unsigned i = 0; i < plan->point_count && count < MOST_SIZES; i++) {
    const struct point *point = &plan->points[i];
    const int metric = latency_metric(plan, &plan->probes[point->probe]);
    char pages[16], size[32];
    if (metric < 0 || (abi != UINT16_MAX && point->abi != abi)) continue;
    word_of(point, "pages", 5, pages, sizeof pages);
    word_of(point, "size", 4, size, sizeof size);
    const struct interval latency = interval_of(point, (unsigned)metric);
    if ((*pages && strcmp(pages, "small") != 0) || !latency.visits) continue;
    abi = point->abi;
    places[count++] = (struct place){strtoull(size, NULL, 10), latency};
  }
  qsort(places, count, sizeof *places, by_size);
  return count;
}

/* The largest buffer of at most so many bytes. NULL where none is that small. */
static const struct place *largest_in(const struct place *places, unsigned count, uint64_t bytes) {
  const struct place *found = NULL;
  for (unsigned i = 0; i < count && places[i].bytes <= bytes; i++) found = &places[i];
  return found;
}

static void find_ends(struct level *levels, unsigned level_count, const struct place *places, unsigned count) {
  for (unsigned i = 0; i + 1 < level_count; i++) {
    const double between = sqrt(levels[i].latency.value * levels[i + 1].latency.value);
    for (unsigned at = 0; at + 1 < count && !levels[i].most_bytes; at++)
      if (places[at].latency.value < between && places[at + 1].latency.value >= between &&
          places[at + 1].bytes > levels[i].reported_bytes / 2) {
        levels[i].least_bytes = places[at].bytes;
        levels[i].most_bytes = places[at + 1].bytes;
      }
  }
}

unsigned hierarchy_of(const struct plan *plan, const struct machine *machine, struct level *levels) {
  static struct place places[MOST_SIZES];
  const unsigned count = curve_of(plan, places);
  unsigned found = 0;
  if (count < 3) return 0;
  for (unsigned i = 1; i < MOST_LEVELS; i++) {
    const struct place *place = largest_in(places, count, machine->cache_bytes[i] / 2);
    if (!machine->cache_bytes[i] || !place || (found && machine->cache_bytes[i] <= levels[found - 1].reported_bytes))
      continue;
    levels[found] = (struct level){.reported_bytes = machine->cache_bytes[i], .latency = place->latency};
    snprintf(levels[found++].name, sizeof levels->name, i == 1 ? "L1d" : "L%u", i);
  }
  if (places[count - 1].bytes >= 2 * machine->last_bytes && found < MOST_LEVELS) {
    levels[found] = (struct level){.latency = places[count - 1].latency};
    snprintf(levels[found++].name, sizeof levels->name, "memory");
  }
  find_ends(levels, found, places, count);
  return found;
}

static const char *size_text(char *text, size_t room, uint64_t bytes) {
  const bool is_large = bytes >= 1u << 20;
  snprintf(text, room, "%.4g %s", (double)bytes / (is_large ? 1 << 20 : 1 << 10), is_large ? "MiB" : "KiB");
  return text;
}

void hierarchy_print(const struct plan *plan, const struct machine *machine) {
  struct level levels[MOST_LEVELS];
  char one[32], two[32];
  const unsigned count = hierarchy_of(plan, machine, levels);
  if (count)
    puts("\nMemory: latency of a dependent load, with its 95 % interval; where a level ends; its size as reported");
  for (unsigned i = 0; i < count; i++) {
    const struct level *level = &levels[i];
    char ends[80] = "";
    if (level->most_bytes)
      snprintf(ends, sizeof ends, "%s to %s", size_text(one, sizeof one, level->least_bytes),
               size_text(two, sizeof two, level->most_bytes));
    printf("  %-7s %9.3g ns %s%.3g  %-24s %s\n", level->name, level->latency.value,
           isfinite(level->latency.half) ? "+-" : "+- more than ",
           isfinite(level->latency.half) ? level->latency.half : 0, ends,
           level->reported_bytes ? size_text(one, sizeof one, level->reported_bytes) : "");
  }
}
