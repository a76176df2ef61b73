/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of 0 to 10 KiB made, removed, and forced to the disk (lmbench: lat_fs), in a folder on a disk and in one in memory.
 *
 * Making and removing change the file system's memory; only a journal or fsync brings that to the disk, so that the two
 * media differ by little there and by everything in fsync. As in lat_fs a group of files is made and then removed, in a
 * folder of their own, with the clock stopped for one half of it. The forced file's content was just rewritten;
 * otherwise there would be nothing to force.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper.h"
#include "medium.h"
#include "toll.h"

enum act { CREATE, DELETE, FSYNC };
enum medium { DISK, MEMORY };
enum { GROUP = 64, LARGEST = 1 << 20, PATH_BYTES = 1100 };

struct files {
  char folder[PATH_BYTES];
  int place, forced; /* the folder, and the file that is forced */
  size_t bytes;
  char *content;
  int refused; /* errno of the first that failed */
  uint64_t failed, done;
};

static void name_of(unsigned number, char name[16]) {
  snprintf(name, 16, "%u", number);
}

static void note(struct files *files, bool well) {
  if (!well && !files->failed++) files->refused = errno;
}

static bool make_one(struct files *files, unsigned number) {
  char name[16];
  name_of(number, name);
  const int file = openat(files->place, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool filled = write(file, files->content, files->bytes) == (ssize_t)files->bytes;
  return close(file) == 0 && filled;
}

static bool remove_one(struct files *files, unsigned number) {
  char name[16];
  name_of(number, name);
  return unlinkat(files->place, name, 0) == 0;
}

static void remove_all(const void *what) {
  const struct files *files = what;
  char path[PATH_BYTES + 16];
  for (unsigned number = 0; number <= GROUP; number++) {
    snprintf(path, sizeof path, "%s/%u", files->folder, number);
    unlink(path);
  }
  rmdir(files->folder);
}

static enum toll_status make_folder(struct toll_run *r, struct files *files, const char *parent) {
  snprintf(files->folder, sizeof files->folder, "%s/toll.XXXXXX", parent);
  if (!keep_until_end(remove_all, files)) return toll_skip(r, "nothing would remove the files: %s", strerror(errno));
  if (!mkdtemp(files->folder)) return refuse_file(r, parent, errno);
  files->place = open(files->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return files->place >= 0 ? TOLL_OK : refuse_file(r, parent, errno);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct files *files = r->state;
  const bool disk = toll_choice(r, "medium") == DISK;
  const char *parent = disk ? toll_folder(r) : "/dev/shm";
  files->bytes = (size_t)toll_number(r, "size");
  if (files->bytes > LARGEST) return toll_skip(r, "a file has %d bytes at most", LARGEST);
  files->content = toll_buffer(r, (struct toll_buffer_request){.bytes = LARGEST});
  if (!files->content) return toll_refused(r);
  if (!disk && !is_in_memory(parent)) return toll_skip(r, "%s is not in memory", parent);
  if ((disk && needs_disk(r, parent) != TOLL_OK) || make_folder(r, files, parent) != TOLL_OK) return toll_refused(r);
  if (!make_one(files, GROUP)) return refuse_file(r, parent, errno);
  files->forced = openat(files->place, "64", O_WRONLY | O_CLOEXEC);
  return files->forced >= 0 ? TOLL_OK : refuse_file(r, parent, errno);
}

static void make_group(struct files *files) {
  for (unsigned number = 0; number < GROUP; number++) note(files, make_one(files, number));
}
static void remove_group(struct files *files) {
  for (unsigned number = 0; number < GROUP; number++) note(files, remove_one(files, number));
}

static void create(struct files *files) {
  make_group(files);
  toll_timer_pause();
  remove_group(files);
  toll_timer_resume();
}

static void delete (struct files *files) {
  toll_timer_pause();
  make_group(files);
  toll_timer_resume();
  remove_group(files);
}

static void force_one(struct files *files) {
  const bool written = pwrite(files->forced, files->content, files->bytes, 0) == (ssize_t)files->bytes;
  note(files, written && fsync(files->forced) == 0);
}

static void act(struct toll_run *r) {
  struct files *files = r->state;
  const unsigned act = toll_choice(r, "act");
  for (uint64_t i = r->iterations; i; i--) {
    if (act == FSYNC)
      force_one(files);
    else
      (act == CREATE ? create : delete)(files);
  }
  files->done += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct files *files = r->state;
  if (!files->failed) return TOLL_OK;
  if (files->refused == ENOSPC || files->refused == EDQUOT) return refuse_file(r, files->folder, files->refused);
  return toll_fail(r, "%llu calls failed: %s", (unsigned long long)files->failed, strerror(files->refused));
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = toll_choice(r, "act") == FSYNC ? 1 : GROUP;
}

static const char *const acts[] = {"create", "delete", "fsync", NULL};
static const char *const media[] = {"disk", "memory", NULL};
static const uint64_t sizes[] = {0, 1024, 4096, 10240, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "act", .kind = TOLL_CHOICE, .summary = "operation on a file", .choices = acts},
    {.name = "size", .kind = TOLL_SIZE, .summary = "size of the file", .values = sizes, .typical = "4096"},
    {.name = "medium",
     .kind = TOLL_CHOICE,
     .summary = "what the file lies on: the run's folder or that of --folder, or /dev/shm",
     .choices = media,
     .typical = "disk"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "file", .unit = "ns", .summary = "one file", .toll = "{act} a file of 4 KiB on a disk"}, {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to make a file, to remove it, and to have it on the disk for certain?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct files),
    .prepare = prepare,
    .body = act,
    .check = check,
    .work = work,
    .switches = true,
    .pauses = true,
    .revision = 1,
};
