/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts commands and times them, for `toll time`: one process, linked with nothing of the runtime.
 *
 *   timer FD INPUT FILE LIMIT [COUNT PATH WORD...]...
 *
 * FD: where inherited output goes; INPUT: the commands' standard input; FILE: their output in mode `f`. LIMIT: of one run,
 * in ms; 0 for none. COUNT: of the words of one command, of which the first names it; PATH: what is executed. Each line of standard input is one run: the command's
 * number from 0, where its input is from (`n` INPUT, `m` what the last command wrote in mode `m`), and where its output goes
 * (`n` nowhere, `m` a file in memory, `p` a pipe, `i` inherited, `f` FILE), and the names of events to count (events.h),
 * separated by commas. The answer is one line of numbers (`answer`).
 *
 * vfork(2) starts a process without copying page tables. The peak resident set of a process begins with that of the one
 * that started it, which is small here. A process that is started this way by the host would begin with the host's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../clock_ns.h"
#include "../events.h"

enum { MOST_SAID = 200, MOST_EVENTS = 16, BLOCK = 1 << 16, NOT_STARTED = 127, MS_OF_S = 1000, US_OF_MS = 1000 };

struct command {
  const char *path;
  char **words;
};

struct files {
  int input, output, error, from; /* from: the end of a pipe that is read; below nothing without one */
};

/* held: the inode of the pipe that another process still has open for writing, when the command has ended; 0 for none. */
struct output {
  uint64_t bytes, hash, held;
};

static volatile pid_t running;
static volatile int
    not_started; /* why the last command was not executed, written by its process, which shares memory */
static volatile sig_atomic_t is_late; /* the running command exceeds its limit */
static const char *input_name, *output_name;
static int inherited, nowhere, memory, complaints, limit_ms, ends_of_children;

static void die(const char *what) {
  fprintf(stderr, "timer: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void on_stop(int number) {
  (void)number;
  if (running > 0) kill(running, SIGTERM);
}

static void set_alarm(int ms) {
  const struct itimerval once = {.it_value = {ms / MS_OF_S, ms % MS_OF_S * US_OF_MS}};
  setitimer(ITIMER_REAL, &once, NULL);
}

/* All that this process started is in its group, and so is what the command started. SIGTERM first, so that they may tidy
 * up; a second later the command is killed. */
static void on_late(int number) {
  (void)number;
  if (running <= 0) return;
  if (is_late) {
    kill(running, SIGKILL);
    return;
  }
  is_late = 1;
  set_alarm(MS_OF_S);
  kill(0, SIGTERM);
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
struct reader {
  struct output output;
  size_t held;
  unsigned char block[BLOCK];
};

/* Returns what read(2) does. most: bytes. */
static ssize_t read_some(struct reader *reader, int file, size_t most) {
  const size_t room = sizeof reader->block - reader->held;
  ssize_t got;
  do got = read(file, reader->block + reader->held, most < room ? most : room);
  while (got < 0 && errno == EINTR);
  if (got > 0) reader->held += (size_t)got;
  if (reader->held == sizeof reader->block) {
    hash(&reader->output, reader->block, reader->held);
    reader->held = 0;
  }
  return got;
}

static struct output finish(struct reader *reader) {
  hash(&reader->output, reader->block, reader->held);
  return reader->output;
}

static struct reader *new_reader(void) {
  static struct reader reader;
  reader.output = (struct output){0, 1, 0};
  reader.held = 0;
  return &reader;
}

static struct output read_all(int file) {
  struct reader *reader = new_reader();
  while (read_some(reader, file, BLOCK) > 0) continue;
  return finish(reader);
}

/* The signal stays pending until it is read, also that of an earlier command. */
static bool forget_ends(void) {
  struct signalfd_siginfo seen;
  return read(ends_of_children, &seen, sizeof seen) > 0;
}

static bool has_ended(pid_t child, int options, int *status, struct rusage *used) {
  pid_t ended;
  do ended = wait4(child, status, options, used);
  while (ended < 0 && errno == EINTR);
  return ended != 0;
}

/* The rest of what the command wrote before it ended, and no more: a process that it left behind may write for ever. */
static void read_rest(struct reader *reader, int file) {
  struct stat pipe = {0};
  int left = 0;
  ioctl(file, FIONREAD, &left);
  for (ssize_t got; left > 0 && (got = read_some(reader, file, (size_t)left)) > 0; left -= (int)got) continue;
  struct pollfd closed = {.fd = file, .events = POLLIN};
  const bool is_closed = poll(&closed, 1, 0) == 1 && closed.revents == POLLHUP;
  if (!is_closed && fstat(file, &pipe) == 0) reader->output.held = pipe.st_ino;
}

/* Reads the pipe until it is closed, or the command has ended: a process that it started in the background may keep the pipe
 * open. The kernel closes the files of a process before it sends SIGCHLD. */
static struct output read_until_end(pid_t child, int file, int *status, struct rusage *used) {
  struct reader *reader = new_reader();
  struct pollfd both[] = {{.fd = file, .events = POLLIN}, {.fd = ends_of_children, .events = POLLIN}};
  for (;;) {
    both[0].revents = both[1].revents = 0;
    poll(both, 2, -1);
    if (both[0].revents && read_some(reader, file, BLOCK) == 0) {
      has_ended(child, 0, status, used);
      return finish(reader);
    }
    if (both[1].revents && forget_ends() && has_ended(child, WNOHANG, status, used)) {
      read_rest(reader, file);
      return finish(reader);
    }
  }
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

/* Counters of this process that only count in those that it starts, from their exec on, and add up what each had when it
 * ended. file: below 0 where there is none; count: then the negative number of errno. */
struct counters {
  unsigned many;
  int file[MOST_EVENTS];
  int64_t count[MOST_EVENTS];
};

/* Opens a counter of user mode, which every user may count and no interrupt adds to. Inherited events are not read
 * as a group. */
static int open_counter(const char *name, size_t length) {
  const struct toll_event *event = toll_event_named(name, length);
  struct perf_event_attr how = {.disabled = 1,
                                .inherit = 1,
                                .enable_on_exec = 1,
                                .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING};
  if (!event) {
    errno = EINVAL;
    return -1;
  }
  how.exclude_kernel = !toll_event_is_of_kernel(event);
  return toll_event_open(event, how, -1);
}

static void open_counters(const char *names, struct counters *counters) {
  for (counters->many = 0; *names && counters->many < MOST_EVENTS; counters->many++) {
    const size_t length = strcspn(names, ",");
    const int file = open_counter(names, length);
    counters->file[counters->many] = file;
    counters->count[counters->many] = file < 0 ? -errno : 0;
    names += length + (names[length] == ',');
  }
}

/* Returns the count of one counter. An event that took turns with another on one counter was counted for a part of
 * the time, which is no count (EBUSY). */
static int64_t counted(int counter) {
  struct {
    uint64_t count, enabled_ns, running_ns;
  } seen = {0, 0, 0};
  if (read(counter, &seen, sizeof seen) != (ssize_t)sizeof seen || !seen.enabled_ns) return -ENODATA;
  return seen.running_ns < seen.enabled_ns ? -EBUSY : (int64_t)seen.count;
}

static void read_counters(struct counters *counters) {
  for (unsigned i = 0; i < counters->many; i++) {
    if (counters->file[i] < 0) continue;
    counters->count[i] = counted(counters->file[i]);
    close(counters->file[i]);
  }
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
                   const struct counters *counters) {
  const uint64_t user_us = (uint64_t)used->ru_utime.tv_sec * 1000000 + (uint64_t)used->ru_utime.tv_usec,
                 system_us = (uint64_t)used->ru_stime.tv_sec * 1000000 + (uint64_t)used->ru_stime.tv_usec;
  printf("%d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, is_late ? ETIMEDOUT : not_started, status, at_ns,
         wall_ns, user_us * 1000, system_us * 1000);
  printf(" %ld %ld %ld %ld %ld %ld %ld", used->ru_maxrss * 1024, used->ru_minflt, used->ru_majflt, used->ru_inblock,
         used->ru_oublock, used->ru_nvcsw, used->ru_nivcsw);
  printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " ", output.bytes, output.hash >> 16, /* what a double holds exactly */
         output.held);
  for (unsigned i = 0; i < counters->many; i++) printf("%s%" PRId64, i ? "," : "", counters->count[i]);
  printf(counters->many ? " " : "- ");
  if (status) put_complaint();
  putchar('\n');
  fflush(stdout);
}

/* From before the process is started until it has ended, and what it wrote to a pipe was read. */
static void run(const struct command *command, char input, char output, const char *events) {
  const struct files files = open_files(input, output);
  struct output wrote = {0, 0, 0};
  struct rusage used = {0};
  int status = 0;
  not_started = 0;
  struct counters counters;
  open_counters(events, &counters);
  is_late = 0;
  set_alarm(limit_ms);
  const uint64_t began = now_ns();
  const pid_t child = vfork();
  if (child == 0) become(command, &files);
  if (child < 0) die("vfork");
  running = child;
  if (files.from >= 0) {
    close(files.output);
    wrote = read_until_end(child, files.from, &status, &used);
  } else {
    has_ended(child, 0, &status, &used);
  }
  const uint64_t ended = now_ns();
  running = 0;
  set_alarm(0);
  read_counters(&counters);
  close(files.input);
  if (files.from >= 0) close(files.from);
  if (output == 'f') close(files.output);
  if (output == 'm' && lseek(memory, 0, SEEK_SET) == 0) wrote = read_all(memory);
  answer(status, began, ended - began, &used, wrote, &counters);
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

static void answer_signals(void) {
  const struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART},
                         late = {.sa_handler = on_late, .sa_flags = SA_RESTART};
  sigset_t end_of_child;
  sigemptyset(&end_of_child);
  sigaddset(&end_of_child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &end_of_child, NULL);
  sigaction(SIGTERM, &stop, NULL);
  sigaction(SIGALRM, &late, NULL);
  ends_of_children = signalfd(-1, &end_of_child, SFD_CLOEXEC | SFD_NONBLOCK);
  signal(SIGINT, SIG_IGN); /* a terminal sends it to the command too, which may end by it */
  signal(SIGHUP, SIG_IGN);
}

int main(int count, char **words) {
  char line[512], events[256], input, output;
  int known = 0, number;
  if (count < 6) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  answer_signals();
  inherited = atoi(words[1]);
  fcntl(inherited, F_SETFD, FD_CLOEXEC);
  input_name = words[2];
  output_name = words[3];
  limit_ms = atoi(words[4]);
  nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  memory = memfd_create("output", MFD_CLOEXEC);
  complaints = memfd_create("complaints", MFD_CLOEXEC);
  if (nowhere < 0 || memory < 0 || complaints < 0) die("a file in memory");
  const struct command *commands = commands_of(count - 5, words + 5, &known);
  while (fgets(line, sizeof line, stdin)) {
    events[0] = '\0';
    const int read = sscanf(line, "%d %c %c %255s", &number, &input, &output, events);
    if (read < 3 || number < 0 || number >= known) return 2;
    run(&commands[number], input, output, events);
  }
  return 0;
}
