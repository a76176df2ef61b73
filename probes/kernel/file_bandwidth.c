/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a file that is already in memory: by read, by a permanent mapping, and by a new mapping each time.
 *
 * read copies into a buffer of 64 KiB that stays in the cache; a map is read in place, but a new one pays a fault for
 * every few pages (lmbench: bw_file_rd and bw_mmap_rd). The words are added up in each case, since a program that reads
 * does something with what it read.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "toll.h"

enum route { READ, KEPT_MAP, NEW_MAP };
enum { CHUNK = 65536 };

struct file {
  int descriptor;
  size_t bytes;
  const uint64_t *kept;
  uint64_t *chunk;
  uint64_t expected, sum, failed;
};

/* Four sums, so that the additions do not wait for each other; a chunk is whole lines. */
static uint64_t add_up(const uint64_t *words, size_t bytes) {
  uint64_t sum[4] = {0};
  for (size_t i = 0; i < bytes / sizeof *words; i += 4) {
    sum[0] += words[i];
    sum[1] += words[i + 1];
    sum[2] += words[i + 2];
    sum[3] += words[i + 3];
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

static const uint64_t *map(const struct file *file) {
  void *start = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, file->descriptor, 0);
  return start == MAP_FAILED ? NULL : start;
}

static bool fill(struct file *file, uint64_t random) {
  for (size_t done = 0; done < file->bytes; done += CHUNK) {
    for (size_t i = 0; i < CHUNK / sizeof *file->chunk; i++) file->expected += file->chunk[i] = toll_random(&random);
    if (write(file->descriptor, file->chunk, CHUNK) != CHUNK) return false;
  }
  return true;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct file *file = r->state;
  file->bytes = (size_t)toll_number(r, "size") / CHUNK * CHUNK;
  if (!file->bytes) return toll_skip(r, "the file is read in pieces of %d bytes, and has none", CHUNK);
  file->chunk = toll_buffer(r, (struct toll_buffer_request){.bytes = CHUNK});
  if (!file->chunk) return toll_refused(r);
  file->descriptor = memfd_create("toll", MFD_CLOEXEC);
  if (file->descriptor < 0 || !fill(file, r->seed))
    return toll_skip(r, "the system gave no file in memory: %s", strerror(errno));
  file->kept = map(file);
  return file->kept ? TOLL_OK : toll_skip(r, "the file cannot be mapped: %s", strerror(errno));
}

static uint64_t read_through(struct file *file) {
  uint64_t sum = 0;
  lseek(file->descriptor, 0, SEEK_SET);
  for (size_t done = 0; done < file->bytes; done += CHUNK) {
    file->failed += read(file->descriptor, file->chunk, CHUNK) != CHUNK;
    sum += add_up(file->chunk, CHUNK);
  }
  return sum;
}

static uint64_t map_through(struct file *file) {
  const uint64_t *start = map(file);
  if (!start) {
    file->failed++;
    return 0;
  }
  const uint64_t sum = add_up(start, file->bytes);
  munmap((void *)start, file->bytes);
  return sum;
}

static void read_again(struct toll_run *r) {
  struct file *file = r->state;
  const unsigned route = toll_choice(r, "route");
  for (uint64_t i = r->iterations; i; i--) {
    TOLL_MEMORY();
    file->sum = route == READ      ? read_through(file)
                : route == NEW_MAP ? map_through(file)
                                   : add_up(file->kept, file->bytes);
  }
}

static enum toll_status check(struct toll_run *r) {
  struct file *file = r->state;
  const uint64_t sum = file->sum;
  file->sum = ~file->expected;
  if (file->failed) return toll_fail(r, "%llu calls failed", (unsigned long long)file->failed);
  return sum == file->expected ? TOLL_OK : toll_wrong(r, "what was read is not what was written");
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct file *)r->state)->bytes;
}

static const char *const routes[] = {"read", "kept_map", "new_map", NULL};
static const uint64_t sizes[] = {65536, 1 << 20, 16 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "route", .kind = TOLL_CHOICE, .summary = "how the file is read", .choices = routes},
    {.name = "size", .kind = TOLL_SIZE, .summary = "size of the file", .values = sizes, .typical = "1048576"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "rate",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes of the file read and added up a second",
                                              .means = "file-bandwidth"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is a file read again that is in memory, and is a map faster than read?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct file),
    .prepare = prepare,
    .body = read_again,
    .check = check,
    .work = work,
    .faults = true,
    .enters = true,
    .revision = 1,
};
