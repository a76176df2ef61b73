/* SPDX-License-Identifier: Apache-2.0
 *
 * One process for each visit, whose output becomes one complete stream for a journal. A stream that was cut is closed
 * with a `fail` and an `end` that continue its numbering.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bundle.h"

enum { MOST_OUTPUT = 4 << 20 };

volatile int stop_asked;

/* The environment is the same in every visit, since its size moves the stack; the host uses the same words. */
static char parent[] = "TOLL_PARENT=0000000000";
static char *environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", parent, NULL};

static void end(pid_t child, int signal_number) {
  if (kill(-child, signal_number) != 0) kill(child, signal_number);
}

/* Starts the process with `lines` as its whole input, which fits into a pipe. */
static pid_t started(char *const *words, const char *lines, int *from) {
  int ends[2], given[2];
  if (pipe(ends) != 0) return -1;
  if (pipe(given) != 0) given[0] = given[1] = -1;
  snprintf(parent, sizeof parent, "TOLL_PARENT=%010u", (unsigned)getpid());
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(given[0], STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 2; i++) close(ends[i]), close(given[i]);
    execve(words[0], words, environment);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", words[0], strerror(errno));
    _exit(127);
  }
  close(ends[1]);
  close(given[0]);
  const size_t length = strlen(lines);
  if (child > 0 && length && write(given[1], lines, length) < 0) end(child, SIGKILL);
  close(given[1]);
  *from = ends[0];
  if (child < 0) close(ends[0]);
  return child;
}

/* Waits until there is something to read. False at the limit. Where the kernel has no poll, a read waits instead, and the
 * probe's own deadline is the limit. */
static bool has_output(int from, double until_s) {
  struct pollfd watched = {from, POLLIN, 0};
  for (double left_s; (left_s = until_s - now_s()) > 0;)
    if (poll(&watched, 1, left_s > 1 ? 1000 : (int)(left_s * 1000) + 1) != 0) return true;
  return false;
}

/* Reads until the process closes its output, the text is full or nothing has come for the limit: a process that serves
 * several visits prints each as it ends. status: as waitpid gives it. */
static size_t gathered(char *const *words, const char *lines, char *text, size_t room, double limit_s, int *status,
                       bool *is_late) {
  int from = -1;
  size_t used = 0;
  bool is_signalled = false;
  const pid_t child = started(words, lines, &from);
  *is_late = false;
  *status = 0;
  if (child < 0) return (size_t)snprintf(text, room, "cannot start a process: %s\n", strerror(errno));
  while (used + 1 < room) {
    *is_late = !has_output(from, now_s() + limit_s);
    if (*is_late) break;
    if (stop_asked && !is_signalled) end(child, SIGINT);
    is_signalled = stop_asked;
    const ssize_t got = read(from, text + used, room - used - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += (size_t)got;
  }
  text[used] = '\0';
  close(from);
  if (*is_late || used + 1 >= room) end(child, SIGKILL);
  while (waitpid(child, status, 0) < 0 && errno == EINTR) continue;
  end(child, SIGKILL); /* its remaining processes */
  return used;
}

size_t output_of(char *const *words, char *text, size_t room, double limit_s) {
  int status;
  bool is_late;
  return gathered(words, "", text, room, limit_s, &status, &is_late);
}

/* Text as a JSON string may hold it, in one line. */
static void plain(char *into, size_t room, const char *text, size_t length) {
  size_t used = 0;
  for (size_t i = 0; i < length && used + 1 < room; i++)
    into[used++] = text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\' ? '.' : text[i];
  into[used] = '\0';
}

/* The output of one process, how far it was read, and the stream that was read last. */
static struct {
  char text[MOST_OUTPUT], stream[MOST_OUTPUT];
  size_t length, read;
  int status;
  bool is_late;
} printed;

/* Copies the next stream's whole records. noise: the last line between them. Returns their number, and sets whether the
 * last one is `end`. */
static uint64_t next_stream(size_t *length, bool *is_whole, char *noise, size_t noise_room) {
  uint64_t records = 0, number = 0;
  *length = 0;
  *is_whole = false;
  while (!*is_whole && printed.read < printed.length) {
    const char *line = printed.text + printed.read, *stop = memchr(line, '\n', printed.length - printed.read);
    const size_t bytes = stop ? (size_t)(stop - line) : printed.length - printed.read;
    if (stop && is_record(line, bytes, &number) && number == records) {
      *is_whole = strncmp(line, "{\"k\":\"end\"", 10) == 0;
      memcpy(printed.stream + *length, line, bytes + 1);
      *length += bytes + 1;
      records++;
    } else if (bytes) {
      plain(noise, noise_room, line, bytes);
    }
    printed.read += bytes + (stop != NULL);
  }
  printed.stream[*length] = '\0';
  return records;
}

static void fate(char *reason, size_t room, int status, bool is_late, const char *noise) {
  if (is_late)
    snprintf(reason, room, "the visit took longer than its deadline");
  else if (WIFSIGNALED(status))
    snprintf(reason, room, "killed by signal %d %s", WTERMSIG(status), noise);
  else
    snprintf(reason, room, "ended with status %d %s", WEXITSTATUS(status), noise);
}

static void close_stream(struct answer *answer, size_t room, uint64_t records, const char *visit_record) {
  char record[400];
  if (records == 0) {
    answer->length = sealed(answer->text, room, visit_record, 0);
    records = 1;
  }
  snprintf(record, sizeof record, "{\"k\":\"fail\",\"status\":\"%s\",\"reason\":\"%s\"", answer->status,
           answer->reason);
  answer->length += sealed(answer->text + answer->length, room - answer->length, record, records);
  snprintf(record, sizeof record, "{\"k\":\"end\",\"records\":%llu", (unsigned long long)(records + 1));
  answer->length += sealed(answer->text + answer->length, room - answer->length, record, records + 1);
}

static void status_read(struct answer *answer) {
  const char *fail = strstr(answer->text, "{\"k\":\"fail\""), *skip = strstr(answer->text, "{\"k\":\"skip\"");
  if (skip) snprintf(answer->status, sizeof answer->status, "unsupported");
  if (fail) text_of(fail, "status", answer->status, sizeof answer->status);
  if (fail || skip) text_of(fail ? fail : skip, "reason", answer->reason, sizeof answer->reason);
  if (strstr(answer->text, "\"stopped\":true")) snprintf(answer->status, sizeof answer->status, "interrupted");
}

struct answer visits_make(char *const *words, const char *lines, const char *visit_record, double limit_s) {
  char noise[120] = "";
  bool is_whole;
  struct answer answer = {.text = printed.stream, .status = "ok"};
  const double began_s = now_s();
  printed.read = 0;
  printed.length =
      gathered(words, lines, printed.text, sizeof printed.text - 8192, limit_s, &printed.status, &printed.is_late);
  answer.seconds = now_s() - began_s;
  const uint64_t records = next_stream(&answer.length, &is_whole, noise, sizeof noise);
  if (is_whole) {
    status_read(&answer);
    return answer;
  }
  const bool is_late = printed.is_late || (WIFEXITED(printed.status) && WEXITSTATUS(printed.status) == 124);
  snprintf(answer.status, sizeof answer.status, "%s", stop_asked ? "interrupted" : is_late ? "timeout" : "failed");
  fate(answer.reason, sizeof answer.reason, printed.status, is_late, noise);
  close_stream(&answer, sizeof printed.stream, records, visit_record);
  return answer;
}

/* A later visit of the same layout without an end is ignored: the first one has the row. */
bool visits_next(struct answer *answer) {
  char noise[120];
  bool is_whole;
  *answer = (struct answer){.text = printed.stream, .status = "ok", .seconds = answer->seconds};
  next_stream(&answer->length, &is_whole, noise, sizeof noise);
  if (is_whole) status_read(answer);
  return is_whole;
}
