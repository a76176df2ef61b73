/* SPDX-License-Identifier: Apache-2.0
 *
 * One process for each visit: all that it printed, made into one whole stream that a journal can hold. A stream that was
 * cut is closed with a `fail` and an `end` that continue its numbering.
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

/* The environment has one size in every visit, since it moves the stack; the host's has the same words. */
static char parent[] = "TOLL_PARENT=0000000000";
static char *environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", parent, NULL};

static pid_t started(char *const *words, int *from) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  snprintf(parent, sizeof parent, "TOLL_PARENT=%010u", (unsigned)getpid());
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execve(words[0], words, environment);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", words[0], strerror(errno));
    _exit(127);
  }
  close(ends[1]);
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

static void end(pid_t child, int signal_number) {
  if (kill(-child, signal_number) != 0) kill(child, signal_number);
}

/* Reads until the process closes its output, the text is full or the limit has passed. status: as waitpid gives it. */
static size_t gathered(char *const *words, char *text, size_t room, double limit_s, int *status, bool *is_late) {
  int from = -1;
  size_t used = 0;
  bool is_told = false;
  const pid_t child = started(words, &from);
  *is_late = false;
  *status = 0;
  if (child < 0) return (size_t)snprintf(text, room, "cannot start a process: %s\n", strerror(errno));
  for (const double until_s = now_s() + limit_s; used + 1 < room;) {
    if (!has_output(from, until_s)) {
      *is_late = true;
      break;
    }
    if (stop_asked && !is_told) end(child, SIGINT);
    is_told = stop_asked;
    const ssize_t got = read(from, text + used, room - used - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += (size_t)got;
  }
  text[used] = '\0';
  close(from);
  if (*is_late || used + 1 >= room) end(child, SIGKILL);
  while (waitpid(child, status, 0) < 0 && errno == EINTR) continue;
  end(child, SIGKILL); /* what it left behind */
  return used;
}

size_t output_of(char *const *words, char *text, size_t room, double limit_s) {
  int status;
  bool is_late;
  return gathered(words, text, room, limit_s, &status, &is_late);
}

/* Text as a JSON string may hold it, in one line. */
static void plain(char *into, size_t room, const char *text, size_t length) {
  size_t used = 0;
  for (size_t i = 0; i < length && used + 1 < room; i++)
    into[used++] = text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\' ? '.' : text[i];
  into[used] = '\0';
}

/* Moves the stream's whole records to the text's beginning. noise: the last line between them. Returns the number of
 * records, and sets whether the last one is `end`. */
static uint64_t kept(char *text, size_t *length, bool *is_whole, char *noise, size_t noise_room) {
  uint64_t records = 0, number = 0;
  size_t used = 0;
  *is_whole = false;
  for (char *line = text; !*is_whole && line < text + *length;) {
    char *stop = memchr(line, '\n', *length - (size_t)(line - text));
    const size_t bytes = stop ? (size_t)(stop - line) : *length - (size_t)(line - text);
    if (stop && is_record(line, bytes, &number) && number == records) {
      *is_whole = strncmp(line, "{\"k\":\"end\"", 10) == 0;
      memmove(text + used, line, bytes + 1);
      used += bytes + 1;
      records++;
    } else if (bytes) {
      plain(noise, noise_room, line, bytes);
    }
    line += bytes + 1;
  }
  *length = used;
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

struct answer visit_make(char *const *words, const char *visit_record, double limit_s) {
  static char text[MOST_OUTPUT];
  char noise[120] = "";
  int status;
  bool is_late, is_whole;
  struct answer answer = {.text = text, .status = "ok"};
  const double began_s = now_s();
  answer.length = gathered(words, text, sizeof text - 2048, limit_s, &status, &is_late);
  answer.seconds = now_s() - began_s;
  const uint64_t records = kept(text, &answer.length, &is_whole, noise, sizeof noise);
  text[answer.length] = '\0';
  if (!is_whole) {
    is_late = is_late || (WIFEXITED(status) && WEXITSTATUS(status) == 124);
    snprintf(answer.status, sizeof answer.status, "%s", stop_asked ? "interrupted" : is_late ? "timeout" : "failed");
    fate(answer.reason, sizeof answer.reason, status, is_late, noise);
    close_stream(&answer, sizeof text, records, visit_record);
    return answer;
  }
  const char *fail = strstr(text, "{\"k\":\"fail\""), *skip = strstr(text, "{\"k\":\"skip\"");
  if (skip) snprintf(answer.status, sizeof answer.status, "unsupported");
  if (fail) text_of(fail, "status", answer.status, sizeof answer.status);
  if (fail || skip) text_of(fail ? fail : skip, "reason", answer.reason, sizeof answer.reason);
  if (strstr(text, "\"stopped\":true")) snprintf(answer.status, sizeof answer.status, "interrupted");
  return answer;
}
