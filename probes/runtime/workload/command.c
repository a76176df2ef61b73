/* SPDX-License-Identifier: Apache-2.0
 *
 * A command as a probe: one iteration starts it, waits for its end, and holds what it printed against what was expected.
 *
 * A suite's [[workload]] is built by compiling this file with words.h, which the host tool makes of it (workloads.py). A
 * program that was built for an ABI is carried inside the executable and started from memory, so that it runs wherever a
 * probe does: here, in a guest, over ssh. What the kernel accounts to the command is the answer, and what it accounts to this
 * process is not. Its resident set at the end is read while it is stopped at its exit (ptrace(2)), once, and not timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "words.h"

enum { MOST_OUTPUT = 1 << 20, NOT_STARTED = 127 };

struct command {
  int image, output; /* image: below nothing for a command of the system */
  int status;        /* wait(2) status of the last run that failed */
  uint64_t runs, sound;
  double cpu_ns, minor_faults, major_faults, peak_bytes;
};

static enum toll_status prepare(struct toll_run *r) {
  struct command *command = r->state;
  const size_t bytes = (size_t)(workload_image_end - workload_image);
  if (toll_needs_kernel(r) != TOLL_OK || toll_needs_memory(r, workload_memory_bytes) != TOLL_OK) return toll_refused(r);
  command->output = memfd_create("output", MFD_CLOEXEC);
  command->image = bytes ? memfd_create("program", MFD_CLOEXEC) : -1;
  if (getenv("TOLL_SERVED"))
    return toll_skip(r, "its system calls would be made by a loader, whose time could not be separated from its own");
  if (command->output < 0 || (bytes && command->image < 0))
    return toll_skip(r, "the system gives no file in memory: %s", strerror(errno));
  for (size_t done = 0; done < bytes;) {
    const ssize_t wrote = write(command->image, workload_image + done, bytes - done);
    if (wrote <= 0) return toll_fail(r, "the program cannot be kept in memory: %s", strerror(errno));
    done += (size_t)wrote;
  }
  return TOLL_OK;
}

static void become(const struct command *command, bool traced) {
  static char *const environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (traced) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  dup2(nothing, STDIN_FILENO);
  dup2(command->output, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  if (command->image >= 0)
    fexecve(command->image, workload_words, environment);
  else
    execvpe(workload_words[0], workload_words, environment);
  _exit(NOT_STARTED);
}

static pid_t start(const struct command *command, bool traced) {
  if (ftruncate(command->output, 0) != 0 || lseek(command->output, 0, SEEK_SET) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) become(command, traced);
  return child;
}

static bool printed_what_it_should(const struct command *command) {
  static char output[MOST_OUTPUT];
  const ssize_t got = pread(command->output, output, sizeof output - 1, 0);
  if (got < 0) return false;
  output[got] = '\0';
  return strstr(output, workload_expected) != NULL;
}

static double ns_of(struct timeval time) {
  return 1e9 * (double)time.tv_sec + 1e3 * (double)time.tv_usec;
}

static void run_once(struct command *command) {
  struct rusage used;
  int status = -1;
  const pid_t child = start(command, false);
  while (child > 0 && wait4(child, &status, 0, &used) < 0 && errno == EINTR) continue;
  command->runs++;
  if (status) command->status = status;
  if (child < 0 || status) return;
  command->sound += printed_what_it_should(command);
  command->cpu_ns += ns_of(used.ru_utime) + ns_of(used.ru_stime);
  command->minor_faults += (double)used.ru_minflt;
  command->major_faults += (double)used.ru_majflt;
  if (1024.0 * (double)used.ru_maxrss > command->peak_bytes) command->peak_bytes = 1024.0 * (double)used.ru_maxrss;
}

static void run(struct toll_run *r) {
  for (uint64_t i = r->iterations; i; i--) run_once(r->state);
}

static enum toll_status check(struct toll_run *r) {
  const struct command *command = r->state;
  const unsigned long long runs = command->runs, wrong = runs - command->sound;
  if (!wrong) return TOLL_OK;
  if (!command->status)
    return toll_wrong(r, "the command did not print what it should in %llu of %llu runs", wrong, runs);
  if (WIFSIGNALED(command->status))
    return toll_wrong(r, "signal %d ended the command in %llu of %llu runs", WTERMSIG(command->status), wrong, runs);
  if (WEXITSTATUS(command->status) == NOT_STARTED)
    return toll_wrong(r, "there is no command %s here, or it cannot be started", workload_words[0]);
  return toll_wrong(r, "the command ended with status %d in %llu of %llu runs", WEXITSTATUS(command->status), wrong,
                    runs);
}

/* ---- what it holds when it ends ---- */

static double bytes_of(pid_t process, const char *file, const char *field) {
  char path[64], text[32];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)process, file);
  return toll_find_field(path, field, text, sizeof text) ? 1024 * strtod(text, NULL) : 0;
}

/* The kernel's mark of the peak lags behind what is counted page by page, which is the least that it was. */
static void report_held(struct toll_run *r, pid_t process) {
  struct command *command = r->state;
  char path[64];
  double heap, mapped;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
  toll_account_maps(path, &heap, &mapped);
  const double resident = bytes_of(process, "smaps_rollup", "Rss");
  if (resident > command->peak_bytes) command->peak_bytes = resident;
  toll_report(r, "resident", resident);
  toll_report(r, "proportional", bytes_of(process, "smaps_rollup", "Pss"));
  toll_report(r, "page_tables", bytes_of(process, "status", "VmPTE"));
  toll_report(r, "heap", heap);
  toll_report(r, "mapped", mapped);
}

static void look_at_its_end(struct toll_run *r) {
  int status;
  const pid_t child = start(r->state, true);
  if (child < 0 || waitpid(child, &status, 0) < 0) return;
  if (WIFSTOPPED(status)) ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(uintptr_t)PTRACE_O_TRACEEXIT);
  while (WIFSTOPPED(status)) {
    const bool ends = status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8);
    const int passed_on = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    if (ends) report_held(r, child);
    if (ptrace(PTRACE_CONT, child, NULL, (void *)(uintptr_t)passed_on) < 0) kill(child, SIGKILL);
    if (waitpid(child, &status, 0) < 0) return;
  }
}

static void finish(struct toll_run *r) {
  const struct command *command = r->state;
  const double runs = (double)command->runs;
  toll_report(r, "cpu_time", command->cpu_ns / runs);
  toll_report(r, "minor_faults", command->minor_faults / runs);
  toll_report(r, "major_faults", command->major_faults / runs);
  toll_report(r, "faults_each", command->minor_faults / runs);
  look_at_its_end(r);
  toll_report(r, "resident_peak", command->peak_bytes);
}

#define GAUGE(metric, of, meaning, text) \
  { .name = metric, .unit = of, .summary = text, .source = TOLL_GAUGE, .means = meaning }

static const struct toll_metric metrics[] = {
    {.name = "run", .unit = "ns", .summary = "the command, from its start to its end", .means = "program"},
    GAUGE("cpu_time", "ns", "cpu-time", "CPU time of the command, in user and kernel mode"),
    GAUGE("resident_peak", "B", "resident-peak", "the most of it that was ever resident"),
    GAUGE("resident", "B", "account", "resident when it ends"),
    GAUGE("proportional", "B", "account", "resident when it ends, pages that are shared counted in parts"),
    GAUGE("page_tables", "B", "account", "page tables of the process"),
    GAUGE("heap", "B", "account", "taken from the system by the heap's end (brk)"),
    GAUGE("mapped", "B", "account", "taken from the system by maps without a file"),
    GAUGE("minor_faults", "fault", "account", "page faults of the command"),
    GAUGE("major_faults", "fault", "account", "page faults that waited for a disk"),
    GAUGE("faults_each", "fault", "faults-of-operation", "page faults of one run"),
    {0}};

const struct toll_probe toll_probe = {
    .question = workload_question,
    .metrics = metrics,
    .state_bytes = sizeof(struct command),
    .prepare = prepare,
    .body = run,
    .check = check,
    .finish = finish,
    .switches = true,
    .faults = true,
    .revision = 1,
};
