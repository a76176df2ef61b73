/* SPDX-License-Identifier: Apache-2.0
 *
 * The everyday calls on files, where nothing has to be fetched: what lmbench asks as lat_syscall, lat_fcntl and lat_fs.
 *
 * Reading the zero device and writing the null device are an entry, the look-up of a descriptor and a call through a table;
 * pread brings the page cache and a copy of 4 KiB, of a page that
 * was written (one that never was is not in the cache, and is cleared in place of copied); stat walks a path, fstat does not; opening makes a descriptor and
 * closing frees it; a lock is taken and given back; a file is made, filled with 0 to 10 KiB and removed. The file lies in
 * the system's memory file system, so that no disk is asked. stat and open are of /dev/null: path_call has regular files.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "toll.h"

enum { PAGE = 4096, MOST_CREATED = 10240, PATH_BYTES = 64 };

struct file {
  int zero, null, memory;
  char path[PATH_BYTES];
  char buffer[MOST_CREATED];
  uint64_t failed, done;
};

static bool read_zero(struct file *file) {
  return read(file->zero, file->buffer, 1) == 1;
}
static bool write_null(struct file *file) {
  return write(file->null, file->buffer, 1) == 1;
}
static bool read_page(struct file *file) {
  return pread(file->memory, file->buffer, PAGE, 0) == PAGE;
}
static bool write_page(struct file *file) {
  return pwrite(file->memory, file->buffer, PAGE, 0) == PAGE;
}
static bool ask_descriptor(struct file *file) {
  struct stat status;
  return fstat(file->memory, &status) == 0 && status.st_size == PAGE;
}
static bool ask_path(struct file *file) {
  struct stat status;
  (void)file;
  return stat("/dev/null", &status) == 0 && S_ISCHR(status.st_mode);
}
static bool open_and_close(struct file *file) {
  const int opened = open("/dev/null", O_RDONLY);
  (void)file;
  return opened >= 0 && close(opened) == 0;
}
static bool lock_and_unlock(struct file *file) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  const bool locked = fcntl(file->memory, F_SETLK, &lock) == 0;
  lock.l_type = F_UNLCK;
  return locked && fcntl(file->memory, F_SETLK, &lock) == 0;
}
static bool create_and_remove(struct file *file, size_t bytes) {
  const int created = open(file->path, O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (created < 0) return false;
  const bool filled = write(created, file->buffer, bytes) == (ssize_t)bytes;
  close(created);
  return unlink(file->path) == 0 && filled;
}
static bool create_empty(struct file *file) {
  return create_and_remove(file, 0);
}
static bool create_full(struct file *file) {
  return create_and_remove(file, MOST_CREATED);
}

static const char *const names[] = {"read_zero", "write_null", "read_page",    "write_page", "fstat", "stat",
                                    "open",      "lock",       "create_empty", "create_10k", NULL};
static bool (*const calls[])(struct file *file) = {read_zero,      write_null, read_page,      write_page,
                                                   ask_descriptor, ask_path,   open_and_close, lock_and_unlock,
                                                   create_empty,   create_full};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct file *file = r->state;
  const unsigned call = toll_choice(r, "call");
  file->zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  file->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  file->memory = memfd_create("toll", MFD_CLOEXEC);
  if (file->memory >= 0 && !write_page(file)) return toll_fail(r, "no file in memory could be filled");
  snprintf(file->path, sizeof file->path, "/dev/shm/toll.%ld.%d", (long)getpid(), (int)(r->seed % 1000));
  if (!calls[call](file)) return toll_skip(r, "the system does not do it: %s: %s", names[call], strerror(errno));
  return TOLL_OK;
}

static void call(struct toll_run *r) {
  struct file *file = r->state;
  bool (*const one)(struct file *) = calls[toll_choice(r, "call")];
  for (uint64_t i = r->iterations; i; i--) file->failed += !one(file);
  file->done += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct file *file = r->state;
  if (!file->failed) return TOLL_OK;
  return toll_wrong(r, "%llu of %llu calls failed", (unsigned long long)file->failed, (unsigned long long)file->done);
}

static const struct toll_parameter parameters[] = {
    {.name = "call", .kind = TOLL_CHOICE, .summary = "what is asked of the file system", .choices = names}, {0}};
static const struct toll_metric metrics[] = {{.name = "call",
                                              .unit = "ns",
                                              .summary = "one call, or the pair that belongs together",
                                              .toll = "file system call, {call}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What do the everyday calls on files cost, with everything in memory?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct file),
    .prepare = prepare,
    .body = call,
    .check = check,
    .enters = true,
    .revision = 2,
};
