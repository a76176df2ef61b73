/* SPDX-License-Identifier: Apache-2.0
 *
 * The medium of a folder's files: a disk, or memory.
 */
#ifndef TOLL_KERNEL_MEDIUM_H
#define TOLL_KERNEL_MEDIUM_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "toll.h"

/* statfs(2); the kernel's own header of them is not part of every C library. */
enum { MEDIUM_TMPFS = 0x01021994 };
#define MEDIUM_RAMFS 0x858458f6ul

static inline bool is_in_memory(const char *folder) {
  struct statfs status;
  if (statfs(folder, &status) < 0) return false;
  return (unsigned long)status.f_type == MEDIUM_TMPFS || (unsigned long)(uint32_t)status.f_type == MEDIUM_RAMFS;
}

/* For prepare: skips if the folder is in memory, whatever its name. */
static inline enum toll_status needs_disk(struct toll_run *r, const char *folder) {
  if (!is_in_memory(folder)) return TOLL_OK;
  return toll_skip(r, "%.160s is in memory (tmpfs): --folder FOLDER names one on a disk", folder);
}

/* A full disk is the machine's state and no failure of the probe's. */
static inline enum toll_status refuse_file(struct toll_run *r, const char *folder, int error) {
  if (error == ENOSPC || error == EDQUOT) return toll_skip(r, "there is no room left in %.160s", folder);
  return toll_skip(r, "no file can be made in %.160s: %s", folder, strerror(error));
}

/* Opens a file that is removed when the process ends: without a name if the file system supports that, else with one
 * that is removed at once. flags: besides O_RDWR. */
static inline int open_nameless(const char *folder, int flags) {
  char name[1100];
  const int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  snprintf(name, sizeof name, "%s/toll.XXXXXX", folder);
  const int named = mkostemp(name, O_CLOEXEC | flags);
  if (named >= 0) unlink(name);
  return named;
}

/* The same with so many bytes, whose pages stay in the system's memory. Written by 8 KiB at a time, as lmbench's lmdd
 * does: a file system that keeps several pages as one (large folios) does so by the size of the write, and a fault maps
 * them all. 103 stores into a tenth of 16 MiB are 103 faults then, 26 if 64 KiB were written at a time, and 2 if 1 MiB. */
static inline int open_filled(const char *folder, size_t bytes, char mark) {
  static char chunk[8 << 10];
  const int file = open_nameless(folder, 0);
  memset(chunk, mark, sizeof chunk);
  for (size_t done = 0; file >= 0 && done < bytes;) {
    const size_t left = bytes - done;
    const ssize_t wrote = write(file, chunk, left < sizeof chunk ? left : sizeof chunk);
    if (wrote <= 0) return -1;
    done += (size_t)wrote;
  }
  return file;
}

#endif
