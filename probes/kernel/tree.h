/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree of empty files in a folder of the probe's own below /tmp, all at the same depth, removed when the visit ends.
 */
#ifndef TOLL_KERNEL_TREE_H
#define TOLL_KERNEL_TREE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper.h"
#include "medium.h"
#include "toll.h"

enum { TREE_PATH = 320, TREE_MOST_DEPTH = 32, TREE_LEAST_DEPTH = 3, TREE_WIDTH = 256 };

/* The folder that files of each `TREE_WIDTH` share is the last but one component. */
struct tree {
  char root[32];
  unsigned depth; /* components of a file's path */
  unsigned files;
};

/* Writes the part of a path such as /tmp/toll.XXXXXX/d/d/0/17 before the last two components. */
static inline int tree_write_stem(const struct tree *tree, unsigned components, char *path) {
  int length = snprintf(path, TREE_PATH, "%s", tree->root);
  for (unsigned i = 2; i + 2 < components; i++) length += snprintf(path + length, TREE_PATH - (size_t)length, "/d");
  return length;
}

static inline void tree_path(const struct tree *tree, unsigned file, char *path) {
  const int length = tree_write_stem(tree, tree->depth, path);
  if (tree->depth == TREE_LEAST_DEPTH)
    snprintf(path + length, TREE_PATH - (size_t)length, "/%u", file);
  else
    snprintf(path + length, TREE_PATH - (size_t)length, "/%u/%u", file / TREE_WIDTH, file);
}

static inline void tree_remove(const void *what) {
  const struct tree *tree = what;
  char path[TREE_PATH];
  for (unsigned file = 0; file < tree->files; file++) {
    tree_path(tree, file, path);
    unlink(path);
    *strrchr(path, '/') = 0;
    if ((file + 1) % TREE_WIDTH == 0 || file + 1 == tree->files) rmdir(path);
  }
  for (unsigned components = tree->depth; components >= TREE_LEAST_DEPTH; components--) {
    tree_write_stem(tree, components, path);
    rmdir(path);
  }
}

static inline bool tree_make_file(const struct tree *tree, unsigned number) {
  char path[TREE_PATH];
  tree_path(tree, number, path);
  if (number % TREE_WIDTH == 0 && tree->depth > TREE_LEAST_DEPTH) {
    char *const end = strrchr(path, '/');
    *end = 0;
    if (mkdir(path, 0700) < 0) return false;
    *end = '/';
  }
  const int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  return file >= 0 && close(file) == 0;
}

/* For prepare. tree: in memory that the keeper shares, with its depth and its number of files. */
static inline enum toll_status tree_make(struct toll_run *r, struct tree *tree) {
  char path[TREE_PATH];
  if (tree->depth < TREE_LEAST_DEPTH || tree->depth > TREE_MOST_DEPTH)
    return toll_skip(r, "a path has %d to %d components, not %u", TREE_LEAST_DEPTH, TREE_MOST_DEPTH, tree->depth);
  snprintf(tree->root, sizeof tree->root, "/tmp/toll.XXXXXX");
  if (!mkdtemp(tree->root)) return refuse_file(r, "/tmp", errno);
  if (!keep_until_end(tree_remove, tree)) {
    rmdir(tree->root);
    return toll_skip(r, "nothing would remove the files: %s", strerror(errno));
  }
  for (unsigned components = TREE_LEAST_DEPTH + 2; components <= tree->depth; components++) {
    tree_write_stem(tree, components, path);
    if (mkdir(path, 0700) < 0) return refuse_file(r, tree->root, errno);
  }
  for (unsigned file = 0; file < tree->files; file++)
    if (!tree_make_file(tree, file)) return refuse_file(r, tree->root, errno);
  return TOLL_OK;
}

#endif
