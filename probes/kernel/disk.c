/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of a disk read and written in order and at random, past the page cache (lmbench: lmdd, disk, seek, flushdisk).
 *
 * Direct I/O goes to the device each time, and so needs no cache to be flushed before; a device or a host of this guest
 * may still have one, which a file larger than that shows (`file`). In order, one request waits for the last, as with lmdd:
 * what a device does with many at once is disk_queue's question.
 */
#define _GNU_SOURCE 1
#include "blocks.h"
#include "toll.h"

enum act { READ, WRITE };
enum order { SEQUENTIAL, RANDOM };

struct disk {
  struct blocks blocks;
  struct sector *buffer;
  uint64_t next, random;
  uint64_t failed, strange;
  int refused;
};

static bool write_block(struct disk *disk, uint64_t block) {
  struct blocks *blocks = &disk->blocks;
  stamp(blocks, disk->buffer, block);
  return pwrite(blocks->file, disk->buffer, blocks->bytes, offset_of(blocks, block)) == (ssize_t)blocks->bytes;
}

static bool read_block(struct disk *disk, uint64_t block) {
  const struct blocks *blocks = &disk->blocks;
  return pread(blocks->file, disk->buffer, blocks->bytes, offset_of(blocks, block)) == (ssize_t)blocks->bytes;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct disk *disk = r->state;
  const enum toll_status made = blocks_prepare(r, &disk->blocks);
  if (made != TOLL_OK) return made;
  disk->random = r->seed;
  disk->buffer = toll_buffer(r, (struct toll_buffer_request){.bytes = disk->blocks.bytes});
  if (!disk->buffer) return toll_refused(r);
  number_sectors(&disk->blocks, disk->buffer, 1);
  return TOLL_OK;
}

static uint64_t next_block(struct disk *disk, unsigned order) {
  if (order == RANDOM) return toll_random_below(&disk->random, disk->blocks.count);
  return disk->next = (disk->next + 1) % disk->blocks.count;
}

static void transfer(struct toll_run *r) {
  struct disk *disk = r->state;
  const unsigned order = toll_choice(r, "order");
  const bool writes = toll_choice(r, "act") == WRITE;
  for (uint64_t i = r->iterations; i; i--) {
    const uint64_t block = next_block(disk, order);
    const bool done = writes ? write_block(disk, block) : read_block(disk, block);
    if (!done && !disk->failed++) disk->refused = errno;
    disk->strange += !ends_are_right(&disk->blocks, disk->buffer, block);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct disk *disk = r->state;
  if (disk->failed)
    return toll_fail(r, "%llu blocks failed: %s", (unsigned long long)disk->failed, strerror(disk->refused));
  return blocks_check(r, &disk->blocks, disk->strange);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct disk *)r->state)->blocks.bytes;
}

static const char *const acts[] = {"read", "write", NULL};
static const char *const orders[] = {"sequential", "random", NULL};
static const uint64_t blocks[] = {4096, 65536, 1 << 20, TOLL_END}, sizes[] = {16 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "act", .kind = TOLL_CHOICE, .summary = "read or write", .choices = acts},
    {.name = "order", .kind = TOLL_CHOICE, .summary = "which block comes next", .choices = orders},
    {.name = "block", .kind = TOLL_SIZE, .summary = "bytes of one request", .values = blocks, .typical = "4096"},
    {.name = "file", .kind = TOLL_SIZE, .summary = "size of the file", .values = sizes},
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
