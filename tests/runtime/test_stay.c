/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that stays between visits, as its host talks to it: lines on standard input, streams on standard output.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

TOLL_TEST_NAME("test.stay");

enum { NEVER = 1000000 };

static unsigned prepared, checks, good_checks;
static int prepared_on;
static bool has_no_ground;

static enum toll_status prepare(struct toll_run *r) {
  prepared++;
  prepared_on = sched_getcpu();
  return has_no_ground ? toll_skip(r, "there is nothing to stand on") : TOLL_OK;
}
static void spin(struct toll_run *r) {
  for (uint64_t i = 0; i < r->iterations; i++) TOLL_OPAQUE(i);
}
static enum toll_status check(struct toll_run *r) {
  return ++checks > good_checks ? toll_wrong(r, "check %u is off", checks) : TOLL_OK;
}
static void finish(struct toll_run *r) {
  toll_report(r, prepared == 1 ? "prepared_once" : "prepared_again", prepared);
  toll_report(r, "prepared_on", prepared_on);
  toll_report(r, "measured_on", sched_getcpu());
}

static const struct toll_parameter parameters[] = {{.name = "size", .kind = TOLL_SIZE, .from = 1024}, {0}};
static const struct toll_probe probe = {
    .question = "none", .parameters = parameters, .prepare = prepare, .body = spin, .check = check, .finish = finish};

#define LINE "--samples=2 --sample-ns=1 --seed=7 "

static char said[4 * TOLL_LONGEST_LINE];
static int status;

static void talk(int input, int output) {
  char *words[] = {(char[]){"test.stay"}, (char[]){"--stay"}, NULL};
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  _exit(toll_main(&probe, 2, words));
}

/* What a process says to these lines, of whose checks so many hold. */
static const char *answer_to(const char *lines, unsigned holding) {
  int in[2], out[2];
  size_t used = 0;
  if (pipe(in) < 0 || pipe(out) < 0 || write(in[1], lines, strlen(lines)) < 0) failures++;
  close(in[1]);
  good_checks = holding;
  pid_t child = fork();
  if (child == 0) talk(in[0], out[1]);
  close(in[0]);
  close(out[1]);
  for (ssize_t got; (got = read(out[0], said + used, sizeof said - 1 - used)) > 0;) used += (size_t)got;
  close(out[0]);
  said[used] = '\0';
  waitpid(child, &status, 0);
  return said;
}

static unsigned times(const char *part) {
  unsigned count = 0;
  for (const char *at = said; (at = strstr(at, part)); at += strlen(part)) count++;
  return count;
}

/* Every visit is a whole stream, numbered from its own beginning. */
static void expect_streams(unsigned count, unsigned staying) {
  EXPECT(times("{\"k\":\"visit\"") == count);
  EXPECT(times("{\"k\":\"end\"") == count);
  EXPECT(times(",\"n\":0,") == count);
  EXPECT(times("\"stays\":true") == staying);
  EXPECT(status == 0);
}

/* Two samples are always taken; of more a visit that lasts too long leaves some out. */
static void expect_many_of_one_layout(void) {
  answer_to(LINE "--visit=1\n" LINE "--visit=2 --samples=1\n" LINE "--visit=3\n", NEVER);
  expect_streams(3, 3);
  EXPECT(times("prepared_once") == 3 && times("prepared_again") == 0);
  EXPECT(times("{\"k\":\"sample\"") == 2 + 1 + 2);
  EXPECT(times("\"visit\":1,") == 1 && times("\"visit\":2,") == 1 && times("\"visit\":3,") == 1);
}

/* No core is as wide as the first visit is told, and each is as wide as the second is. Of 1000 samples a second would be
 * enough time. */
static void expect_few_contended_samples(void) {
  answer_to(LINE "--samples=1000 --full-width=1000000 --wait-ms=5\n", NEVER);
  expect_streams(1, 1);
  EXPECT(times("{\"k\":\"sample\"") == 4 && times("\"waited_ns\":") == 1 && times("\"waited_ns\":0,") == 0);
  answer_to(LINE "--samples=8 --full-width=1 --wait-ms=5\n", NEVER);
  EXPECT(times("\"waited_ns\":") == times("\"waited_ns\":0,"));
}

/* It must not answer for what it has not prepared: the host starts another, which has. */
static void expect_another_layout_ends_it(void) {
  answer_to(LINE "--visit=1\n" LINE "--visit=2 --seed=8\n" LINE "--visit=3\n", NEVER);
  expect_streams(1, 1);
  answer_to(LINE "--visit=1\n" LINE "--visit=2 size=2048\n", NEVER);
  expect_streams(1, 1);
}

static void expect_malformed_line_ends_it(void) {
  answer_to(LINE "--visit=1\n" LINE "colour=3\n" LINE "--visit=3\n", NEVER);
  EXPECT(times("{\"k\":\"visit\"") == 1 && times("{\"k\":\"end\"") == 2 && times("\"stays\":true") == 1);
  EXPECT(times("\"status\":\"infrastructure\"") == 1 && times("colour=3") == 1);
  answer_to("colour=3\n", NEVER);
  EXPECT(times("{\"k\":\"visit\"") == 0 && times("\"status\":\"infrastructure\"") == 1 && times("\"stays\":true") == 0);
}

static void expect_end_of_input_ends_it(void) {
  EXPECT(answer_to("", NEVER)[0] == '\0' && status == 0);
  answer_to(LINE "--visit=1\n", NEVER);
  expect_streams(1, 1);
}

/* A visit proves before and after; the proof after one is what the next begins with. */
static void expect_a_wrong_answer_ends_it(void) {
  answer_to(LINE "--visit=1\n" LINE "--visit=2\n" LINE "--visit=3\n", 2);
  expect_streams(2, 1);
  EXPECT(times("\"status\":\"wrong_answer\"") == 1 && times("check 3 is off") == 1);
  answer_to(LINE "--visit=1\n" LINE "--visit=2\n", 0);
  expect_streams(1, 0);
}

static unsigned gauges(const char *metric, int value) {
  char record[96];
  snprintf(record, sizeof record, "\"metric\":\"%s\",\"value\":%d,", metric, value);
  return times(record);
}

/* On another CPU than its visits, where there is one; what it says of itself is only that it waits. */
static void expect_a_layout_ahead(void) {
  int cpus[TOLL_MOST_CPUS];
  const unsigned count = toll_allowed_cpus(cpus, TOLL_MOST_CPUS);
  const int there = cpus[0], here = cpus[count - 1];
  char lines[512];
  snprintf(lines, sizeof lines, LINE "--cpus=%d --ahead=%d\n" LINE "--cpus=%d --visit=1\n" LINE "--cpus=%d --visit=2\n",
           here, there, here, here);
  answer_to(lines, NEVER);
  EXPECT(strstr(said, "{\"k\":\"end\",\"records\":0,\"stays\":true") == said);
  EXPECT(times("{\"k\":\"visit\"") == 2 && times("\"stays\":true") == 3 && times("prepared_once") == 2 && status == 0);
  EXPECT(gauges("prepared_on", there) == 2 && gauges("measured_on", here) == 2);
}

/* The visit that follows is another process's, which says why. */
static void expect_no_layout_ahead_without_ground(void) {
  has_no_ground = true;
  answer_to(LINE "--ahead=0\n" LINE "--visit=1\n", NEVER);
  EXPECT(times("{\"k\":\"end\"") == 1 && times("{\"k\":") == 1 && times("stays") == 0 && status == 0);
  has_no_ground = false;
  answer_to(LINE "--ahead=0\n" LINE "--visit=1 --seed=8\n", NEVER);
  EXPECT(times("{\"k\":\"visit\"") == 0 && times("\"stays\":true") == 1);
  answer_to(LINE "--ahead=x\n", NEVER);
  EXPECT(times("--ahead=x") == 1 && times("\"status\":\"infrastructure\"") == 1);
}

int main(void) {
  expect_a_layout_ahead();
  expect_no_layout_ahead_without_ground();
  expect_many_of_one_layout();
  expect_few_contended_samples();
  expect_another_layout_ends_it();
  expect_malformed_line_ends_it();
  expect_end_of_input_ends_it();
  expect_a_wrong_answer_ends_it();
  return failures;
}
