/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

TOLL_TEST_NAME("test.emit");

static char written[4 * TOLL_LONGEST_LINE];

/* What the records between begin() and taken() look like on standard output. */
static int saved, ends[2];
static void begin(void) {
  saved = dup(STDOUT_FILENO);
  if (pipe(ends) < 0 || dup2(ends[1], STDOUT_FILENO) < 0) failures++;
}
static const char *taken(void) {
  toll_emit_end(false, false, NULL);
  dup2(saved, STDOUT_FILENO);
  close(ends[1]);
  close(saved);
  size_t used = 0;
  for (ssize_t got; (got = read(ends[0], written + used, sizeof written - 1 - used)) > 0;) used += (size_t)got;
  close(ends[0]);
  written[used] = '\0';
  return written;
}

static void expect_crc(void) {
  EXPECT(toll_crc32(0, "123456789", 9) == 0xcbf43926u); /* the check value of the CRC catalogue */
  EXPECT(toll_crc32(toll_crc32(0, "1234", 4), "56789", 5) == 0xcbf43926u);
  EXPECT(toll_crc32(0, "", 0) == 0);
}

static void expect_seal(void) {
  begin();
  toll_record_open("skip");
  toll_put_text("reason", "none");
  toll_record_close();
  const char *line = taken(), *seal = strstr(line, ",\"c\":\"");
  EXPECT(strncmp(line, "{\"k\":\"skip\",\"reason\":\"none\",\"n\":0,\"c\":\"", 38) == 0);
  unsigned claimed = 0;
  EXPECT(seal && sscanf(seal, ",\"c\":\"%8x\"}", &claimed) == 1);
  EXPECT(seal && claimed == toll_crc32(0, line, (size_t)(seal - line)));
  EXPECT(strstr(line, "\"k\":\"end\",\"records\":1,\"n\":1,") != NULL);
}

static void expect_escapes(void) {
  begin();
  toll_record_open("visit");
  toll_put_text("a", "\"\\\n\x7f\x01");
  toll_put_text("b", "gr\xc3\xbc\xc3\x9f");
  toll_put_text("c", "\xff\xc0\xaf\xed\xa0\x80");
  toll_put_real("d", INFINITY);
  toll_put_text("e", NULL);
  toll_record_close();
  const char *line = taken();
  EXPECT(strstr(line, "\"a\":\"\\\"\\\\\\u000a\\u007f\\u0001\"") != NULL);
  EXPECT(strstr(line, "\"b\":\"gr\xc3\xbc\xc3\x9f\"") != NULL);
  EXPECT(strstr(line, "\xff") == NULL && strstr(line, "\xed\xa0\x80") == NULL);
  EXPECT(strstr(line, "\"d\":null,\"e\":null") != NULL);
}

static void expect_commas(void) {
  begin();
  toll_record_open("sample");
  toll_put_open("list", '[');
  toll_put_count(NULL, 1);
  toll_put_open(NULL, '{');
  toll_put_bool("yes", true);
  toll_put_integer("no", -4);
  toll_put_close('}');
  toll_put_open(NULL, '[');
  toll_put_close(']');
  toll_put_close(']');
  toll_record_close();
  EXPECT(strstr(taken(), "\"list\":[1,{\"yes\":true,\"no\":-4},[]],\"n\":0") != NULL);
}

static void expect_numbers(void) {
  begin();
  toll_record_open("sample");
  toll_put_open("list", '[');
  for (unsigned i = 0; i < 3; i++) toll_put_count(NULL, (uint64_t[]){0, 10, UINT64_MAX}[i]);
  for (unsigned i = 0; i < 3; i++) toll_put_integer(NULL, (int64_t[]){INT64_MIN, -1, INT64_MAX}[i]);
  for (unsigned i = 0; i < 7; i++) toll_put_real(NULL, (double[]){0, 999999999999, 1e12, -7, 4.25, 1e-9, 1e300}[i]);
  toll_put_close(']');
  toll_record_close();
  EXPECT(strstr(taken(),
                "[0,10,18446744073709551615,-9223372036854775808,-1,9223372036854775807,"
                "0,999999999999,1e+12,-7,4.25,1e-09,1e+300]") != NULL);
}

/* A record that does not fit is dropped, and the gap in the numbers tells. */
static void expect_gap(void) {
  static char large[TOLL_LONGEST_LINE];
  memset(large, 'x', sizeof large - 1);
  begin();
  toll_record_open("skip");
  toll_put_text("reason", large);
  toll_record_close();
  const char *line = taken();
  EXPECT(strstr(line, "xxxx") == NULL);
  EXPECT(strstr(line, "{\"k\":\"end\",\"records\":1,\"n\":1,") == line);
}

static void end_of_visit(int signal_number) {
  (void)signal_number;
  toll_emit_flush();
  _exit(0);
}

/* Writes records until a deadline's handler ends it, which finds it in the middle of a flush. */
static void write_until_deadline(int pipe_end) {
  enum { DEADLINE_US = 50000 };
  const struct itimerval deadline = {{0, 0}, {0, DEADLINE_US}};
  struct sigaction action = {0};
  char text[2048] = "";
  dup2(pipe_end, STDOUT_FILENO);
  action.sa_handler = end_of_visit;
  memset(text, 'x', sizeof text - 1);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &deadline, NULL);
  for (;;) {
    toll_record_open("skip");
    toll_put_text("reason", text);
    toll_record_close();
  }
}

/* Each record once and whole, though the reader is slow. */
static void expect_flush_within_flush(void) {
  enum { SLOW_US = 500 };
  static char line[TOLL_LONGEST_LINE];
  int flow[2], status = -1;
  unsigned next = 0;
  EXPECT(pipe(flow) == 0);
  pid_t child = fork();
  if (child == 0) write_until_deadline(flow[1]);
  close(flow[1]);
  FILE *reader = fdopen(flow[0], "r");
  while (fgets(line, sizeof line, reader)) {
    const char *number = strstr(line, "\"n\":"), *seal = strstr(line, ",\"c\":\"");
    EXPECT(number && seal && strtoul(number + 4, NULL, 10) == next);
    EXPECT(seal && strtoul(seal + 6, NULL, 16) == toll_crc32(0, line, (size_t)(seal - line)));
    next++;
    usleep(SLOW_US);
  }
  fclose(reader);
  EXPECT(next > 200); /* as many as fit */
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
  expect_crc();
  expect_seal();
  expect_escapes();
  expect_commas();
  expect_numbers();
  expect_gap();
  expect_flush_within_flush();
  return failures;
}
