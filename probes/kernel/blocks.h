/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of blocks that is read and written past the page cache, and how a block tells that it is the right one.
 *
 * The first and the last sector of a block begin with the block's number and with how often it was written, so that a
 * block that came from elsewhere, or an old one, is seen when it is read. Each sector holds its place in the block, which
 * never changes: stamping 2048 of them would be a part of each write that is timed. The check reads all of them.
 *
 * The file has no name, and is gone with the process.
 */
#ifndef TOLL_KERNEL_BLOCKS_H
#define TOLL_KERNEL_BLOCKS_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "asked.h"
#include "medium.h"
#include "toll.h"

enum { SECTOR = 512, LEAST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct sector {
  uint64_t block;
  uint32_t written; /* how often; of a block's ends, like its number */
  uint32_t place;
  char rest[SECTOR - 16];
};
struct blocks {
  int file;
  size_t bytes; /* size of one block */
  uint64_t count;
  uint32_t *written;    /* number of writes of each block */
  struct sector *chunk; /* several blocks: what the file is made and checked by */
};

static inline size_t sectors_of(const struct blocks *blocks) {
  return blocks->bytes / SECTOR;
}

static inline void number_sectors(const struct blocks *blocks, struct sector *buffer, uint64_t count) {
  for (size_t i = 0; i < count * sectors_of(blocks); i++) buffer[i].place = (uint32_t)(i % sectors_of(blocks));
}

/* For the next write of the block. */
static inline void stamp(struct blocks *blocks, struct sector *buffer, uint64_t block) {
  const uint32_t written = ++blocks->written[block];
  struct sector *const ends[] = {buffer, buffer + sectors_of(blocks) - 1};
  for (int i = 0; i < 2; i++) {
    ends[i]->block = block;
    ends[i]->written = written;
  }
}

static inline bool is_right(const struct blocks *blocks, const struct sector *buffer, uint64_t block, size_t i) {
  const struct sector *sector = &buffer[i];
  const bool is_end = i == 0 || i == sectors_of(blocks) - 1;
  return sector->place == i && (!is_end || (sector->block == block && sector->written == blocks->written[block]));
}

static inline bool ends_are_right(const struct blocks *blocks, const struct sector *buffer, uint64_t block) {
  return is_right(blocks, buffer, block, 0) && is_right(blocks, buffer, block, sectors_of(blocks) - 1);
}

static inline off_t offset_of(const struct blocks *blocks, uint64_t block) {
  return (off_t)(block * blocks->bytes);
}

/* The blocks of the chunk that begins with this block. */
static inline uint64_t blocks_of_chunk(const struct blocks *blocks, uint64_t first) {
  const uint64_t most = LARGEST_BLOCK / blocks->bytes;
  return blocks->count - first < most ? blocks->count - first : most;
}

static inline enum toll_status blocks_write(struct toll_run *r, struct blocks *blocks) {
  number_sectors(blocks, blocks->chunk, blocks_of_chunk(blocks, 0));
  for (uint64_t first = 0; first < blocks->count; first += blocks_of_chunk(blocks, first)) {
    const uint64_t count = blocks_of_chunk(blocks, first);
    for (uint64_t i = 0; i < count; i++) stamp(blocks, blocks->chunk + i * sectors_of(blocks), first + i);
    if (pwrite(blocks->file, blocks->chunk, count * blocks->bytes, offset_of(blocks, first)) !=
        (ssize_t)(count * blocks->bytes))
      return refuse_file(r, toll_folder(r), errno);
  }
  return TOLL_OK;
}

/* Makes the file of the parameters `block` and `file`, its size. */
static inline enum toll_status blocks_prepare(struct toll_run *r, struct blocks *blocks) {
  size_t size;
  if (asked(r, "file", &size) != TOLL_OK || asked(r, "block", &blocks->bytes) != TOLL_OK) return TOLL_SKIPPED;
  if (blocks->bytes % LEAST_BLOCK || !blocks->bytes || blocks->bytes > LARGEST_BLOCK || size < blocks->bytes)
    return toll_skip(r, "a block is a multiple of %d bytes, 1 MiB at most, and no larger than the file", LEAST_BLOCK);
  if (needs_disk(r, toll_folder(r)) != TOLL_OK) return TOLL_SKIPPED;
  blocks->count = size / blocks->bytes;
  blocks->file = open_nameless(toll_folder(r), O_DIRECT);
  if (blocks->file < 0 && errno == EINVAL) return toll_skip(r, "the file system has no direct I/O");
  if (blocks->file < 0) return refuse_file(r, toll_folder(r), errno);
  blocks->chunk = toll_buffer(r, (struct toll_buffer_request){.bytes = LARGEST_BLOCK});
  blocks->written = toll_buffer(r, (struct toll_buffer_request){.bytes = blocks->count * sizeof *blocks->written});
  return blocks->chunk && blocks->written ? blocks_write(r, blocks) : toll_refused(r);
}

/* strange: blocks that were not right when they were timed. */
static inline enum toll_status blocks_check(struct toll_run *r, const struct blocks *blocks, uint64_t strange) {
  for (uint64_t first = 0; first < blocks->count; first += blocks_of_chunk(blocks, first)) {
    const uint64_t count = blocks_of_chunk(blocks, first);
    if (pread(blocks->file, blocks->chunk, count * blocks->bytes, offset_of(blocks, first)) !=
        (ssize_t)(count * blocks->bytes))
      return toll_fail(r, "a block can't be read: %s", strerror(errno));
    for (size_t i = 0; i < count * sectors_of(blocks); i++) {
      const size_t block = i / sectors_of(blocks), place = i % sectors_of(blocks);
      strange += !is_right(blocks, blocks->chunk + block * sectors_of(blocks), first + block, place);
    }
  }
  if (!strange) return TOLL_OK;
  return toll_wrong(r, "%llu sectors are not what was written there", (unsigned long long)strange);
}

#endif
