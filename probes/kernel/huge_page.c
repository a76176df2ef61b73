/* SPDX-License-Identifier: Apache-2.0
 *
 * One transparent huge page made of small pages, or split into them, by the calls that do so.
 *
 *   collapse  MADV_COLLAPSE (Linux 6.1): a huge page is taken and all small pages are copied to it
 *   protect   mprotect of one small page in it: the map is split, and the page stays one
 *   discard   MADV_DONTNEED of one small page in it: the same, and the page is split when memory is short
 *   free      MADV_FREE of one small page in it: the page itself is split into its 512
 *
 * The control makes the same call on memory that is already as the call makes it: huge, or small. It is subtracted, so
 * that the call's own work, on maps and on one small page, is not in the row. Each region is made anew with the watch
 * stopped when each of its huge pages had its turn. Small pages are touched while the process takes no huge ones
 * (PR_SET_THP_DISABLE), since an advice against them would hold for the collapse too.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "toll.h"

#ifndef MADV_FREE
#define MADV_FREE 8
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum act { COLLAPSE, PROTECT, DISCARD, FREE };
enum { PAGES = 8, SPLIT_AT = 7, KEPT_AT = 8, MARK = 0x3c };

struct region {
  char *start;
  size_t next; /* huge page that has its turn */
  bool is_made;
};
struct huge {
  unsigned act;
  size_t bytes, small; /* sizes of a huge page and of a small one */
  struct region fresh, made;
  int refused; /* why the system refused a call, or 0 */
};

static int act_on(const struct huge *huge, char *page) {
  char *inside = page + SPLIT_AT * huge->small;
  switch (huge->act) {
    case COLLAPSE: return madvise(page, huge->bytes, MADV_COLLAPSE);
    case PROTECT: return mprotect(inside, huge->small, PROT_READ);
    case DISCARD: return madvise(inside, huge->small, MADV_DONTNEED);
    default: return madvise(inside, huge->small, MADV_FREE);
  }
}

/* ---- regions ---- */

static void fill(const struct huge *huge, char *start, bool by_small_pages) {
  if (by_small_pages) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  for (size_t at = 0; at < PAGES * huge->bytes; at += huge->small) start[at] = MARK;
  if (by_small_pages) prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
}

/* Maps the region again: before Linux 6.14 a split region keeps its table of small pages when all of them are
 * released, and gets no huge page. */
static void make_fresh(struct huge *huge, char *start) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  const void *mapped = mmap(start, PAGES * huge->bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED || madvise(start, PAGES * huge->bytes, MADV_HUGEPAGE) < 0) huge->refused = errno;
  fill(huge, start, huge->act == COLLAPSE);
}

/* Restores the small pages that the calls released or protected, in a region that is kept. */
static void make_ready(struct huge *huge, char *start) {
  if (huge->act == PROTECT) mprotect(start, PAGES * huge->bytes, PROT_READ | PROT_WRITE);
  for (size_t i = 0; i < PAGES; i++) start[i * huge->bytes + SPLIT_AT * huge->small] = MARK;
}

static void start_again(struct huge *huge, struct region *region) {
  toll_timer_pause();
  region->next = 0;
  if (region->is_made)
    make_ready(huge, region->start);
  else
    make_fresh(huge, region->start);
  toll_timer_resume();
}

static void act(struct huge *huge, struct region *region, uint64_t pages) {
  for (; pages; pages--) {
    if (region->next == PAGES) start_again(huge, region);
    if (act_on(huge, region->start + region->next++ * huge->bytes) < 0) huge->refused = errno;
  }
}

static char *map_region(struct toll_run *r, const struct huge *huge) {
  char *start = toll_buffer(r, (struct toll_buffer_request){.bytes = PAGES * huge->bytes, .pages = TOLL_PAGES_HUGE});
  if (!start || toll_huge_bytes(start)) return start; /* huge pages of the pool cannot be split */
  toll_skip(r, "the system gave no transparent huge pages, which this is about");
  return NULL;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct huge *huge = r->state;
  huge->act = toll_choice(r, "act");
  huge->bytes = toll_huge_page_bytes();
  huge->small = toll_page_bytes();
  if (!(huge->fresh.start = map_region(r, huge)) || !(huge->made.start = map_region(r, huge))) return toll_refused(r);
  fill(huge, huge->made.start, false);
  act(huge, &huge->made, PAGES);
  huge->made.is_made = true;
  huge->fresh.next = PAGES;
  return huge->refused ? toll_skip(r, "the kernel refuses this call: %s", strerror(huge->refused)) : TOLL_OK;
}

static void act_on_fresh(struct toll_run *r) {
  struct huge *huge = r->state;
  act(huge, &huge->fresh, r->iterations);
}

static void act_on_made(struct toll_run *r) {
  struct huge *huge = r->state;
  act(huge, &huge->made, r->iterations);
}

/* Returns the number of this process's huge pages; below zero if the system does not report it (Linux 4.14). */
static long huge_pages(const struct huge *huge) {
  char line[128];
  long kilobytes = -1;
  FILE *file = fopen("/proc/self/smaps_rollup", "re");
  if (!file) return -1;
  while (kilobytes < 0 && fgets(line, sizeof line, file))
    if (sscanf(line, "AnonHugePages: %ld kB", &kilobytes) != 1) kilobytes = -1;
  fclose(file);
  return kilobytes < 0 ? -1 : (long)(kilobytes * 1024 / (long)huge->bytes);
}

/* A round of the region, in which each call makes or splits one huge page and keeps what is in it. */
static enum toll_status check(struct toll_run *r) {
  struct huge *huge = r->state;
  start_again(huge, &huge->fresh);
  const long before = huge_pages(huge);
  act(huge, &huge->fresh, PAGES);
  const long made = huge_pages(huge) - before, expected = huge->act == COLLAPSE ? PAGES : -PAGES;
  if (huge->refused) return toll_skip(r, "the kernel refused a call: %s", strerror(huge->refused));
  if (before < 0) return toll_skip(r, "the system does not say how many huge pages the process has");
  if (huge->act != COLLAPSE && made != expected && before < PAGES)
    return toll_skip(r, "the system had %ld huge pages for %d", before, PAGES);
  if (made != expected) return toll_wrong(r, "%d calls made %ld huge pages, not %ld", PAGES, made, expected);
  for (size_t i = 0; i < PAGES; i++)
    if (huge->fresh.start[i * huge->bytes + KEPT_AT * huge->small] != MARK)
      return toll_wrong(r, "huge page %zu does not hold what was stored", i);
  return TOLL_OK;
}

static const char *const acts[] = {"collapse", "protect", "discard", "free", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "act",
     .kind = TOLL_CHOICE,
     .summary = "the call that makes the huge page, or the one that splits it",
     .choices = acts},
    {0}};
static const struct toll_metric metrics[] = {{.name = "page",
                                              .unit = "ns",
                                              .summary = "one huge page made or split, the call itself not counted",
                                              .source = TOLL_DIFFERENCE,
                                              .toll = "huge page made or split by {act}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to make a huge page of small ones, and to split it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct huge),
    .prepare = prepare,
    .body = act_on_fresh,
    .control = act_on_made,
    .check = check,
    .quantum = PAGES, /* whole regions */
    .switches = true, /* a collapse waits for other CPUs to give up what they keep apart */
    .faults = true,
    .pauses = true,
    .enters = true,
    .revision = 1,
};
