/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of every probe (docs/protocol.md).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

static int refuse(const char *error) {
  fprintf(stderr, "%s: %s\n", toll_probe_name, error);
  return TOLL_EXIT_USAGE;
}

static int visit_of_words(const struct toll_probe *probe, int count, char **words) {
  static struct toll_request request;
  char error[TOLL_REASON_BYTES];
  toll_request_defaults(probe, &request);
  for (int i = 0; i < count; i++)
    if (!toll_request_word(probe, &request, words[i], error, sizeof error)) return refuse(error);
  toll_visit_make(probe, &request);
  return 0;
}

/* The reader of a serial line sees neither exit status nor standard error, so an error becomes a stream of records. */
static void emit_failure(const char *status, const char *reason) {
  toll_record_open("fail");
  toll_put_text("status", status);
  toll_put_text("reason", reason);
  toll_record_close();
  toll_emit_end(false, false, NULL);
}

static int visit_of_line(const struct toll_probe *probe, char *line) {
  static struct toll_request request;
  char error[TOLL_REASON_BYTES];
  if (!toll_request_line(probe, &request, line, error, sizeof error)) {
    emit_failure("infrastructure", error);
    return refuse(error);
  }
  toll_visit_make(probe, &request);
  return 0;
}

static int fate(int status) {
  char reason[80];
  if (WIFSIGNALED(status)) {
    snprintf(reason, sizeof reason, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    emit_failure("failed", reason);
    return 128 + WTERMSIG(status);
  }
  if (WEXITSTATUS(status) == TOLL_EXIT_DEADLINE) emit_failure("timeout", "the visit's deadline passed");
  return WEXITSTATUS(status);
}

/* Children share a file's offset, and exit() in a child sets it back to the position of that child's buffered standard
 * input. So a file is read without buffering. A pipe has no offset. */
static void share_input(void) {
  if (lseek(STDIN_FILENO, 0, SEEK_CUR) >= 0) setvbuf(stdin, NULL, _IONBF, 0);
}

/* Each line is served by a process of its own, so that a crash, a limit or the memory of one visit does not affect the
 * next. */
static int visits_of_input(const struct toll_probe *probe) {
  char *line = NULL;
  size_t room = 0;
  int worst = 0;
  share_input();
  while (getline(&line, &room, stdin) > 0) {
    int status = 0;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      exit(getppid() == parent ? visit_of_line(probe, line) : 1);
    }
    if (child < 0) return refuse(strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    int code = fate(status);
    if (code > worst) worst = code;
  }
  free(line);
  return worst;
}

/* ---- visits of one point, served by one process ---- */

/* Fills request from the next line of standard input. False at its end, or if the line is malformed. */
static bool next_of_input(const struct toll_probe *probe, struct toll_request *request) {
  static char *line;
  static size_t room;
  char error[TOLL_REASON_BYTES];
  if (getline(&line, &room, stdin) <= 0) return false;
  if (toll_request_line(probe, request, line, error, sizeof error)) return true;
  emit_failure("infrastructure", error);
  return false;
}

static int stay(const struct toll_probe *probe) {
  static struct toll_request first;
  share_input();
  if (next_of_input(probe, &first)) toll_visits_serve(probe, &first, next_of_input);
  return 0;
}

/* From here on this process ends when its parent does. The parent may already have ended, so its process number is
 * passed in the environment. */
static bool has_parent(void) {
  const char *parent_text = getenv("TOLL_PARENT");
  pid_t parent = parent_text ? (pid_t)strtol(parent_text, NULL, 10) : getppid();
  unsetenv("TOLL_PARENT");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

int toll_main(const struct toll_probe *probe, int count, char **words) {
  if (!has_parent()) return 1;
  toll_priority_restore_slack();
  char error[TOLL_REASON_BYTES];
  if (!toll_clock_choose(error, sizeof error)) return refuse(error);
  if (count == 2 && strcmp(words[1], "--describe") == 0) {
    if (toll_description_lacks(probe)) return refuse(toll_description_lacks(probe));
    toll_describe(probe);
  } else if (count == 2 && strcmp(words[1], "--machine") == 0)
    toll_machine();
  else if (count == 2 && strcmp(words[1], "--stay") == 0)
    return stay(probe);
  else if (count == 2 && strcmp(words[1], "--visits") == 0)
    return visits_of_input(probe);
  else
    return visit_of_words(probe, count - 1, words + 1);
  return 0;
}
