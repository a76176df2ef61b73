/* SPDX-License-Identifier: Apache-2.0
 *
 * What a folder's files lie on: a disk, or memory that only looks like one.
 */
#ifndef TOLL_KERNEL_MEDIUM_H
#define TOLL_KERNEL_MEDIUM_H

#include <errno.h>
#include <string.h>
#include <sys/statfs.h>

#include "toll.h"

/* statfs(2); the kernel's own header of them is not part of every C library. */
enum { MEDIUM_TMPFS = 0x01021994 };
#define MEDIUM_RAMFS 0x858458f6ul

static inline bool is_in_memory(const char *folder) {
  struct statfs status;
  if (statfs(folder, &status) < 0) return false;
  return (unsigned long)status.f_type == MEDIUM_TMPFS || (unsigned long)(uint32_t)status.f_type == MEDIUM_RAMFS;
}

/* For prepare: what is in memory is no disk, whatever its folder is called. */
static inline enum toll_status needs_disk(struct toll_run *r, const char *folder) {
  if (!is_in_memory(folder)) return TOLL_OK;
  return toll_skip(r, "%.160s is in memory (tmpfs): --folder FOLDER names one on a disk", folder);
}

/* A full disk is the machine's state and no failure of the probe's. */
static inline enum toll_status refuse_file(struct toll_run *r, const char *folder, int error) {
  if (error == ENOSPC || error == EDQUOT) return toll_skip(r, "there is no room left in %.160s", folder);
  return toll_skip(r, "no file can be made in %.160s: %s", folder, strerror(error));
}

#endif
