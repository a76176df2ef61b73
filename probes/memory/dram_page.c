/* SPDX-License-Identifier: Apache-2.0
 *
 * What a load from memory costs when the row of the memory chip that it needs is open already. A bank keeps one row of
 * some KiB open; a load from the same row needs no activation, one from another row of the same bank waits until the
 * open row is closed. Pairs of loads, the first anywhere, the second exactly `distance` further: near ones fall into
 * the open row (as far as the controller keeps rows open and does not spread addresses over banks), far ones do not.
 *
 * Every line of the memory belongs to one pair, so the walk goes through four times the last cache and each load is a
 * miss. Neighbouring lines, which prefetchers fetch along, belong to other pairs that come at another time. Huge pages
 * keep a distance in the program's addresses a distance in the memory's.
 */
#include "large.h"
#include "pairs.h"

#define LINE ((size_t)64)

/* The number of the i-th line whose number does not have the bit of the distance. */
static size_t offset(const struct pairs *p, size_t pair) {
  size_t near = p->distance / LINE;
  return (pair / near * 2 * near + pair % near) * LINE;
}

static enum toll_status prepare(struct toll_run *r) {
  struct pairs *p = r->state;
  size_t distance, most = toll_huge_page_bytes() / 2, bytes = whole_huge_pages(4 * toll_last_cache_bytes());
  if (asked(r, "distance", &distance) != TOLL_OK) return toll_refused(r);
  if (distance < LINE || distance > most || distance & (distance - 1))
    return toll_fail(r, "a distance is a power of two from %zu to %zu bytes", LINE, most);
  char *memory = toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .pages = TOLL_PAGES_HUGE});
  if (!memory) return toll_refused(r);
  *p = (struct pairs){.memory = memory, .count = bytes / LINE / 2, .distance = distance, .offset = offset};
  return pairs_lay(r, p);
}

static const uint64_t distances[] = {128,   256,   512,    1024,   2048,   4096,    8192,    16384,
                                     32768, 65536, 131072, 262144, 524288, 1048576, TOLL_END};
static const struct toll_parameter parameters[] = {{.name = "distance",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes from the first miss to the second",
                                                    .values = distances,
                                                    .typical = "1024"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "second_access",
                                              .unit = "ns",
                                              .summary = "a miss at the given distance from the miss before it",
                                              .source = TOLL_DIFFERENCE},
                                             {.name = "first_access",
                                              .unit = "ns",
                                              .summary = "a miss anywhere, and eight dependent additions",
                                              .source = TOLL_CONTROL},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a load from memory cost near the one before it, in a row that is open, and far from it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct pairs),
    .prepare = prepare,
    .body = pairs_body,
    .control = pairs_control,
    .check = pairs_check,
    .revision = 2,
};
