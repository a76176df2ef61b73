/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks for a clock that is not this machine's: one byte on a line, before and after each timed batch, which somebody at its
 * other end stamps (Willcocks, "Speed limits", 2013, timed a kernel so that had no clock of its own).
 *
 * A mark is its number modulo 128 with the highest bit set, so that one which was lost or came twice is known by its
 * neighbours, and no text of a record is taken for one.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { CLOSED = -1, MARK = 0x80 };

static int line = CLOSED;
static uint64_t count;

enum toll_status toll_marks_open(struct toll_run *r) {
  const char *path = r->visit->request.marks;
  count = 0;
  if (!*path || line != CLOSED) return TOLL_OK;
  line = strcmp(path, "-") == 0 ? STDOUT_FILENO : open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
  return line < 0 ? toll_fail(r, "the line for marks cannot be opened: %s: %s", path, strerror(errno)) : TOLL_OK;
}

bool toll_marks_are_on(void) {
  return line != CLOSED;
}

uint64_t toll_marks_made(void) {
  return count;
}

void toll_mark(void) {
  const unsigned char byte = (unsigned char)(MARK | (count & (MARK - 1)));
  if (line == CLOSED) return;
  while (write(line, &byte, 1) < 0 && errno == EINTR) continue; /* a mark that is refused is lost, as on any line */
  count++;
}
