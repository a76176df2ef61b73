/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of mapping memory over its size: mapped and unmapped untouched, touched in between, or only its protection
 * changed.
 *
 * A mapping alone is bookkeeping and costs the same at every size; its pages, each of which is faulted in and later
 * removed with its translation, add a cost that grows with the size. Changing the protection of touched pages walks the
 * same tables and throws the translations away. The file kinds map pages that the page cache already holds. lmbench's
 * lat_mmap writes a byte every 16 KiB of the first tenth of a shared map of a file: of the run's folder, since what a
 * first store costs is the file system's matter. The other files are in memory.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "medium.h"
#include "toll.h"

enum act { MAP, MAP_AND_TOUCH, MAP_FILE_AND_READ, PROTECT, LMBENCH };
enum { LMBENCH_STEP = 16 << 10, LMBENCH_SHARE = 10 };

struct mapping {
  unsigned act;
  size_t bytes, page;
  int file;
  char *kept;
  uint64_t failed, sum;
};

static char *map(const struct mapping *mapping) {
  char *start = mmap(NULL, mapping->bytes, mapping->act == MAP_FILE_AND_READ ? PROT_READ : PROT_READ | PROT_WRITE,
                     mapping->file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, mapping->file, 0);
  return start == MAP_FAILED ? NULL : start;
}

static void touch(struct mapping *mapping, volatile char *start) {
  const bool sparse = mapping->act == LMBENCH;
  const size_t step = sparse ? LMBENCH_STEP : mapping->page,
               end = sparse ? mapping->bytes / LMBENCH_SHARE : mapping->bytes;
  for (size_t i = 0; i < end; i += step)
    if (mapping->act == MAP_FILE_AND_READ)
      mapping->sum += (unsigned char)start[i];
    else
      start[i] = 1;
}

static void map_and_unmap(struct mapping *mapping) {
  char *start = map(mapping);
  if (!start) {
    mapping->failed++;
    return;
  }
  if (mapping->act != MAP) touch(mapping, start);
  mapping->failed += munmap(start, mapping->bytes) != 0;
}

static void protect_and_back(struct mapping *mapping) {
  mapping->failed += mprotect(mapping->kept, mapping->bytes, PROT_READ) != 0;
  mapping->failed += mprotect(mapping->kept, mapping->bytes, PROT_READ | PROT_WRITE) != 0;
}

static bool open_file(struct mapping *mapping, const char *folder) {
  if (mapping->act == LMBENCH) return (mapping->file = open_filled(folder, mapping->bytes, 0)) >= 0;
  mapping->file = memfd_create("toll", MFD_CLOEXEC);
  if (mapping->file < 0) return false;
  for (size_t i = 0; i < mapping->bytes; i += mapping->page)
    if (pwrite(mapping->file, "", 1, (off_t)i) != 1) return false;
  return ftruncate(mapping->file, (off_t)mapping->bytes) == 0;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct mapping *mapping = r->state;
  mapping->act = toll_choice(r, "act");
  mapping->page = toll_page_bytes();
  mapping->bytes = ((size_t)toll_number(r, "size") + mapping->page - 1) / mapping->page * mapping->page;
  mapping->file = -1;
  if (!mapping->bytes) return toll_skip(r, "nothing cannot be mapped");
  if ((mapping->act == MAP_FILE_AND_READ || mapping->act == LMBENCH) && !open_file(mapping, toll_folder(r)))
    return refuse_file(r, mapping->act == LMBENCH ? toll_folder(r) : "memory", errno);
  if (mapping->act != PROTECT) return TOLL_OK;
  mapping->kept = toll_buffer(r, (struct toll_buffer_request){.bytes = mapping->bytes, .pages = TOLL_PAGES_SMALL});
  return mapping->kept ? TOLL_OK : toll_refused(r);
}

static void work_on_maps(struct toll_run *r) {
  struct mapping *mapping = r->state;
  if (mapping->act == PROTECT)
    for (uint64_t i = r->iterations; i; i--) protect_and_back(mapping);
  else
    for (uint64_t i = r->iterations; i; i--) map_and_unmap(mapping);
}

/* Whether the file contains each byte that lmbench's variant writes. */
static bool is_written(const struct mapping *mapping) {
  char byte;
  for (size_t i = 0; i < mapping->bytes / LMBENCH_SHARE; i += LMBENCH_STEP)
    if (pread(mapping->file, &byte, 1, (off_t)i) != 1 || byte != 1) return false;
  return true;
}

static enum toll_status check(struct toll_run *r) {
  struct mapping *mapping = r->state;
  if (mapping->failed) return toll_wrong(r, "%llu calls failed", (unsigned long long)mapping->failed);
  if (mapping->sum) return toll_wrong(r, "a page of the file does not hold what was written");
  if (mapping->act == LMBENCH && !is_written(mapping)) return toll_wrong(r, "a page of the file was not written to");
  if (mapping->act == PROTECT) touch(mapping, mapping->kept); /* it may be written to again, or this ends the visit */
  return TOLL_OK;
}

static const char *const acts[] = {"map", "map_and_touch", "map_file_and_read", "protect", "lmbench", NULL};
static const uint64_t sizes[] = {4096, 65536, 1 << 20, 16 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "act", .kind = TOLL_CHOICE, .summary = "what is done to the map", .choices = acts},
    {.name = "size", .kind = TOLL_SIZE, .summary = "size of the map", .values = sizes, .typical = "1048576"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "map",
                                              .unit = "ns",
                                              .summary = "one map made and taken away, or protected and released",
                                              .toll = "1 MiB of memory, {act}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does mapping memory cost, by its size and by what is done with it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct mapping),
    .prepare = prepare,
    .body = work_on_maps,
    .check = check,
    .faults = true,
    .calls = 2,
    .revision = 2,
};
