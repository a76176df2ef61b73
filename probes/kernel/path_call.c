/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that walk a path to a regular file: stat, open and close, by the number of the path's components.
 *
 * Each component is one look-up in the kernel's table of names (the dentry cache), which takes no lock while all names are
 * there. lmbench's lat_syscall asks for /usr/include/linux/types.h, of four. The same file again and again is found
 * through cached lines; of many files, each asked once a lap in an order of its own, most of the entries come from memory:
 * what a program pays that goes through a large tree, as find, git status or make do. Opening and closing are timed
 * apart in groups, the clock stopped for the other half.
 */
#define _GNU_SOURCE 1
#include "toll.h"
#include "tree.h"

enum call { STAT, OPEN_CLOSE, OPEN, CLOSE };
enum { GROUP = 64, MOST_FILES = 1 << 16 };

struct paths {
  struct tree tree;
  uint32_t next, step; /* the file that is asked for, and the distance to the next one */
  int opened[GROUP];
  uint64_t failed;
};

static const char *path_of(const struct paths *paths, char *path) {
  tree_path(&paths->tree, paths->next, path);
  return path;
}

/* The path of a single file is written once; with many files, each path is written before its call. */
struct cursor {
  struct paths *paths;
  char path[TREE_PATH];
};

static void move(struct cursor *cursor) {
  struct paths *paths = cursor->paths;
  if (paths->tree.files == 1) return;
  paths->next = (paths->next + paths->step) % paths->tree.files;
  path_of(paths, cursor->path);
}

static bool ask(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool open_and_close(const char *path) {
  const int file = open(path, O_RDONLY);
  return file >= 0 && close(file) == 0;
}

static void open_group(struct cursor *cursor) {
  struct paths *paths = cursor->paths;
  for (int i = 0; i < GROUP; i++, move(cursor)) paths->failed += (paths->opened[i] = open(cursor->path, O_RDONLY)) < 0;
}

static void close_group(struct paths *paths) {
  for (int i = 0; i < GROUP; i++) paths->failed += close(paths->opened[i]) != 0;
}

static void call_group(struct cursor *cursor, unsigned call) {
  if (call == CLOSE) toll_timer_pause();
  open_group(cursor);
  if (call == CLOSE)
    toll_timer_resume();
  else
    toll_timer_pause();
  close_group(cursor->paths);
  if (call == OPEN) toll_timer_resume();
}

static unsigned operations_of(unsigned call) {
  return call == OPEN || call == CLOSE ? GROUP : 1;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct paths *paths = r->state;
  paths->tree.depth = (unsigned)toll_number(r, "components");
  paths->tree.files = (unsigned)toll_number(r, "files");
  if (!paths->tree.files || paths->tree.files > MOST_FILES) return toll_skip(r, "1 to %d files are made", MOST_FILES);
  paths->step = paths->tree.files % 7919 ? 7919 : 1; /* a prime, so that a lap comes to each file once */
  return tree_make(r, &paths->tree);
}

static void call(struct toll_run *r) {
  struct paths *paths = r->state;
  struct cursor cursor = {.paths = paths};
  const unsigned call = toll_choice(r, "call");
  path_of(paths, cursor.path);
  for (uint64_t i = r->iterations; i; i--) {
    if (call == STAT || call == OPEN_CLOSE) {
      paths->failed += !(call == STAT ? ask : open_and_close)(cursor.path);
      move(&cursor);
    } else {
      call_group(&cursor, call);
    }
  }
}

/* The control: the same sequence of files without calls, which is the cost of writing many paths. */
static void control(struct toll_run *r) {
  struct paths *paths = r->state;
  struct cursor cursor = {.paths = paths};
  const unsigned call = toll_choice(r, "call");
  path_of(paths, cursor.path);
  for (uint64_t i = r->iterations * operations_of(call); i; i--) {
    if (call != CLOSE) move(&cursor);
    TOLL_MEMORY();
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct paths *paths = r->state;
  char path[TREE_PATH];
  if (paths->failed) return toll_wrong(r, "%llu calls failed", (unsigned long long)paths->failed);
  return ask(path_of(paths, path)) ? TOLL_OK : toll_wrong(r, "%s is no file", path);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = operations_of(toll_choice(r, "call"));
}

static const char *const calls[] = {"stat", "open_close", "open", "close", NULL};
static const uint64_t depths[] = {3, 4, 8, 16, TOLL_END}, counts[] = {1, 1 << 14, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "call", .kind = TOLL_CHOICE, .summary = "what is asked for", .choices = calls},
    {.name = "components",
     .kind = TOLL_COUNT,
     .summary = "names in the path, the file's included",
     .values = depths,
     .typical = "4"},
    {.name = "files",
     .kind = TOLL_COUNT,
     .summary = "files that are asked for one after the other: one, or so many that their entries are in no cache",
     .values = counts,
     .typical = "1"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "call",
                                              .unit = "ns",
                                              .summary = "one call on a path to a regular file",
                                              .source = TOLL_DIFFERENCE,
                                              .toll = "{call} by a path of 4 names"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a path to a file cost, by its length and in a large tree?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct paths),
    .prepare = prepare,
    .body = call,
    .control = control,
    .check = check,
    .work = work,
    .pauses = true,
    .enters = true,
    .revision = 1,
};
