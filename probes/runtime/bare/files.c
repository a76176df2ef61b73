/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of the archive, to be read; and the program's output, which is the wire.
 */
#include <linux/errno.h>

#include "calls.h"

enum { FIRST_FILE = 3, MOST_FILES = 16, INPUT = 0, OUTPUT = 1, ERROR = 2 };

static struct open_file {
  struct bare_file file;
  uint32_t at;
  bool open;
} files[MOST_FILES];
static struct bare_file program, archive;
static bool closed[FIRST_FILE];

static struct open_file *file_of(uint32_t number) {
  struct open_file *file = number - FIRST_FILE < MOST_FILES ? &files[number - FIRST_FILE] : NULL;
  return file && file->open ? file : NULL;
}

/* A text of the program, which ends before its memory does; NULL where it does not. */
static const char *text_of_program(uint32_t address) {
  enum { LONGEST = 4096 };
  for (uint32_t i = 0; i < LONGEST; i++) {
    const char *byte = memory_of_program(address + i, 1, MAY_READ);
    if (!byte) return NULL;
    if (!*byte) return byte - i;
  }
  return NULL;
}

static int32_t open_file(uint32_t path_at, uint32_t flags) {
  const uint32_t writing = 3;
  struct bare_file found;
  const char *path = text_of_program(path_at);
  if (!path) return -EFAULT;
  if (text_equals(path, "/proc/self/exe"))
    found = program;
  else if (path[0] != '/' || !archive_find(archive, path + 1, &found))
    return -ENOENT;
  if (flags & writing) return -EROFS;
  for (int32_t i = 0; i < MOST_FILES; i++) {
    if (files[i].open) continue;
    files[i] = (struct open_file){found, 0, true};
    return FIRST_FILE + i;
  }
  return -EMFILE;
}

int32_t call_open(struct fpa_core *core) {
  return open_file(core->r[0], core->r[1]);
}

int32_t call_openat(struct fpa_core *core) {
  return open_file(core->r[1], core->r[2]);
}

int32_t call_close(struct fpa_core *core) {
  struct open_file *file = file_of(core->r[0]);
  if (file)
    file->open = false;
  else if (core->r[0] < FIRST_FILE && !closed[core->r[0]])
    closed[core->r[0]] = true;
  else
    return -EBADF;
  return 0;
}

static int32_t read_at(const struct bare_file *file, uint64_t at, uint32_t to, uint32_t bytes) {
  if (at >= file->size) return 0;
  const uint32_t left = file->size - (uint32_t)at, count = bytes < left ? bytes : left;
  void *room = memory_of_program(to, count, MAY_WRITE);
  if (!room) return -EFAULT;
  memcpy(room, file->bytes + at, count);
  return (int32_t)count;
}

int32_t call_read(struct fpa_core *core) {
  struct open_file *file = file_of(core->r[0]);
  if (!file) return core->r[0] == INPUT ? 0 : -EBADF;
  int32_t got = read_at(&file->file, file->at, core->r[1], core->r[2]);
  if (got > 0) file->at += (uint32_t)got;
  return got;
}

int32_t call_pread(struct fpa_core *core) {
  struct open_file *file = file_of(core->r[0]);
  return file ? read_at(&file->file, core->r[4] | (uint64_t)core->r[5] << 32, core->r[1], core->r[2]) : -EBADF;
}

int32_t call_llseek(struct fpa_core *core) {
  enum { SET, CURRENT, END };
  struct open_file *file = file_of(core->r[0]);
  int64_t *told = memory_of_program(core->r[3], sizeof *told, MAY_WRITE);
  if (!file) return core->r[0] < FIRST_FILE ? -ESPIPE : -EBADF;
  if (!told) return -EFAULT;
  int64_t base = core->r[4] == END ? file->file.size : core->r[4] == CURRENT ? file->at : 0;
  int64_t at = base + (int64_t)((uint64_t)core->r[1] << 32 | core->r[2]);
  if (at < 0 || at > file->file.size) return -EINVAL;
  file->at = (uint32_t)at;
  *told = at;
  return 0;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static int32_t write_out(uint32_t file, uint32_t from, uint32_t bytes) {
  if ((file != OUTPUT && file != ERROR) || closed[file]) return -EBADF;
  const char *text = memory_of_program(from, bytes, MAY_READ);
  if (!text) return -EFAULT;
  board_write(text, bytes);
  return (int32_t)bytes;
}

int32_t call_write(struct fpa_core *core) {
  return write_out(core->r[0], core->r[1], core->r[2]);
}

int32_t call_writev(struct fpa_core *core) {
  int32_t total = 0;
  for (uint32_t i = 0; i < core->r[2]; i++) {
    const uint32_t *piece = memory_of_program(core->r[1] + i * 8, 8, MAY_READ);
    if (!piece) return -EFAULT;
    int32_t wrote = piece[1] ? write_out(core->r[0], piece[0], piece[1]) : 0;
    if (wrote < 0) return wrote;
    total += wrote;
  }
  return total;
}

void files_clear(struct bare_file new_program, struct bare_file new_archive) {
  program = new_program;
  archive = new_archive;
  memset(files, 0, sizeof files);
  memset(closed, 0, sizeof closed);
}
