/* SPDX-License-Identifier: Apache-2.0
 *
 * How many lines of one set a cache holds: a random cycle over lines that lie a power of two apart. Where that distance
 * is a multiple of what one way of the cache covers, all of them fall into one set, and the load turns from a hit into
 * a miss as their number passes the ways. Small pages show it for a first cache that is indexed within the page. On
 * huge pages a program also controls the address bits that index larger caches, unless these hash them.
 */
#include "walk.h"

static enum toll_status prepare(struct toll_run *r) {
  size_t lines, stride;
  if (asked(r, "lines", &lines) != TOLL_OK || asked(r, "stride", &stride) != TOLL_OK) return toll_refused(r);
  if (stride && lines > SIZE_MAX / stride)
    return toll_skip(r, "%zu lines %zu bytes apart exceed the address space", lines, stride);
  enum toll_pages pages = toll_choice(r, "pages") ? TOLL_PAGES_HUGE : TOLL_PAGES_SMALL;
  void *buffer = toll_buffer(r, (struct toll_buffer_request){.bytes = lines * stride, .pages = pages});
  if (!buffer) return toll_refused(r);
  return walk_lay(r, r->state, buffer, lines * stride, stride, TOLL_ORDER_RANDOM);
}

static void load(struct toll_run *r) {
  walk_on(&((struct walk *)r->state)->cursor, r->iterations);
}

static enum toll_status check(struct toll_run *r) {
  return walk_check(r, r->state, load);
}

static const uint64_t line_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,      17,
                                       18, 20, 22, 24, 26, 28, 30, 32, 33, 34, 36, 40, 44, 48, 64, TOLL_END};
static const uint64_t distances[] = {4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576, TOLL_END};
static const char *const page_kinds[] = {"small", "huge", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "lines", .kind = TOLL_COUNT, .summary = "lines in the cycle", .values = line_counts, .typical = "8"},
    {.name = "stride",
     .kind = TOLL_SIZE,
     .summary = "bytes from one line to the next",
     .values = distances,
     .typical = "4096"},
    {.name = "pages", .kind = TOLL_CHOICE, .summary = "small or huge pages", .choices = page_kinds},
    {0}};
static const struct toll_metric metrics[] = {{.name = "load",
                                              .unit = "ns",
                                              .summary = "one load in a random cycle over the lines",
                                              .means = "conflict-of-lines"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many lines at equal distances does each cache hold?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct walk),
    .prepare = prepare,
    .body = load,
    .check = check,
    .quantum = WALK_TURN,
    .revision = 1,
};
