/* SPDX-License-Identifier: Apache-2.0
 *
 * What a witness reads of the system's files, from files made for it.
 */
#include <sys/mman.h>

#include "expect.h"
#include "witness.c"

TOLL_TEST_NAME("test.witness");

static int file_of(const char *text) {
  int file = memfd_create("emitted", MFD_CLOEXEC);
  EXPECT(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
  return file;
}

static uint64_t delay_of(const char *text) {
  watched.delay_file = file_of(text);
  uint64_t delay = read_delay();
  close(watched.delay_file);
  watched.delay_file = -1;
  return delay;
}

static void expect_delays(void) {
  EXPECT(delay_of("5000 1234 7\n") == 1234);
  EXPECT(delay_of("5000 0 7\n") == 0);
  EXPECT(delay_of("18446744073709551 18446744073709550 1\n") == 18446744073709550u);
  EXPECT(delay_of("0 0 0\n") == TOLL_UNSEEN); /* scheduler statistics are off */
  EXPECT(delay_of("nothing\n") == TOLL_UNSEEN);
  EXPECT(delay_of("") == TOLL_UNSEEN);
  EXPECT(read_delay() == TOLL_UNSEEN); /* no such file */
}

/* A machine of so many CPUs, each with one tick more stolen than its number. */
static char *stat_of(unsigned cpus, const char *rest) {
  static char text[1 << 16];
  size_t used = (size_t)snprintf(text, sizeof text, "cpu  1 2 3 4 5 6 7 99999 0 0\n");
  for (unsigned cpu = 0; cpu < cpus; cpu++)
    used += (size_t)snprintf(text + used, sizeof text - used, "cpu%u 1 2 3 4 5 6 7 %u 0 0\n", cpu, cpu + 1);
  snprintf(text + used, sizeof text - used, "%s", rest);
  return text;
}

static uint64_t steal_of(const char *text, const int *cpus, unsigned count) {
  watched.cpus = cpus;
  watched.cpu_count = count;
  watched.stat_file = file_of(text);
  make_room_for_cpus();
  uint64_t ticks = read_steal();
  if (watched.stat_file >= 0) close(watched.stat_file);
  watched.stat_file = -1;
  return ticks;
}

static void expect_steal(void) {
  const int few[] = {0, 2}, many[] = {0, 2, 399};
  EXPECT(steal_of(stat_of(4, "intr 1 2 3\n"), few, 2) == 1 + 3);
  EXPECT(strlen(stat_of(400, "intr 1\n")) > 8192);
  EXPECT(steal_of(stat_of(400, "intr 1 2 3\n"), many, 3) == 1 + 3 + 400);
  EXPECT(watched.room > 8192);
  EXPECT(steal_of(stat_of(4, ""), few, 2) == 1 + 3);                 /* nothing after the CPUs */
  EXPECT(steal_of("cpu  1 2 3 4\ncpu0 1 2\nintr 1\n", few, 2) == 0); /* before steal was counted */
  EXPECT(steal_of("nothing\n", few, 2) == 0 && steal_of("", few, 2) == TOLL_UNSEEN);
}

/* What the system refuses is not zero. */
static void expect_gaps(void) {
  const struct toll_look calm = {.witness = {.involuntary = 1}},
                         refused = {.witness = {.involuntary = TOLL_UNSEEN, .steal_ticks = TOLL_UNSEEN}};
  char said[4096] = "";
  int file = memfd_create("said", MFD_CLOEXEC), before = dup(STDOUT_FILENO);
  EXPECT(file >= 0 && dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
  toll_emit_witness(0, &calm, &refused, 0);
  toll_emit_flush();
  dup2(before, STDOUT_FILENO);
  EXPECT(pread(file, said, sizeof said - 1, 0) > 0);
  EXPECT(strstr(said, "\"involuntary\":null") && strstr(said, "\"steal_ticks\":null"));
  EXPECT(strstr(said, "\"major_faults\":0"));
}

int main(void) {
  expect_delays();
  expect_steal();
  expect_gaps();
  free(watched.text);
  return failures;
}
