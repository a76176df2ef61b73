/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks for an external clock: one byte on a serial line before and after each timed batch. The process at the other
 * end records its time of arrival. Willcocks ("Speed limits", 2013) timed a kernel without a clock in this way.
 *
 * A mark is its number modulo 128 with the highest bit set. The sequence shows a lost or repeated mark, and no byte of
 * a record can be taken for a mark.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum { CLOSED = -1, MARK = 0x80 };

static int line = CLOSED;
static bool is_terminal;
static uint64_t count;

enum toll_status toll_marks_open(struct toll_run *r) {
  const char *path = r->visit->request.marks;
  count = 0;
  if (!*path || line != CLOSED) return TOLL_OK;
  line = strcmp(path, "-") == 0 ? STDOUT_FILENO : open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
  is_terminal = isatty(line);
  return line < 0 ? toll_fail(r, "the line for marks cannot be opened: %s: %s", path, strerror(errno)) : TOLL_OK;
}

bool toll_marks_are_on(void) {
  return line != CLOSED;
}

uint64_t toll_marks_made(void) {
  return count;
}

uint64_t toll_mark(void) {
  const unsigned char byte = (unsigned char)(MARK | (count & (MARK - 1)));
  if (line == CLOSED) return 0;
  const uint64_t now = toll_now_ns();
  while (write(line, &byte, 1) < 0 && errno == EINTR) continue; /* a mark that is refused is lost, as on any line */
  count++;
  return now;
}

/* Linux delivers a terminal's bytes from an unbound kernel worker of normal priority (tty_flip_buffer_push). The
 * scheduler may queue that worker on this CPU, where it waits until the real-time probe sleeps. A probe of normal
 * priority shares its CPU anyway, and its sleep would count as lost CPU time. */
void toll_marks_let_pass(const struct toll_run *r) {
  const struct timespec pause = {0, 100000};
  if (line != CLOSED && is_terminal && r->visit->real_time) nanosleep(&pause, NULL);
}
