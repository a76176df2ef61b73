/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of a disk read and written at random, past the page cache, with `depth` requests in flight (io_uring): a device
 * that works on several at once, or a path to it that does, takes less for each of them.
 *
 * As fio has it with --ioengine=io_uring --direct=1 --iodepth=N: a request is submitted by a call of its own as soon as
 * there is a free place, and when there is none the program waits for one completion and takes all that have come. A
 * program that submits several by one call saves calls, and in a guest may save exits. kernel.disk is one request at a
 * time by pread and pwrite.
 *
 * An iteration is some requests for each place of the queue, which fills at its begin and is empty at its end. Both are
 * the same for n and for 2n iterations, so that the slope is of the full queue.
 *
 * The row is the median of batches of about a millisecond: stalls of the device or of a host, which a few batches meet, do
 * not count. fio prints the mean of all requests.
 *
 * The file's size is the parameter `file`: `size` is of memory that is accessed, by which a row is taken for one of a cache
 * that other guests use.
 *
 * Each place of the queue has a share of the blocks to itself: two requests of one block in flight would leave open which
 * of them is the later one.
 */
#define _GNU_SOURCE 1
#include "blocks.h"
#include "io_ring.h"
#include "toll.h"

enum act { READ, WRITE };
enum { MOST_DEPTH = 64, TIMES_DEPTH = 4 };

struct queue {
  struct io_ring ring; /* ring of the timed worker's process */
  struct blocks blocks;
  bool writes;
  uint32_t depth;
  struct sector *buffers;     /* a block of each place */
  uint64_t block[MOST_DEPTH]; /* block that each place has in flight */
  uint64_t random;
  uint64_t failed, strange, asked, done;
  int refused;
};

static enum toll_status open_ring(struct toll_run *r) {
  struct queue *q = r->state;
  struct io_uring_params params = {0};
  if (!io_ring_open(&q->ring, q->depth, &params)) return io_ring_refuse(r, errno);
  return io_ring_needs_reads(r, &q->ring);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct queue *q = r->state;
  const uint64_t depth = toll_number(r, "depth");
  if (depth < 1 || depth > MOST_DEPTH)
    return toll_skip(r, "1 to %d requests are in flight, not %llu", MOST_DEPTH, (unsigned long long)depth);
  q->depth = (uint32_t)depth;
  q->writes = toll_choice(r, "act") == WRITE;
  q->random = r->seed;
  const enum toll_status made = blocks_prepare(r, &q->blocks);
  if (made != TOLL_OK) return made;
  if (q->blocks.count < depth)
    return toll_skip(r, "a file of %llu blocks is too small for this depth", (unsigned long long)q->blocks.count);
  q->buffers = toll_buffer(r, (struct toll_buffer_request){.bytes = depth * q->blocks.bytes, .shared = true});
  if (!q->buffers) return toll_refused(r);
  number_sectors(&q->blocks, q->buffers, depth);
  return open_ring(r);
}

static struct sector *buffer_of(const struct queue *q, uint32_t place) {
  return q->buffers + place * sectors_of(&q->blocks);
}

static void submit(struct queue *q, uint32_t place) {
  const uint64_t share = q->blocks.count / q->depth;
  const uint64_t block = place * share + toll_random_below(&q->random, share);
  q->block[place] = block;
  if (q->writes) stamp(&q->blocks, buffer_of(q, place), block);
  *io_ring_place(&q->ring, 0) = (struct io_uring_sqe){
      .opcode = q->writes ? IORING_OP_WRITE : IORING_OP_READ,
      .fd = q->blocks.file,
      .addr = (uint64_t)(uintptr_t)buffer_of(q, place),
      .len = (uint32_t)q->blocks.bytes,
      .off = (uint64_t)offset_of(&q->blocks, block),
      .user_data = place,
  };
  io_ring_publish(&q->ring, 1);
  if (io_ring_enter(&q->ring, 1, 0) != 1 && !q->refused) q->refused = errno ? errno : EIO;
  q->asked++;
}

/* Waits for at least one completion. Returns the number of free places, whose indices are then in `places`. */
static uint32_t take(struct queue *q, uint32_t places[MOST_DEPTH]) {
  if (!io_ring_completed(&q->ring) && io_ring_enter(&q->ring, 0, 1) < 0 && errno != EINTR) q->refused = errno;
  const uint32_t count = io_ring_completed(&q->ring);
  for (uint32_t k = 0; k < count; k++) {
    const struct io_uring_cqe *completion = io_ring_completion(&q->ring, k);
    const uint32_t place = places[k] = (uint32_t)completion->user_data;
    if (completion->res != (int32_t)q->blocks.bytes && !q->failed++) q->refused = -completion->res;
    q->strange += !ends_are_right(&q->blocks, buffer_of(q, place), q->block[place]);
  }
  io_ring_release(&q->ring, count);
  q->done += count;
  return count;
}

static uint64_t requests_of(const struct queue *q, uint64_t iterations) {
  return iterations * TIMES_DEPTH * q->depth;
}

static void transfer(struct toll_run *r) {
  struct queue *q = r->state;
  const uint64_t last = q->done + requests_of(q, r->iterations);
  uint32_t places[MOST_DEPTH], free = q->depth;
  for (uint32_t place = 0; place < q->depth; place++) places[place] = place;
  while (q->done < last && !q->refused) {
    for (uint32_t k = 0; k < free && q->asked < last; k++) submit(q, places[k]);
    free = take(q, places);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct queue *q = r->state;
  if (q->refused)
    return toll_fail(r, "%s of a disk through io_uring: %s", q->writes ? "a write" : "a read", strerror(q->refused));
  if (q->asked != q->done)
    return toll_wrong(r, "%llu requests were submitted, and %llu completed", (unsigned long long)q->asked,
                      (unsigned long long)q->done);
  return blocks_check(r, &q->blocks, q->strange);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct queue *q = r->state;
  work->operations = (double)requests_of(q, 1);
  work->bytes = work->operations * (double)q->blocks.bytes;
}

static const char *const acts[] = {"read", "write", NULL};
static const uint64_t depths[] = {1, 4, 16, MOST_DEPTH, TOLL_END};
static const uint64_t block_sizes[] = {4096, TOLL_END}, sizes[] = {16 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "act", .kind = TOLL_CHOICE, .summary = "read or write", .choices = acts},
    {.name = "depth", .kind = TOLL_COUNT, .summary = "requests in flight", .values = depths},
    {.name = "block", .kind = TOLL_SIZE, .summary = "bytes of one request", .values = block_sizes, .typical = "4096"},
    {.name = "file", .kind = TOLL_SIZE, .summary = "size of the file", .values = sizes},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "request",
     .unit = "ns",
     .summary = "one request of those in flight: their time over their number",
     .toll = "{act} 4 KiB of a disk, {depth} in flight"},
    {.name = "rate", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes a second of all in flight"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How much faster is a disk with many requests at once?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct queue),
    .prepare = prepare,
    .body = transfer,
    .check = check,
    .work = work,
    .switches = true,
    .enters = true,
    .revision = 1,
};
