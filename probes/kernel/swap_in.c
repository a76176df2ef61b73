/* SPDX-License-Identifier: Apache-2.0
 *
 * One store to a page that is in swap: a page is taken, read or unpacked, and mapped.
 *
 * The pages are paged out with the watch stopped (MADV_PAGEOUT, Linux 5.4), to the swap that the system has: the probe
 * sets none up and takes none away. Of several it is the one with the highest priority; where zswap is enabled it is
 * that, whatever stands behind. Between two pages lie some that were never touched, so that none is read ahead by a
 * neighbour's fault. The kernel counts a fault that found its page in swap as a major one, and the check counts those: a
 * page that is still on its way to a disk is in memory, and its fault is a minor one. What a disk in a guest reads may be
 * in the memory of its host.
 *
 * A page of `words` has what a heap has: zeros, small numbers and addresses of one another's neighbourhood. A page of
 * `random` cannot be packed, and is stored as it is. One of zeros alone is written to no device, and is left out.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "toll.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

enum swap { ZRAM, ZSWAP, DISK, NO_SWAP };
enum content { WORDS, RANDOM };
enum { PAGES = 128, APART = 16, FIRST = sizeof(uint64_t) };

struct swapped {
  char *start, *known; /* known: what the pages hold after their first word */
  size_t page, next;
  uint64_t stored, major; /* major: faults in stores */
  uint16_t order[PAGES];
  int refused;
};

/* ---- which swap the system uses ---- */

static bool zswap_is_enabled(void) {
  char state = 'N';
  const int file = open("/sys/module/zswap/parameters/enabled", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool known = read(file, &state, 1) == 1;
  close(file);
  return known && state == 'Y';
}

/* name: of 256 bytes */
static unsigned swap_in_use(char *name) {
  char line[512], other[256];
  int highest = -1, priority;
  FILE *file = fopen("/proc/swaps", "re");
  if (!file) return NO_SWAP;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "%255s %*s %*u %*u %d", other, &priority) != 2) continue;
    if (*name && priority <= highest) continue;
    highest = priority;
    strcpy(name, other);
  }
  fclose(file);
  if (!*name) return NO_SWAP;
  if (zswap_is_enabled()) return ZSWAP;
  return strncmp(name, "/dev/zram", strlen("/dev/zram")) == 0 ? ZRAM : DISK;
}

static const char *const swaps[] = {"zram", "zswap", "disk", NULL};

static enum toll_status find_swap(struct toll_run *r) {
  char name[256] = "";
  const unsigned asked = toll_choice(r, "swap"), used = swap_in_use(name);
  if (used == NO_SWAP)
    return toll_skip(r,
                     "no swap is active; root may set one up: zramctl --find --size 1G, mkswap and swapon of what it "
                     "prints");
  return used == asked ? TOLL_OK : toll_skip(r, "this system swaps to %s (%s)", swaps[used], name);
}

/* ---- pages ---- */

static char *page_of(const struct swapped *swapped, size_t place) {
  return swapped->start + place * APART * swapped->page;
}

/* A quarter each of zeros and of numbers below 256, and addresses in 16 MiB. */
static uint64_t word_of(unsigned content, uint64_t random) {
  enum { KIND_AT = 56, SMALL = 0xff };
  const uint64_t heap = UINT64_C(0x00005581c0000000), in_heap = 0xfffff8;
  if (content == RANDOM) return random;
  switch (random >> KIND_AT & 3) {
    case 0: return 0;
    case 1: return random & SMALL;
    default: return heap + (random & in_heap);
  }
}

static void fill(struct toll_run *r, struct swapped *swapped) {
  uint64_t seed = r->seed, *words = (uint64_t *)swapped->known;
  const unsigned content = toll_choice(r, "content");
  for (size_t i = 0; i < PAGES * swapped->page / sizeof *words; i++) words[i] = word_of(content, toll_random(&seed));
  for (size_t i = 0; i < PAGES; i++) memcpy(page_of(swapped, i), swapped->known + i * swapped->page, swapped->page);
  for (size_t i = 0; i < PAGES; i++) swapped->order[i] = (uint16_t)i;
  for (size_t i = PAGES - 1; i > 0; i--) {
    const size_t other = (size_t)toll_random_below(&seed, i + 1);
    const uint16_t place = swapped->order[i];
    swapped->order[i] = swapped->order[other], swapped->order[other] = place;
  }
}

static uint64_t major_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_majflt;
}

/* Reads the pages that are in memory, which maps them. Returns their number. */
static unsigned map_what_is_in_memory(const struct swapped *swapped) {
  unsigned char in_memory[PAGES * APART] = {0};
  unsigned count = 0;
  if (mincore(swapped->start, PAGES * APART * swapped->page, in_memory) < 0) return 0;
  for (size_t i = 0; i < PAGES; i++)
    if (in_memory[i * APART] & 1) {
      (void)*(volatile char *)page_of(swapped, i);
      count++;
    }
  return count;
}

/* Pages out. A page that is still being written stays in memory; a later call releases it at once, if it is mapped
 * and unchanged. Returns the number of pages that stay. */
static unsigned page_out(struct swapped *swapped) {
  enum { TRIES = 100, WRITTEN_US = 200 };
  unsigned left = PAGES;
  for (unsigned tries = 0; left && tries < TRIES; tries++) {
    if (tries) usleep(WRITTEN_US);
    if (madvise(swapped->start, PAGES * APART * swapped->page, MADV_PAGEOUT) < 0) swapped->refused = errno;
    left = map_what_is_in_memory(swapped);
  }
  return left;
}

static void start_again(struct swapped *swapped) {
  toll_timer_pause();
  page_out(swapped);
  swapped->next = 0;
  toll_timer_resume();
}

static void store(struct swapped *swapped, uint64_t pages) {
  for (; pages; pages--) {
    if (swapped->next == PAGES) start_again(swapped);
    *(volatile uint64_t *)page_of(swapped, swapped->order[swapped->next++]) += 1;
  }
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK || find_swap(r) != TOLL_OK) return toll_refused(r);
  struct swapped *swapped = r->state;
  swapped->page = toll_page_bytes();
  swapped->known =
      toll_buffer(r, (struct toll_buffer_request){.bytes = PAGES * swapped->page, .pages = TOLL_PAGES_SMALL});
  if (!swapped->known) return toll_refused(r);
  swapped->start = mmap(NULL, PAGES * APART * swapped->page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (swapped->start == MAP_FAILED) return toll_skip(r, "the system refused a map: %s", strerror(errno));
  madvise(swapped->start, PAGES * APART * swapped->page, MADV_NOHUGEPAGE); /* refused where there are none */
  fill(r, swapped);
  const unsigned left = page_out(swapped);
  if (swapped->refused)
    return toll_skip(r, "the kernel pages nothing out for a program: %s", strerror(swapped->refused));
  if (left > PAGES / 2) return toll_skip(r, "the system kept %u of %d pages in memory", left, PAGES);
  store(swapped, PAGES);
  return TOLL_OK;
}

static void store_to_swapped(struct toll_run *r) {
  struct swapped *swapped = r->state;
  const uint64_t before = major_faults();
  store(swapped, r->iterations);
  swapped->major += major_faults() - before;
  swapped->stored += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct swapped *swapped = r->state;
  if (swapped->refused) return toll_skip(r, "the kernel refused to page out: %s", strerror(swapped->refused));
  for (size_t i = 0; i < PAGES; i++) {
    const char *known = swapped->known + i * swapped->page;
    if (memcmp(page_of(swapped, i) + FIRST, known + FIRST, swapped->page - FIRST) != 0)
      return toll_wrong(r, "page %zu came back with something else in it", i);
  }
  if (swapped->major >= swapped->stored - swapped->stored / 16) return TOLL_OK;
  return toll_skip(r,
                   "of %llu pages that were paged out %llu were read from swap: the others "
                   "were in memory still, or again by read-ahead (vm.page-cluster)",
                   (unsigned long long)swapped->stored, (unsigned long long)swapped->major);
}

static const char *const contents[] = {"words", "random", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "swap", .kind = TOLL_CHOICE, .summary = "where the system swaps to", .choices = swaps},
    {.name = "content",
     .kind = TOLL_CHOICE,
     .summary = "what is in a page: words that can be packed, or random ones",
     .choices = contents,
     .typical = "words"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "fault",
                                              .unit = "ns",
                                              .summary = "one store to a page that is in swap",
                                              .toll = "page fault, from {swap}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a page fault cost that brings its page back from swap?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct swapped),
    .prepare = prepare,
    .body = store_to_swapped,
    .check = check,
    .quantum = PAGES, /* whole regions */
    .switches = true,
    .faults = true,
    .pauses = true,
    .enters = true,
    .revision = 1,
};
