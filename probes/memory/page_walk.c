/* SPDX-License-Identifier: Apache-2.0
 *
 * What a walk through the page tables costs, by how much memory the loads may go to: the tables grow with the reach
 * (8 bytes a page on 64-bit machines), and leave one cache after the other.
 *
 * So that the data stay in a near cache while the tables outgrow it, the same 32 MiB are mapped again and again, and
 * every page gives one line: half a MiB of lines, whatever the reach. (The system's one page of zeros would be cheaper
 * still; but a first cache that predicts its way by the program's address, as AMD's do, misses each time that a line
 * comes under another address, and that was seen to cost more than the translation.) The control loads as many lines,
 * packed into few pages.
 *
 * The pages come in the order of a linear congruential generator of full period, computed on the way, since a line that
 * is seen under many addresses holds no pointer to one of them. The loaded zero is added to the next number, so each
 * load waits for the one before. Under a hypervisor each step of the walk is translated itself: up to 24 loads for one
 * (Bhargava et al., Accelerating two-dimensional page walks, 2008).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "toll.h"

/* Full period for every power of two: an odd increment and a multiplier that is 1 modulo 4 (Hull and Dobell 1962). */
#define MULTIPLIER UINT32_C(1664525)
#define INCREMENT  UINT32_C(1013904223)

/* Pages of memory proper. Their lines outgrow every first cache, where a line under a new address may miss. */
#define OWN_PAGES  ((size_t)8192)
#define LINE_SHIFT 6

/* The address for number n: base + (n & mask) pages, and in that page the line of this number. */
struct places {
  const char *base;
  uint32_t mask, line_mask;
  unsigned shift;
  uint32_t number;
  uint64_t steps;
};

struct reach {
  struct places spread, packed;
};

static inline const volatile uint32_t *place(const struct places *p, uint32_t number) {
  size_t page = number & p->mask, line = number & p->line_mask;
  return (const volatile uint32_t *)(const volatile void *)(p->base + (page << p->shift) + (line << LINE_SHIFT));
}

static unsigned shift_of(size_t bytes) {
  unsigned shift = 0;
  while ((size_t)1 << shift < bytes) shift++;
  return shift;
}

/* Maps a shared mapping a second time: mremap() with an old size of zero keeps the first mapping. */
static bool map_again(void *own, size_t own_bytes, char *target) {
  return mremap(own, 0, own_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) == (void *)target;
}

static enum toll_status map_reach(struct toll_run *r, char **start, size_t bytes) {
  size_t page = toll_page_bytes(), own_bytes = bytes < OWN_PAGES * page ? bytes : OWN_PAGES * page;
  void *own =
      toll_buffer(r, (struct toll_buffer_request){.bytes = own_bytes, .pages = TOLL_PAGES_SMALL, .shared = true});
  if (!own) return toll_refused(r);
  *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*start == MAP_FAILED) return toll_skip(r, "the system refused %zu MiB of addresses", bytes >> 20);
  for (size_t at = 0; at < bytes; at += own_bytes)
    if (!map_again(own, own_bytes, *start + at))
      return toll_skip(r, "the system refused to map memory again: %s", strerror(errno));
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct reach *w = r->state;
  size_t page = toll_page_bytes();
  uint64_t bytes = toll_number(r, "reach"), pages = bytes / page;
  char *start = NULL;
  if (!pages || pages & (pages - 1) || pages > UINT64_C(1) << 31)
    return toll_fail(r, "the reach is a power of two of pages, up to 2 to the 31st");
  if (bytes > SIZE_MAX / 2) return toll_skip(r, "the reach exceeds this ABI's address space");
  if (map_reach(r, &start, (size_t)bytes) != TOLL_OK) return toll_refused(r);
  uint32_t lines = (uint32_t)(pages < OWN_PAGES ? pages : OWN_PAGES), number = (uint32_t)r->seed;
  char *packed = toll_buffer(r, (struct toll_buffer_request){.bytes = (size_t)lines << LINE_SHIFT});
  if (!packed) return toll_refused(r);
  w->spread =
      (struct places){start, (uint32_t)(pages - 1), (uint32_t)(page >> LINE_SHIFT) - 1, shift_of(page), number, 0};
  w->packed = (struct places){packed, lines - 1, 0, LINE_SHIFT, number, 0};
  uint32_t seen = 0;
  for (uint64_t i = 0; i < pages; i++) seen += *place(&w->spread, (uint32_t)i);
  return seen ? toll_wrong(r, "a page that was not written is not zero") : TOLL_OK;
}

static void load(struct places *p, uint64_t loads) {
  uint32_t number = p->number;
  for (uint64_t left = loads; left; left--) number = (number + *place(p, number)) * MULTIPLIER + INCREMENT;
  p->number = number;
}

static void load_spread(struct toll_run *r) {
  struct reach *w = r->state;
  load(&w->spread, r->iterations);
  w->spread.steps += r->iterations;
}

static void load_packed(struct toll_run *r) {
  struct reach *w = r->state;
  load(&w->packed, r->iterations);
  w->packed.steps += r->iterations;
}

/* The number after this many steps, by repeated squaring: two steps x -> ax + c are x -> aax + ac + c. */
static uint32_t after(uint32_t number, uint64_t steps) {
  uint32_t multiplier = MULTIPLIER, increment = INCREMENT;
  for (; steps; steps >>= 1) {
    if (steps & 1) number = number * multiplier + increment;
    increment += multiplier * increment;
    multiplier *= multiplier;
  }
  return number;
}

static enum toll_status check(struct toll_run *r) {
  const struct reach *w = r->state;
  uint32_t first = (uint32_t)r->seed;
  if (w->spread.number != after(first, w->spread.steps) || w->packed.number != after(first, w->packed.steps))
    return toll_wrong(r, "the walk does not stand where its steps lead");
  return TOLL_OK;
}

static const struct toll_parameter parameters[] = {{.name = "reach",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes of addresses that the loads go to",
                                                    .from = 1 << 20,
                                                    .to = UINT64_C(8) << 30,
                                                    .per_octave = 1,
                                                    .typical = "1073741824"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "walk",
                                              .unit = "ns",
                                              .summary = "time that translation adds to one load",
                                              .source = TOLL_DIFFERENCE,
                                              .toll = "page walk of a distant load"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a walk through the page tables cost, by how far the loads reach?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct reach),
    .prepare = prepare,
    .body = load_spread,
    .control = load_packed,
    .check = check,
    .revision = 1,
};
