/* SPDX-License-Identifier: Apache-2.0
 *
 *   bill-runner WAY ANSWER PATH WORD...     counts the command until it ends
 *   bill-runner running ANSWER PID MS       counts a running process for so long
 *
 * WAY: kernel, notified or usage. ANSWER: the descriptor that the answer is written to, one line of JSON. PATH: what is
 * executed; "-NAME-N" in its place does one of `loops` N times, by which the host learns what each costs and what the
 * counting adds. The command reads nothing, and its output is discarded; where calls are not counted, the last line
 * of its standard error is part of the answer if it failed.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../clock_ns.h"
#include "bill.h"

enum { NOT_STARTED = 127 };

struct command {
  const char *path;
  char **words;
};

struct answer {
  struct counts counts;
  struct rusage used;
  uint64_t wall_ns;
  int status;
  char errors[200];                       /* the last line that the command wrote there, if it failed */
  double toll_ns, window_ns, counting_ns; /* costs of getppid, without counting and with it; 0 if BPF does not count */
};

static int errors = -1; /* a file in memory for the command's standard error */

/* ---- the command ---- */

/* In memory that the child shares: what a loop took by itself, without the start and the end of its process, and why a
 * command was not started. */
static struct {
  _Atomic uint64_t ns, faults;
  _Atomic int not_started;
} * shared;

/* Several stretches, and several processes, are summed. */
static void begin_loop(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  shared->faults -= (uint64_t)used.ru_minflt;
  shared->ns -= toll_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void end_loop(void) {
  struct rusage used;
  shared->ns += toll_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  getrusage(RUSAGE_SELF, &used);
  shared->faults += (uint64_t)used.ru_minflt;
}

static void make_calls(size_t calls) {
  long sum = 0;
  begin_loop();
  for (size_t i = 0; i < calls; i++) sum += syscall(SYS_getppid);
  end_loop();
  if (sum == 0) _exit(1);
}

/* One question about one path: where it is counted, its path is looked up too. */
static void ask_about_path(size_t calls) {
  struct stat about;
  begin_loop();
  for (size_t i = 0; i < calls; i++)
    if (stat("/", &about) != 0) _exit(1);
  end_loop();
}

/* In pages of the usual size. file: below 0 for memory without one. */
static volatile char *mapped(size_t bytes, int file) {
  void *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
  if (region == MAP_FAILED) _exit(1);
  madvise(region, bytes, MADV_NOHUGEPAGE);
  return region;
}

/* Times a store to each page after the kernel stored there and the pages were given back: a guest's host may have taken a
 * page that was free for long, and its fault at the first store is no price of this kernel (9.5 us in place of 0.6 where
 * free pages are reported to the host). All faults in user mode are timed ones. is_copy: each page is mapped before, so
 * that the store copies it. */
static void store_again(volatile char *region, size_t pages, bool is_copy) {
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), bytes = pages * page_bytes;
  void *const start = (void *)(uintptr_t)region;
  const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  if (read(zeros, start, bytes) != (ssize_t)bytes || madvise(start, bytes, MADV_DONTNEED) < 0) _exit(1);
  for (size_t i = 0; is_copy && i < pages; i++) (void)region[i * page_bytes];
  begin_loop();
  for (size_t i = 0; i < pages; i++) region[i * page_bytes] = 1;
  end_loop();
}

static void store_to_pages(size_t pages) {
  store_again(mapped(pages * (size_t)sysconf(_SC_PAGESIZE), -1), pages, false);
}

static volatile char *of_cached_file(size_t pages) {
  static const char some[65536] = {1};
  const size_t bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
  const int file = memfd_create("toll", MFD_CLOEXEC);
  for (size_t had = 0; had < bytes; had += sizeof some)
    if (write(file, some, sizeof some) != (ssize_t)sizeof some) _exit(1);
  return mapped(bytes, file);
}

/* Loads pages of this executable, which is in a folder of programs. The kernel maps neighbours of the page too, as
 * many as are in memory: fewer faults than pages, each of which is of the dearest kind. */
static void load_file_pages(size_t pages) {
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const off_t end = lseek(file, 0, SEEK_END);
  const size_t of_file = end > 0 ? (size_t)end / page_bytes : 0;
  for (size_t had = 0; of_file && had < pages; had += of_file) {
    volatile char *region = mapped(of_file * page_bytes, file);
    begin_loop();
    for (size_t i = 0; i < of_file; i++) (void)region[i * page_bytes];
    end_loop();
    munmap((void *)(uintptr_t)region, of_file * page_bytes);
  }
}

static void store_to_shared_pages(size_t pages) {
  store_again(of_cached_file(pages), pages, true);
}

/* A process that ends at once, by vfork(2): its price does not grow with the memory of the one that starts it. */
static void spawn(size_t processes) {
  for (size_t i = 0; i < processes; i++) {
    const pid_t child = vfork();
    if (child == 0) _exit(0);
    if (child < 0 || waitpid(child, NULL, 0) != child) _exit(1);
  }
}

/* Forks processes that end at once from a process with many pages. */
static void fork_with_pages(size_t processes) {
  enum { PAGES = 4096 };
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  volatile char *region = mapped(PAGES * page_bytes, -1);
  for (size_t i = 0; i < PAGES; i++) region[i * page_bytes] = 1;
  for (size_t i = 0; i < processes; i++) {
    const pid_t child = fork();
    if (child == 0) syscall(SYS_exit_group, 0);
    if (child < 0 || waitpid(child, NULL, 0) != child) _exit(1);
  }
}

/* Passes a byte back and forth between two processes on one CPU: both wait in each round. */
static void switch_processes(size_t rounds) {
  int there[2], back[2];
  char byte = 0;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET((size_t)sched_getcpu(), &own);
  if (sched_setaffinity(0, sizeof own, &own) != 0 || pipe(there) != 0 || pipe(back) != 0) _exit(1);
  const pid_t child = fork();
  if (child < 0) _exit(1);
  const int from = child ? back[0] : there[0], to = child ? there[1] : back[1];
  begin_loop();
  for (size_t i = 0; i < rounds; i++)
    if ((child && write(to, &byte, 1) != 1) || read(from, &byte, 1) != 1 || (!child && write(to, &byte, 1) != 1))
      _exit(1);
  end_loop();
  if (child) waitpid(child, NULL, 0);
}

static const struct {
  const char *name;
  void (*run)(size_t times);
} loops[] = {{"-calls-", make_calls},      {"-asks-", ask_about_path},          {"-stores-", store_to_pages},
             {"-loads-", load_file_pages}, {"-copies-", store_to_shared_pages}, {"-spawns-", spawn},
             {"-forks-", fork_with_pages}, {"-switches-", switch_processes}};

static int become(void *argument) {
  const struct command *command = argument;
  for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
    const size_t length = strlen(loops[i].name);
    if (strncmp(command->path, loops[i].name, length) != 0) continue;
    loops[i].run(strtoull(command->path + length, NULL, 10));
    _exit(0);
  }
  execv(command->path, command->words);
  shared->not_started = errno;
  _exit(NOT_STARTED);
}

/* Starts the command and stops it before its first own system call. */
static pid_t start_stopped(struct command *command) {
  int status;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (errors >= 0) dup2(errors, STDERR_FILENO);
    syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
    become(command);
  }
  if (child > 0 && (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))) return -1;
  return child;
}

static void finish(pid_t child, struct answer *answer) {
  while (wait4(child, &answer->status, 0, &answer->used) < 0 && errno == EINTR) continue;
}

/* ---- the ways to count ---- */

static const char *run_clean(struct command *command, struct answer *answer) {
  const pid_t child = start_stopped(command);
  if (child < 0) return strerror(errno);
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC);
  kill(child, SIGCONT);
  finish(child, answer);
  answer->wall_ns = toll_clock_ns(CLOCK_MONOTONIC) - began;
  return NULL;
}

static bool run_followed(struct command *command, struct answer *answer, const char **reason) {
  const pid_t child = start_stopped(command);
  if (child < 0) return *reason = strerror(errno), false;
  if ((*reason = kernel_follow(child))) return kill(child, SIGKILL), false;
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC);
  kill(child, SIGCONT);
  finish(child, answer);
  answer->wall_ns = toll_clock_ns(CLOCK_MONOTONIC) - began;
  if (!kernel_read(&answer->counts)) *reason = "the counts cannot be read";
  return !*reason;
}

/* Measures the shortest call, first without counting, then counted by the programs that also count the command, and
 * subtracts it from its counts. Two successive loops see one state of the core, so their difference is the cost of
 * counting. */
static struct answer shortest;

static const char *open_and_calibrate(void) {
  enum { CALLS_OF_LOOP = 50000 };
  struct command command = {"-calls-50000", NULL};
  const char *reason = run_clean(&command, &shortest);
  shortest.toll_ns = (double)shared->ns / CALLS_OF_LOOP;
  shared->ns = 0;
  if (reason || (reason = kernel_open()) || !run_followed(&command, &shortest, &reason)) return reason;
  for (unsigned size = 0; size < SIZES; size++)
    shortest.window_ns += (double)shortest.counts.calls[call_place(SYS_getppid)][size].ns / CALLS_OF_LOOP;
  shortest.counting_ns = (double)shared->ns / CALLS_OF_LOOP;
  shared->ns = shared->faults = 0;
  return NULL;
}

static void take_off_calibration(struct answer *answer) {
  uint64_t *calls = (uint64_t *)answer->counts.calls;
  const uint64_t *before = (const uint64_t *)shortest.counts.calls;
  for (size_t i = 0; i < sizeof answer->counts.calls / sizeof *calls; i++) calls[i] -= before[i];
  for (unsigned i = 0; i < EVENTS; i++) answer->counts.events[i] -= shortest.counts.events[i];
  answer->toll_ns = shortest.toll_ns;
  answer->window_ns = shortest.window_ns;
  answer->counting_ns = shortest.counting_ns;
}

static const char *count_in_kernel(struct command *command, struct answer *answer) {
  const char *reason = open_and_calibrate();
  if (!reason && run_followed(command, answer, &reason)) take_off_calibration(answer);
  return reason;
}

static const char *count_by_notification(struct command *command, struct answer *answer) {
  const char *reason = NULL;
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC);
  const pid_t child = notified_start(become, command, &reason);
  if (child < 0) return reason;
  notified_serve(child, &answer->counts);
  finish(child, answer);
  answer->wall_ns = toll_clock_ns(CLOCK_MONOTONIC) - began;
  return NULL;
}

/* The last line, as a JSON string may hold it. */
static void read_errors(char *text, size_t room) {
  const off_t end = lseek(errors, 0, SEEK_END);
  const ssize_t got = pread(errors, text, room - 1, end > (off_t)room ? end - (off_t)room + 1 : 0);
  size_t length = got > 0 ? (size_t)got : 0;
  while (length && text[length - 1] == '\n') length--;
  text[length] = '\0';
  const char *before = strrchr(text, '\n');
  if (before) memmove(text, before + 1, strlen(before));
  for (char *c = text; *c; c++)
    if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = ' ';
}

static const char *count_usage(struct command *command, struct answer *answer) {
  errors = memfd_create("errors", MFD_CLOEXEC);
  const char *reason = run_clean(command, answer);
  if (answer->status && errors >= 0) read_errors(answer->errors, sizeof answer->errors);
  return reason;
}

/* CPU time of the children that the process has waited for, ns, in ticks of the system (proc(5), cutime and cstime). */
static uint64_t children_ns(pid_t process) {
  char path[64], line[1024] = "";
  unsigned long user = 0, system = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (!fgets(line, sizeof line, file)) line[0] = 0;
  fclose(file);
  const char *rest = strrchr(line, ')'); /* the command's name may have blanks */
  if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
    return 0;
  return (uint64_t)(user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* CPU time of all threads of a process, ns (/proc/PID/schedstat is one thread's; stat has ticks), and its children's. */
static uint64_t cpu_ns(pid_t process) {
  clockid_t clock;
  struct timespec now;
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + children_ns(process);
}

static const char *count_running(pid_t process, unsigned ms, struct answer *answer) {
  char path[64];
  const char *reason = open_and_calibrate();
  if (reason) return reason;
  snprintf(path, sizeof path, "/proc/%d/task", (int)process);
  DIR *folder = opendir(path);
  if (!folder) return "there is no such process";
  for (const struct dirent *entry; (entry = readdir(folder));)
    if (entry->d_name[0] != '.' && (reason = kernel_follow(atoi(entry->d_name)))) return reason;
  closedir(folder);
  const uint64_t began = toll_clock_ns(CLOCK_MONOTONIC), cpu = cpu_ns(process);
  usleep(ms * 1000);
  const uint64_t took_ns = cpu_ns(process) - cpu;
  answer->wall_ns = toll_clock_ns(CLOCK_MONOTONIC) - began;
  answer->used.ru_utime =
      (struct timeval){(time_t)(took_ns / 1000000000u), (suseconds_t)(took_ns % 1000000000u / 1000)};
  if (!kernel_read(&answer->counts)) return "the counts cannot be read";
  take_off_calibration(answer);
  answer->counts.events[ON_CPU_NS] = 0; /* a thread that is not switched from adds nothing */
  return NULL;
}

/* ---- the answer ---- */

static void put_calls(FILE *to, const struct counts *counts) {
  const char *before = "";
  fprintf(to, ",\"calls\":[");
  for (unsigned i = 0; i < CALLS; i++)
    for (unsigned size = 0; size < SIZES; size++) {
      const struct call_count *call = &counts->calls[i][size];
      const char *name = call_name(i % CALLS_OF_ABI, i >= CALLS_OF_ABI);
      if (!call->count) continue;
      fprintf(to, "%s{\"number\":%u,\"is_32\":%s,\"name\":\"%s\",\"size\":%u,\"count\":%" PRIu64, before,
              i % CALLS_OF_ABI, i < CALLS_OF_ABI ? "false" : "true", name ? name : "", size, call->count);
      fprintf(to, ",\"ns\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"repeats\":%" PRIu64, call->ns,
              call->bytes, call->errors, call->repeats);
      fprintf(to, ",\"switched\":%" PRIu64 "}", call->switched);
      before = ",";
    }
  fprintf(to, "]");
}

static void put_events(FILE *to, const struct counts *counts) {
  static const char *const names[EVENTS] = {"forks",          "execs",         "exits",          "signals",
                                            "wakes",          "migrations",    "load_faults",    "store_faults",
                                            "copy_faults",    "fetch_faults",  "kernel_faults",  "load_fault_ns",
                                            "store_fault_ns", "copy_fault_ns", "fetch_fault_ns", "ticks",
                                            "tick_ns",        "on_cpu_ns",     "clamped"};
  fprintf(to, ",\"events\":{");
  for (unsigned i = 0; counts->has_events && i < EVENTS; i++)
    fprintf(to, "%s\"%s\":%" PRIu64, i ? "," : "", names[i], counts->events[i]);
  fprintf(to, "}");
}

static void put_answer(FILE *to, const char *reason, const struct answer *answer) {
  const struct rusage *used = &answer->used;
  fprintf(to, "{\"reason\":\"%s\",\"error\":%d,\"status\":%d,\"wall_ns\":%" PRIu64, reason ? reason : "",
          shared->not_started, answer->status, answer->wall_ns);
  fprintf(to, ",\"user_ns\":%lld,\"system_ns\":%lld",
          used->ru_utime.tv_sec * 1000000000LL + used->ru_utime.tv_usec * 1000,
          used->ru_stime.tv_sec * 1000000000LL + used->ru_stime.tv_usec * 1000);
  fprintf(to, ",\"minor_faults\":%ld,\"major_faults\":%ld,\"voluntary\":%ld,\"involuntary\":%ld", used->ru_minflt,
          used->ru_majflt, used->ru_nvcsw, used->ru_nivcsw);
  if (*answer->errors) fprintf(to, ",\"stderr\":\"%s\"", answer->errors);
  fprintf(to, ",\"loop_ns\":%" PRIu64 ",\"loop_faults\":%" PRIu64, shared->ns, shared->faults);
  fprintf(to, ",\"toll_ns\":%.3f,\"window_ns\":%.3f,\"counting_ns\":%.3f", answer->toll_ns, answer->window_ns,
          answer->counting_ns);
  put_calls(to, &answer->counts);
  put_events(to, &answer->counts);
  fprintf(to, "}\n");
}

/* The descriptor for the answer, which the command does not inherit; its standard input and output are /dev/null. */
static FILE *answer_to(int asked) {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC), answer = fcntl(asked, F_DUPFD_CLOEXEC, 3);
  fcntl(asked, F_SETFD, FD_CLOEXEC);
  for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) dup2(nowhere, i);
  return fdopen(answer, "w");
}

int main(int count, char **words) {
  static struct answer answer;
  if (count < 5) return 2;
  FILE *to = answer_to(atoi(words[2]));
  if (!to) return 2;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C also reaches the command, whose end is awaited */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct command command = {words[3], words + 4};
  const char *reason = strcmp(words[1], "usage") == 0      ? count_usage(&command, &answer)
                       : strcmp(words[1], "notified") == 0 ? count_by_notification(&command, &answer)
                       : strcmp(words[1], "running") == 0
                           ? count_running(atoi(words[3]), (unsigned)atoi(words[4]), &answer)
                           : count_in_kernel(&command, &answer);
  put_answer(to, reason, &answer);
  return reason != NULL;
}
