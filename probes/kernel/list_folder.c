/* SPDX-License-Identifier: Apache-2.0
 *
 * Listing a folder of the probe's own, by the number of its entries: from the first call of getdents to the one that finds
 * nothing more.
 *
 * A call is an entry, and then a name is copied for each file: few large calls are made, of 32 KiB as in C libraries. An
 * everyday folder of the system (/dev, /etc) has a size and a file system that no two machines share.
 */
#define _GNU_SOURCE 1
#include <sys/syscall.h>

#include "toll.h"
#include "tree.h"

enum { MOST_FILES = 1 << 16, OWN_ENTRIES = 2 }; /* . and .. */

struct listing {
  struct tree tree;
  int folder;
  uint64_t refused, entries;
  char buffer[32 << 10] __attribute__((aligned(8)));
};

/* Returns the number of entries that getdents64(2) wrote; an entry has its length after two numbers of 8 bytes. */
static uint64_t entries_in(const char *buffer, long bytes) {
  uint64_t count = 0;
  uint16_t length;
  for (long at = 0; at < bytes; at += length, count++) memcpy(&length, buffer + at + 16, sizeof length);
  return count;
}

static void list_once(struct listing *listing, bool counts) {
  long bytes;
  listing->refused += lseek(listing->folder, 0, SEEK_SET) != 0;
  while ((bytes = syscall(SYS_getdents64, listing->folder, listing->buffer, sizeof listing->buffer)) > 0)
    if (counts) listing->entries += entries_in(listing->buffer, bytes);
  listing->refused += bytes != 0;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct listing *listing = r->state;
  listing->tree.depth = TREE_LEAST_DEPTH;
  listing->tree.files = (unsigned)toll_number(r, "entries");
  if (listing->tree.files > MOST_FILES) return toll_skip(r, "at most %d files are made", MOST_FILES);
  if (tree_make(r, &listing->tree) != TOLL_OK) return toll_refused(r);
  listing->folder = open(listing->tree.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return listing->folder >= 0 ? TOLL_OK : refuse_file(r, "/tmp", errno);
}

static void list(struct toll_run *r) {
  struct listing *listing = r->state;
  for (uint64_t i = r->iterations; i; i--) list_once(listing, false);
}

static enum toll_status check(struct toll_run *r) {
  struct listing *listing = r->state;
  const uint64_t wanted = listing->tree.files + OWN_ENTRIES;
  listing->entries = 0;
  list_once(listing, true);
  if (listing->refused) return toll_fail(r, "%llu listings failed", (unsigned long long)listing->refused);
  if (listing->entries == wanted) return TOLL_OK;
  return toll_wrong(r, "%llu entries were listed, not %llu", (unsigned long long)listing->entries,
                    (unsigned long long)wanted);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = ((const struct listing *)r->state)->tree.files + OWN_ENTRIES;
}

static const uint64_t counts[] = {16, 256, 4096, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "entries", .kind = TOLL_COUNT, .summary = "files in the folder", .values = counts, .typical = "256"}, {0}};
static const struct toll_metric metrics[] = {{.name = "entry",
                                              .unit = "ns",
                                              .summary = "one entry of a folder that is listed from beginning to end",
                                              .toll = "list one entry of a folder of 256"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to list a folder, by its entries?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct listing),
    .prepare = prepare,
    .body = list,
    .check = check,
    .work = work,
    .enters = true,
    .revision = 1,
};
