/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of the archive, to be read; and the program's output, which is the wire.
 */
#include <linux/errno.h>

#include "calls.h"

enum { FIRST_FILE = 3, MOST_FILES = 16, INPUT = 0, OUTPUT = 1, ERROR = 2 };

static struct open_file {
  struct bare_file file;
  uintptr_t at;
  bool open;
} files[MOST_FILES];
static struct bare_file program, archive;
static bool closed[FIRST_FILE];

static struct open_file *file_of(uintptr_t number) {
  struct open_file *file = number - FIRST_FILE < MOST_FILES ? &files[number - FIRST_FILE] : NULL;
  return file && file->open ? file : NULL;
}

/* A text of the program, which ends before its memory does; NULL where it does not. */
static const char *text_of_program(uintptr_t address) {
  enum { LONGEST = 4096 };
  for (uint32_t i = 0; i < LONGEST; i++) {
    const char *byte = memory_of_program(address + i, 1, MAY_READ);
    if (!byte) return NULL;
    if (!*byte) return byte - i;
  }
  return NULL;
}

static intptr_t open_file(uintptr_t path_at, uintptr_t flags) {
  const uint32_t writing = 3;
  struct bare_file found;
  const char *path = text_of_program(path_at);
  if (!path) return -EFAULT;
  if (text_equals(path, "/proc/self/exe"))
    found = program;
  else if (path[0] != '/' || !archive_find(archive, path + 1, &found))
    return -ENOENT;
  if (flags & writing) return -EROFS;
  for (intptr_t i = 0; i < MOST_FILES; i++) {
    if (files[i].open) continue;
    files[i] = (struct open_file){found, 0, true};
    return FIRST_FILE + i;
  }
  return -EMFILE;
}

intptr_t call_open(registers *core) {
  return open_file(ARGUMENT(core, 0), ARGUMENT(core, 1));
}

intptr_t call_openat(registers *core) {
  return open_file(ARGUMENT(core, 1), ARGUMENT(core, 2));
}

intptr_t call_close(registers *core) {
  struct open_file *file = file_of(ARGUMENT(core, 0));
  if (file)
    file->open = false;
  else if (ARGUMENT(core, 0) < FIRST_FILE && !closed[ARGUMENT(core, 0)])
    closed[ARGUMENT(core, 0)] = true;
  else
    return -EBADF;
  return 0;
}

static intptr_t read_at(const struct bare_file *file, uint64_t at, uintptr_t to, uintptr_t bytes) {
  if (at >= file->size) return 0;
  const uintptr_t left = file->size - (uintptr_t)at, count = bytes < left ? bytes : left;
  void *room = memory_of_program(to, count, MAY_WRITE);
  if (!room) return -EFAULT;
  memcpy(room, file->bytes + at, count);
  return (intptr_t)count;
}

intptr_t call_read(registers *core) {
  struct open_file *file = file_of(ARGUMENT(core, 0));
  if (!file) return ARGUMENT(core, 0) == INPUT ? 0 : -EBADF;
  intptr_t got = read_at(&file->file, file->at, ARGUMENT(core, 1), ARGUMENT(core, 2));
  if (got > 0) file->at += (uintptr_t)got;
  return got;
}

intptr_t call_pread(registers *core) {
  struct open_file *file = file_of(ARGUMENT(core, 0));
  return file ? read_at(&file->file, OFFSET_OF_PREAD(core), ARGUMENT(core, 1), ARGUMENT(core, 2)) : -EBADF;
}

static intptr_t seek(struct open_file *file, int64_t to, unsigned whence) {
  enum { SET, CURRENT, END };
  const int64_t base = whence == END ? (int64_t)file->file.size : whence == CURRENT ? (int64_t)file->at : 0;
  const int64_t at = base + to;
  if (at < 0 || at > (int64_t)file->file.size) return -EINVAL;
  file->at = (uintptr_t)at;
  return (intptr_t)at;
}

intptr_t call_lseek(registers *core) {
  struct open_file *file = file_of(ARGUMENT(core, 0));
  if (!file) return ARGUMENT(core, 0) < FIRST_FILE ? -ESPIPE : -EBADF;
  return seek(file, (intptr_t)ARGUMENT(core, 1), (unsigned)ARGUMENT(core, 2));
}

intptr_t call_llseek(registers *core) {
  struct open_file *file = file_of(ARGUMENT(core, 0));
  int64_t *result = memory_of_program(ARGUMENT(core, 3), sizeof *result, MAY_WRITE);
  if (!file) return ARGUMENT(core, 0) < FIRST_FILE ? -ESPIPE : -EBADF;
  if (!result) return -EFAULT;
  const int64_t to = (int64_t)((uint64_t)ARGUMENT(core, 1) << 32 | ARGUMENT(core, 2));
  const intptr_t at = seek(file, to, (unsigned)ARGUMENT(core, 4));
  if (at >= 0) *result = at;
  return at < 0 ? at : 0;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static intptr_t write_out(uintptr_t file, uintptr_t from, uintptr_t bytes) {
  if ((file != OUTPUT && file != ERROR) || closed[file]) return -EBADF;
  const char *text = memory_of_program(from, bytes, MAY_READ);
  if (!text) return -EFAULT;
  board_write(text, bytes);
  return (intptr_t)bytes;
}

intptr_t call_write(registers *core) {
  return write_out(ARGUMENT(core, 0), ARGUMENT(core, 1), ARGUMENT(core, 2));
}

intptr_t call_writev(registers *core) {
  intptr_t total = 0;
  for (uintptr_t i = 0; i < ARGUMENT(core, 2); i++) {
    const uintptr_t *piece =
        memory_of_program(ARGUMENT(core, 1) + i * sizeof(uintptr_t[2]), sizeof(uintptr_t[2]), MAY_READ);
    if (!piece) return -EFAULT;
    intptr_t wrote = piece[1] ? write_out(ARGUMENT(core, 0), piece[0], piece[1]) : 0;
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
