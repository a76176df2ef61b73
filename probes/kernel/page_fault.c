/* SPDX-License-Identifier: Apache-2.0
 *
 * One page fault that the kernel serves by itself, by kind.
 *
 * The time includes the fault and the kernel's work for it (finds, zeroes or copies a page, maps it, accounts for it).
 * It excludes releasing the page. Fresh pages do not grow on an endless map, so the region is given back when each of
 * its pages has been touched, and the watch is stopped meanwhile. Such a page is soon taken again, and some of it may
 * still be cached: a program that only grows pays a little more. The control touches the pages of a region that is
 * never given back.
 *
 * The kinds: an anonymous page stored to is taken and zeroed; one that is only read gets the kernel's one page of zeros;
 * a private map of a file is copied on the first store; a shared map of a file gets the page that the file already has.
 * That one is stored to as well, because a read would map its neighbours with it (fault-around) and count for one fault.
 * Just that is lmbench's lat_pagefault: it reads all pages of a file of the disk in a random order and unmaps them, and
 * gives each page its share of the few faults.
 * A huge page is one fault for 512 pages, and all their zeroing. The system must not choose: small pages are asked for as
 * much as huge ones, and the check counts the faults.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "medium.h"
#include "toll.h"

enum kind { ANONYMOUS_WRITE, ZERO_READ, COPY_ON_WRITE, SHARED_FILE, HUGE_PAGE, LMBENCH };
/* lmbench's kind reads PAGES_EACH pages in an iteration, so that a batch of SOME_PAGES iterations reads its whole
 * file: the first pages of a map fault and map the others too, and a batch of a part of them cost 4 or 300 us. */
enum { SMALL_PAGES = 256, SOME_PAGES = 32, LMBENCH_PAGES = 1024, PAGES_EACH = LMBENCH_PAGES / SOME_PAGES };
enum { FILE_MARK = 0x5a, OWN_MARK = 0x3c };

struct region {
  char *start;
  size_t pages;
  size_t next; /* page to be touched */
  bool kept;
};
struct faults {
  unsigned kind;
  size_t pages, page_bytes; /* of the known region, and of those that a check touches */
  struct region fresh, known;
  uint64_t sum;
  int file; /* file of lmbench's kind, whose regions are mapped anew */
  uint16_t order[LMBENCH_PAGES];
};

/* A memory file with one marked byte in each page. */
static int marked_file(const struct faults *faults) {
  const char mark = FILE_MARK;
  int file = memfd_create("toll", MFD_CLOEXEC);
  if (file < 0) return -1;
  for (size_t i = 0; i < faults->pages; i++)
    if (pwrite(file, &mark, 1, (off_t)(i * faults->page_bytes)) != 1) return -1;
  return ftruncate(file, (off_t)(faults->pages * faults->page_bytes)) == 0 ? file : -1;
}

static size_t bytes_of(const struct faults *faults, const struct region *region) {
  return region->pages * faults->page_bytes;
}

static bool map_file(const struct faults *faults, struct region *region, int file) {
  const int sharing = faults->kind == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE;
  region->start = mmap(NULL, bytes_of(faults, region), PROT_READ | PROT_WRITE, sharing, file, 0);
  return region->start != MAP_FAILED;
}

static enum toll_status map_files(struct toll_run *r, struct faults *faults) {
  signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes (ulimit -f) refuses the write, and does not end the program */
  const int file = marked_file(faults);
  if (file < 0) return toll_skip(r, "the system gave no file in memory: %s", strerror(errno));
  const bool mapped = map_file(faults, &faults->fresh, file) && map_file(faults, &faults->known, file);
  const int error = errno;
  close(file);
  return mapped ? TOLL_OK : toll_skip(r, "the system refused a map of this kind: %s", strerror(error));
}

/* ---- lmbench's kind ---- */

static char *map_read_only(const struct faults *faults) {
  return mmap(NULL, faults->pages * faults->page_bytes, PROT_READ, MAP_SHARED, faults->file, 0);
}

static void map_anew(const struct faults *faults, struct region *region) {
  region->next = 0;
  munmap(region->start, bytes_of(faults, region));
  region->start = map_read_only(faults);
}

static void shuffle(uint16_t *order, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) order[i] = (uint16_t)i;
  for (size_t i = count - 1; i > 0; i--) {
    const size_t other = (size_t)toll_random_below(&seed, i + 1);
    const uint16_t page = order[i];
    order[i] = order[other], order[other] = page;
  }
}

static enum toll_status map_as_lmbench(struct toll_run *r, struct faults *faults) {
  faults->file = open_filled(toll_folder(r), faults->pages * faults->page_bytes, FILE_MARK);
  if (faults->file < 0) return refuse_file(r, toll_folder(r), errno);
  shuffle(faults->order, faults->pages, r->seed);
  faults->fresh.start = map_read_only(faults);
  faults->known.start = map_read_only(faults);
  if (faults->fresh.start != MAP_FAILED && faults->known.start != MAP_FAILED) return TOLL_OK;
  return toll_skip(r, "the system refused a map of this kind: %s", strerror(errno));
}

static void read_pages(struct faults *faults, uint64_t pages) {
  struct region *region = &faults->fresh;
  for (; pages; pages--) {
    if (region->next == region->pages) map_anew(faults, region);
    const volatile char *page = region->start + faults->order[region->next++] * faults->page_bytes;
    faults->sum += (uint64_t)*page - FILE_MARK;
  }
}

/* The control's mappings: the same, but no page of them is read. */
static void read_no_pages(struct faults *faults, uint64_t pages) {
  struct region *region = &faults->known;
  for (; pages; pages--) {
    if (region->next == region->pages) map_anew(faults, region);
    size_t page = faults->order[region->next++] * faults->page_bytes;
    TOLL_OPAQUE(page);
  }
}

/* Both regions, without pages yet. A page of the known one shows first that the system gives huge pages: to touch all of
 * the fresh one, twice the last caches, took 2 s in a guest whose L3 has 260 MiB. */
static enum toll_status map_nothing(struct toll_run *r, struct faults *faults) {
  const enum toll_pages pages = faults->kind == HUGE_PAGE ? TOLL_PAGES_HUGE : TOLL_PAGES_SMALL;
  const size_t fresh = bytes_of(faults, &faults->fresh), known = bytes_of(faults, &faults->known);
  faults->known.start = toll_buffer(r, (struct toll_buffer_request){.bytes = known, .pages = pages});
  if (!faults->known.start) return toll_refused(r);
  if (faults->kind == HUGE_PAGE && !toll_huge_bytes(faults->known.start)) /* one of the pool is refused by SIGBUS */
    return toll_skip(r, "the system gave no transparent huge pages, which this is about");
  faults->fresh.start = toll_buffer(r, (struct toll_buffer_request){.bytes = fresh, .pages = pages, .untouched = true});
  if (!faults->fresh.start) return toll_refused(r);
  madvise(faults->known.start, known, MADV_DONTNEED);
  return TOLL_OK;
}

/* Twice what the last caches hold: the page that was given back last is taken again first, and one of a smaller region
 * would be zeroed in the cache. */
static size_t huge_pages(const struct toll_run *r) {
  const size_t pages = 2 * toll_last_caches_bytes(r, r->cpu_count) / toll_huge_page_bytes() + 1;
  return pages > SOME_PAGES ? pages : SOME_PAGES;
}

static enum toll_status lay_out(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct faults *faults = r->state;
  faults->kind = toll_choice(r, "kind");
  const size_t small = faults->kind == LMBENCH ? LMBENCH_PAGES : SMALL_PAGES;
  faults->pages = faults->known.pages = faults->kind == HUGE_PAGE ? SOME_PAGES : small;
  faults->fresh.pages = faults->kind == HUGE_PAGE ? huge_pages(r) : small;
  faults->page_bytes = faults->kind == HUGE_PAGE ? toll_huge_page_bytes() : toll_page_bytes();
  faults->known.kept = true;
  if (faults->kind == LMBENCH) return map_as_lmbench(r, faults);
  const bool of_file = faults->kind == COPY_ON_WRITE || faults->kind == SHARED_FILE;
  return of_file ? map_files(r, faults) : map_nothing(r, faults);
}

/* When every page has been touched: releases all pages, or continues at the beginning. */
static void start_again(const struct faults *faults, struct region *region) {
  region->next = 0;
  if (region->kept) return;
  toll_timer_pause();
  madvise(region->start, bytes_of(faults, region), MADV_DONTNEED);
  toll_timer_resume();
}

static inline volatile char *next_page(const struct faults *faults, struct region *region) {
  if (region->next == region->pages) start_again(faults, region);
  return region->start + region->next++ * faults->page_bytes;
}

static void touch(struct faults *faults, struct region *region, uint64_t pages) {
  if (faults->kind == ZERO_READ)
    for (; pages; pages--) faults->sum += (uint64_t)*next_page(faults, region);
  else
    for (; pages; pages--) next_page(faults, region)[1] = OWN_MARK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct faults *faults = r->state;
  if (lay_out(r) == TOLL_OK && faults->kind != LMBENCH) touch(faults, &faults->known, faults->known.pages);
  return toll_refused(r);
}

static void touch_fresh(struct toll_run *r) {
  struct faults *faults = r->state;
  if (faults->kind == LMBENCH)
    read_pages(faults, PAGES_EACH * r->iterations);
  else
    touch(faults, &faults->fresh, r->iterations);
}

static void touch_known(struct toll_run *r) {
  struct faults *faults = r->state;
  if (faults->kind == LMBENCH)
    read_no_pages(faults, PAGES_EACH * r->iterations);
  else
    touch(faults, &faults->known, r->iterations);
}

static uint64_t faults_so_far(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_minflt;
}

/* The bytes of the fresh region that were touched since it was released. */
static size_t bytes_so_far(const struct faults *faults) {
  return faults->fresh.next * faults->page_bytes;
}

/* Gives the region back and touches some of its pages once, at every base page, counting faults. */
static uint64_t faults_of_round(struct faults *faults) {
  const size_t base = toll_page_bytes();
  start_again(faults, &faults->fresh);
  uint64_t before = faults_so_far();
  touch(faults, &faults->fresh, faults->pages);
  if (faults->kind == HUGE_PAGE)
    for (size_t i = 0; i < faults->pages * faults->page_bytes; i += base)
      *(volatile char *)(faults->fresh.start + i) = OWN_MARK;
  return faults_so_far() - before;
}

/* Returns whether each page holds its file's byte or zero, and after it the stored byte. */
static bool pages_are_right(const struct faults *faults) {
  const bool of_file = faults->kind == COPY_ON_WRITE || faults->kind == SHARED_FILE;
  const char first = (char)(of_file ? FILE_MARK : faults->kind == HUGE_PAGE ? OWN_MARK : 0);
  const char second = (char)(faults->kind == ZERO_READ ? 0 : OWN_MARK);
  for (size_t i = 0; i < faults->pages; i++) {
    const char *page = faults->fresh.start + i * faults->page_bytes;
    if (page[0] != first || page[1] != second) return false;
    if (faults->known.start[i * faults->page_bytes + 1] != second) return false;
  }
  return true;
}

/* A fault maps at least one page, and at most all of them. */
static enum toll_status check_as_lmbench(struct toll_run *r) {
  struct faults *faults = r->state;
  map_anew(faults, &faults->fresh);
  const uint64_t before = faults_so_far();
  read_pages(faults, faults->pages);
  const uint64_t counted = faults_so_far() - before;
  if (!counted || counted > faults->pages + faults->pages / 16)
    return toll_skip(r, "the system counted %llu faults for %zu pages", (unsigned long long)counted, faults->pages);
  return faults->sum ? toll_wrong(r, "a page does not hold what it should") : TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  struct faults *faults = r->state;
  if (faults->kind == LMBENCH) return check_as_lmbench(r);
  if (faults->kind == HUGE_PAGE && toll_huge_bytes(faults->fresh.start) < bytes_so_far(faults))
    return toll_skip(r, "the system gave small pages for some of the huge ones");
  const uint64_t counted = faults_of_round(faults), slack = faults->pages / 16 + 1;
  if (counted + slack < faults->pages || counted > faults->pages + slack)
    return toll_skip(r, "the system counted %llu faults for %zu pages", (unsigned long long)counted, faults->pages);
  if (faults->sum || !pages_are_right(faults)) return toll_wrong(r, "a page does not hold what it should");
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *of_iteration) {
  of_iteration->operations = ((const struct faults *)r->state)->kind == LMBENCH ? PAGES_EACH : 1;
}

static const char *const kinds[] = {"anonymous_write", "zero_read", "copy_on_write", "shared_file", "huge_page",
                                    "lmbench",         NULL};
static const struct toll_parameter parameters[] = {
    {.name = "kind", .kind = TOLL_CHOICE, .summary = "what the kernel has to do for the page", .choices = kinds}, {0}};
static const struct toll_metric metrics[] = {{.name = "fault",
                                              .unit = "ns",
                                              .summary = "one page fault",
                                              .source = TOLL_DIFFERENCE,
                                              .means = "price-of-fault",
                                              .toll = "page fault, {kind}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does the first touch of a page cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct faults),
    .prepare = prepare,
    .body = touch_fresh,
    .control = touch_known,
    .check = check,
    .work = work,
    /* An eighth of a region of small pages, and not a whole one: so many huge ones take 50 ms to clear. */
    .quantum = SOME_PAGES,
    .faults = true,
    .pauses = true,
    .revision = 3,
};
