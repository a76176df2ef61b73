/* SPDX-License-Identifier: Apache-2.0
 *
 * execve(2) without the creation of a process: one process executes program after program.
 *
 * A static program is this executable, which executes itself again before main(), as often as a word in its environment
 * says. So a process is created and waited for only once for each batch. The dynamic one is the system's env(1), which
 * becomes this executable in turn: the difference is its execve, its loader with the C library, and its short life.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toll.h"

enum linkage { STATIC, DYNAMIC };
enum { CHILD_STATUS = 7, MOST_PATH = 4096 };

#define LEFT    "TOLL_EXECS_LEFT"
#define THROUGH "TOLL_EXECS_THROUGH"
#define ENV     "/usr/bin/env"

static char own_path[MOST_PATH];

/* Executes this program, which then executes itself `left` more times. */
static void become(uint64_t left, bool through_env) {
  char word[64];
  snprintf(word, sizeof word, LEFT "=%" PRIu64, left);
  char *const environment[] = {word, through_env ? (char *)THROUGH "=1" : NULL, NULL};
  char *const words[] = {own_path, NULL}, *const env_words[] = {(char *)"env", own_path, NULL};
  if (through_env)
    execve(ENV, env_words, environment);
  else
    execve(own_path, words, environment);
}

static bool find_own_path(void) {
  const ssize_t length = readlink("/proc/self/exe", own_path, sizeof own_path - 1);
  return length > 0 && (size_t)length < sizeof own_path - 1;
}

__attribute__((constructor)) static void become_again(void) {
  const char *word = getenv(LEFT);
  if (!word) return;
  const uint64_t left = strtoull(word, NULL, 10);
  if (left && find_own_path()) become(left - 1, getenv(THROUGH) != NULL);
  _exit(left ? 1 : CHILD_STATUS);
}

struct execs {
  uint64_t failed;
};

static bool chain(uint64_t programs, bool through_env) {
  int status = 0;
  const pid_t child = vfork();
  if (child == 0) {
    become(programs - 1, through_env);
    _exit(1);
  }
  if (child < 0) return false;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  const bool through_env = toll_choice(r, "linked") == DYNAMIC;
  if (!find_own_path()) return toll_skip(r, "the path of this program is not known: %s", strerror(errno));
  if (through_env && access(ENV, X_OK)) return toll_skip(r, "%s: %s", ENV, strerror(errno));
  if (!toll_pin(r->cpus[0])) return toll_skip(r, "the system refused to pin the process: %s", strerror(errno));
  return chain(1, through_env) ? TOLL_OK : toll_skip(r, "this program could not be executed by itself");
}

static void exec(struct toll_run *r) {
  struct execs *execs = r->state;
  execs->failed += !chain(r->iterations, toll_choice(r, "linked") == DYNAMIC);
}

/* Executes the static programs that lie between dynamic ones; nothing if the program is static. */
static void control(struct toll_run *r) {
  struct execs *execs = r->state;
  if (toll_choice(r, "linked") == DYNAMIC) execs->failed += !chain(r->iterations, false);
  for (uint64_t i = r->iterations; i; i--) TOLL_MEMORY();
}

static enum toll_status check(struct toll_run *r) {
  const struct execs *execs = r->state;
  return execs->failed ? toll_wrong(r, "a program did not end as it should") : TOLL_OK;
}

static const char *const linkages[] = {"static", "dynamic", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "linked", .kind = TOLL_CHOICE, .summary = "which program is executed", .choices = linkages}, {0}};
static const struct toll_metric metrics[] = {{.name = "exec",
                                              .unit = "ns",
                                              .summary = "one program executed, and its life up to its next one",
                                              .source = TOLL_DIFFERENCE,
                                              .toll = "execute a {linked} program"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does executing a program cost apart from creating its process?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct execs),
    .prepare = prepare,
    .body = exec,
    .control = control,
    .check = check,
    .switches = true,
    .faults = true,
    .revision = 1,
};
