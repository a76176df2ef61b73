/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of a disk read and written in order and at random, past the page cache (lmbench: lmdd, disk, seek, flushdisk).
 *
 * Direct I/O goes to the device each time, and so needs no cache to be flushed before; a device or a host of this guest
 * may still have one, which a file larger than that shows (`size`). In order, one request waits for the last, as with lmdd:
 * what a device does with many at once is another question. The first and the last sector of a block begin with the
 * block's number and with how often it was written, so that a block that came from elsewhere, or an old one, is seen when
 * it is read. Each sector holds its place in the block, which never changes: stamping 2048 of them would be a part of each
 * write that is timed. The check reads all of them.
 *
 * The file has no name, and is gone with the process.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "asked.h"
#include "medium.h"
#include "toll.h"

enum act { READ, WRITE };
enum order { SEQUENTIAL, RANDOM };
enum { SECTOR = 512, LEAST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct sector {
  uint64_t block;
  uint32_t written; /* how often; of a block's ends, like its number */
  uint32_t place;
  char rest[SECTOR - 16];
};
struct disk {
  int file, refused;
  size_t bytes, block;
  uint64_t blocks, next, random;
  struct sector *buffer;
  uint32_t *written; /* by block */
  uint64_t failed, misplaced;
};

static size_t sectors_of(const struct disk *disk) {
  return disk->block / SECTOR;
}

static void stamp(struct disk *disk, uint64_t block, size_t i) {
  disk->buffer[i].block = block;
  disk->buffer[i].written = disk->written[block];
}

static bool is_right(const struct disk *disk, uint64_t block, size_t i) {
  const struct sector *sector = &disk->buffer[i];
  const bool is_end = i == 0 || i == sectors_of(disk) - 1;
  return sector->place == i && (!is_end || (sector->block == block && sector->written == disk->written[block]));
}

static bool write_block(struct disk *disk, uint64_t block) {
  disk->written[block]++;
  stamp(disk, block, 0);
  stamp(disk, block, sectors_of(disk) - 1);
  return pwrite(disk->file, disk->buffer, disk->block, (off_t)(block * disk->block)) == (ssize_t)disk->block;
}

static bool read_block(struct disk *disk, uint64_t block) {
  return pread(disk->file, disk->buffer, disk->block, (off_t)(block * disk->block)) == (ssize_t)disk->block;
}

static enum toll_status lay_out(struct toll_run *r, struct disk *disk) {
  disk->blocks = disk->bytes / disk->block;
  disk->random = r->seed;
  disk->buffer = toll_buffer(r, (struct toll_buffer_request){.bytes = disk->block});
  disk->written = toll_buffer(r, (struct toll_buffer_request){.bytes = disk->blocks * sizeof *disk->written});
  if (!disk->buffer || !disk->written) return toll_refused(r);
  for (size_t i = 0; i < sectors_of(disk); i++) disk->buffer[i].place = (uint32_t)i;
  for (uint64_t block = 0; block < disk->blocks; block++)
    if (!write_block(disk, block)) return refuse_file(r, toll_folder(r), errno);
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct disk *disk = r->state;
  if (asked(r, "size", &disk->bytes) != TOLL_OK || asked(r, "block", &disk->block) != TOLL_OK) return TOLL_SKIPPED;
  if (disk->block % LEAST_BLOCK || !disk->block || disk->block > LARGEST_BLOCK || disk->bytes < disk->block)
    return toll_skip(r, "a block is a multiple of %d bytes, 1 MiB at most, and no larger than the file", LEAST_BLOCK);
  if (needs_disk(r, toll_folder(r)) != TOLL_OK) return TOLL_SKIPPED;
  disk->file = open_nameless(toll_folder(r), O_DIRECT);
  if (disk->file < 0 && errno == EINVAL) return toll_skip(r, "the file system has no direct I/O");
  return disk->file < 0 ? refuse_file(r, toll_folder(r), errno) : lay_out(r, disk);
}

static uint64_t next_block(struct disk *disk, unsigned order) {
  if (order == RANDOM) return toll_random_below(&disk->random, disk->blocks);
  return disk->next = (disk->next + 1) % disk->blocks;
}

static void transfer(struct toll_run *r) {
  struct disk *disk = r->state;
  const unsigned order = toll_choice(r, "order");
  const bool writes = toll_choice(r, "act") == WRITE;
  const size_t last = sectors_of(disk) - 1;
  for (uint64_t i = r->iterations; i; i--) {
    const uint64_t block = next_block(disk, order);
    const bool done = writes ? write_block(disk, block) : read_block(disk, block);
    if (!done && !disk->failed++) disk->refused = errno;
    disk->misplaced += !is_right(disk, block, 0) || !is_right(disk, block, last);
  }
}

static enum toll_status check(struct toll_run *r) {
  struct disk *disk = r->state;
  if (disk->failed)
    return toll_fail(r, "%llu blocks failed: %s", (unsigned long long)disk->failed, strerror(disk->refused));
  for (uint64_t block = 0; block < disk->blocks; block++) {
    if (!read_block(disk, block)) return toll_fail(r, "a block can't be read: %s", strerror(errno));
    for (size_t i = 0; i < sectors_of(disk); i++) disk->misplaced += !is_right(disk, block, i);
  }
  if (!disk->misplaced) return TOLL_OK;
  return toll_wrong(r, "%llu sectors are not what was written there", (unsigned long long)disk->misplaced);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct disk *)r->state)->block;
}

static const char *const acts[] = {"read", "write", NULL};
static const char *const orders[] = {"sequential", "random", NULL};
static const uint64_t blocks[] = {4096, 65536, 1 << 20, TOLL_END}, sizes[] = {16 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "act", .kind = TOLL_CHOICE, .summary = "read or write", .choices = acts},
    {.name = "order", .kind = TOLL_CHOICE, .summary = "which block comes next", .choices = orders},
    {.name = "block", .kind = TOLL_SIZE, .summary = "bytes of one request", .values = blocks, .typical = "4096"},
    {.name = "size", .kind = TOLL_SIZE, .summary = "size of the file", .values = sizes},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "request", .unit = "ns", .summary = "one request and its end", .toll = "{act} 4 KiB of a disk, {order}"},
    {.name = "rate", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes a second, one request at a time"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is the disk itself, in order and at random?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct disk),
    .prepare = prepare,
    .body = transfer,
    .check = check,
    .work = work,
    .switches = true,
    .revision = 2,
};
