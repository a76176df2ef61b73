/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts commands and times them, for `toll time`: one process, linked with nothing of the runtime.
 *
 *   timer FD INPUT FILE [COUNT PATH WORD...]...
 *
 * FD: where inherited output goes; INPUT: the commands' standard input; FILE: their output in mode `f`. COUNT: of the words
 * of one command, of which the first names it; PATH: what is executed. Each line of standard input is one run: the command's
 * number from 0, where its input is from (`n` INPUT, `m` what the last command wrote in mode `m`), and where its output goes
 * (`n` nowhere, `m` a file in memory, `p` a pipe, `i` inherited, `f` FILE). `c` after these counts its instructions in user
 * mode. The answer is one line of numbers (`answer`).
 *
 * vfork(2) starts a process without copying page tables. The peak resident set of a process begins with that of the one
 * that started it, which is small here. A process that is started this way by the host would begin with the host's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../clock_ns.h"

enum { MOST_SAID = 200, BLOCK = 1 << 16, NOT_STARTED = 127 };

struct command {
  const char *path;
  char **words;
};

struct files {
  int input, output, error, from; /* from: the end of a pipe that is read; below nothing without one */
};

struct output {
  uint64_t bytes, hash;
};

static volatile pid_t running;
static volatile int
    not_started; /* why the last command was not executed, written by its process, which shares memory */
static const char *input_name, *output_name;
static int inherited, nowhere, memory, complaints;

static void die(const char *what) {
  fprintf(stderr, "timer: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void on_stop(int number) {
  (void)number;
  if (running > 0) kill(running, SIGTERM);
}

static uint64_t now_ns(void) {
  return toll_clock_ns(CLOCK_MONOTONIC_RAW);
}

/* ---- what a command wrote ---- */

/* Eight bytes at a time: a pipe is read while the command writes to it, and must not be what it waits for. */
static void hash(struct output *output, const unsigned char *bytes, size_t count) {
  enum { TURN = 29 };
  const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
  for (size_t done = 0; done < count; done += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, bytes + done, count - done < sizeof word ? count - done : sizeof word);
    output->hash = (output->hash ^ word) * factor;
    output->hash ^= output->hash >> TURN;
  }
  output->bytes += count;
}

/* In whole blocks, so that the hash does not depend on how the bytes arrived. */
static struct output read_all(int file) {
  static unsigned char block[BLOCK];
  struct output output = {0, 1};
  size_t held = 0;
  for (ssize_t got; (got = read(file, block + held, sizeof block - held)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    held += (size_t)got;
    if (held < sizeof block) continue;
    hash(&output, block, held);
    held = 0;
  }
  hash(&output, block, held);
  return output;
}

static void empty(int file) {
  if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0) die("a file in memory");
}

/* ---- one run ---- */

static struct files open_files(char input, char output) {
  struct files files = {.input = -1, .output = nowhere, .error = complaints, .from = -1};
  int ends[2];
  if (input == 'm' && lseek(memory, 0, SEEK_SET) == 0) files.input = dup(memory);
  if (input != 'm') files.input = open(input_name, O_RDONLY | O_CLOEXEC);
  if (files.input < 0) die(input_name);
  empty(complaints);
  if (output == 'm') empty(files.output = memory);
  if (output == 'i') files.output = inherited, files.error = STDERR_FILENO;
  if (output == 'f') files.output = open(output_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (output == 'p' && pipe2(ends, O_CLOEXEC) == 0) files.from = ends[0], files.output = ends[1];
  if (files.output < 0 || (output == 'p' && files.from < 0)) die(output == 'f' ? output_name : "a pipe");
  return files;
}

/* A counter of this process that only counts in those that it starts, from their exec on, and adds up what each had when
 * it ended. Below nothing where the kernel has none. */
static int open_counter(void) {
  struct perf_event_attr wanted = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof wanted,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .disabled = 1,
                                   .inherit = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1,
                                   .enable_on_exec = 1};
  return (int)syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* What it counted; a negative number of errno where that was nothing. */
static int64_t counted(int counter) {
  int64_t count = 0;
  if (read(counter, &count, sizeof count) != (ssize_t)sizeof count || count <= 0) count = -ENODATA;
  close(counter);
  return count;
}

static void become(const struct command *command, const struct files *files) {
  sigset_t none;
  sigemptyset(&none);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(files->input, STDIN_FILENO);
  dup2(files->output, STDOUT_FILENO);
  if (files->error != STDERR_FILENO) dup2(files->error, STDERR_FILENO);
  execvp(command->path, command->words);
  not_started = errno;
  _exit(NOT_STARTED);
}

static void put_complaint(void) {
  unsigned char said[MOST_SAID];
  const off_t end = lseek(complaints, 0, SEEK_END), begin = end > MOST_SAID ? end - MOST_SAID : 0;
  const ssize_t got = pread(complaints, said, sizeof said, begin);
  for (ssize_t i = 0; i < got; i++) printf("%02x", said[i]);
}

static void answer(int status, uint64_t at_ns, uint64_t wall_ns, const struct rusage *used, struct output output,
                   int64_t instructions) {
  const uint64_t user_us = (uint64_t)used->ru_utime.tv_sec * 1000000 + (uint64_t)used->ru_utime.tv_usec,
                 system_us = (uint64_t)used->ru_stime.tv_sec * 1000000 + (uint64_t)used->ru_stime.tv_usec;
  printf("%d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, not_started, status, at_ns, wall_ns, user_us * 1000,
         system_us * 1000);
  printf(" %ld %ld %ld %ld %ld %ld %ld", used->ru_maxrss * 1024, used->ru_minflt, used->ru_majflt, used->ru_inblock,
         used->ru_oublock, used->ru_nvcsw, used->ru_nivcsw);
  printf(" %" PRIu64 " %" PRIu64 " %" PRId64 " ", output.bytes, output.hash >> 16, /* what a double holds exactly */
         instructions);
  if (status) put_complaint();
  putchar('\n');
  fflush(stdout);
}

/* From before the process is started until it has ended, and a pipe was read to its end. */
static void run(const struct command *command, char input, char output, bool counts) {
  const struct files files = open_files(input, output);
  struct output wrote = {0, 0};
  struct rusage used = {0};
  int status = 0;
  not_started = 0;
  const int counter = counts ? open_counter() : -1;
  int64_t instructions = counts && counter < 0 ? -errno : 0;
  const uint64_t began = now_ns();
  const pid_t child = vfork();
  if (child == 0) become(command, &files);
  if (child < 0) die("vfork");
  running = child;
  if (files.from >= 0) {
    close(files.output);
    wrote = read_all(files.from);
  }
  while (wait4(child, &status, 0, &used) < 0 && errno == EINTR) continue;
  const uint64_t ended = now_ns();
  running = 0;
  if (counter >= 0) instructions = counted(counter);
  close(files.input);
  if (files.from >= 0) close(files.from);
  if (output == 'f') close(files.output);
  if (output == 'm' && lseek(memory, 0, SEEK_SET) == 0) wrote = read_all(memory);
  answer(status, began, ended - began, &used, wrote, instructions);
}

/* ---- the command line ---- */

static struct command *commands_of(int count, char **words, int *found) {
  struct command *commands = calloc((size_t)count, sizeof *commands);
  if (!commands) die("memory");
  for (int at = 0; at < count; (*found)++) {
    const int own = atoi(words[at]);
    if (own < 1 || at + 2 + own > count) exit(2);
    char **copy = calloc((size_t)own + 1, sizeof *copy);
    if (!copy) die("memory");
    memcpy(copy, words + at + 2, (size_t)own * sizeof *copy);
    commands[*found] = (struct command){words[at + 1], copy};
    at += 2 + own;
  }
  return commands;
}

int main(int count, char **words) {
  struct sigaction stop = {0};
  char line[64], input, output, counts;
  int known = 0, number;
  if (count < 5) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  stop.sa_handler = on_stop;
  stop.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &stop, NULL);
  signal(SIGINT, SIG_IGN); /* of a terminal it reaches the command too, which may end of it */
  signal(SIGHUP, SIG_IGN);
  inherited = atoi(words[1]);
  fcntl(inherited, F_SETFD, FD_CLOEXEC);
  input_name = words[2];
  output_name = words[3];
  nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  memory = memfd_create("output", MFD_CLOEXEC);
  complaints = memfd_create("complaints", MFD_CLOEXEC);
  if (nowhere < 0 || memory < 0 || complaints < 0) die("a file in memory");
  const struct command *commands = commands_of(count - 4, words + 4, &known);
  while (fgets(line, sizeof line, stdin)) {
    const int read = sscanf(line, "%d %c %c %c", &number, &input, &output, &counts);
    if (read < 3 || number < 0 || number >= known) return 2;
    run(&commands[number], input, output, read > 3 && counts == 'c');
  }
  return 0;
}
