/* SPDX-License-Identifier: Apache-2.0
 *
 * The only program of a guest besides the probes: process 1. It reads command lines from the wire, runs each program,
 * and reports its exit status; the program's output goes to the wire as it is printed.
 *
 *   host: PROGRAM WORDS...           host: interrupt           host: halt
 *   guest: ...output..., then "guest ended STATUS" on a line of its own (as wait(2) encodes it), or "guest cannot ERRNO"
 *   guest, once: "guest ready"
 *
 * The wire is a serial line of its own, named by `wire=` on the kernel's command line, which process 1 finds in its
 * environment: the console belongs to the kernel. It is raw, and the host needs no driver for it. The replacement of
 * the clock comes in the same way, as TOLL_CLOCK (probes/runtime/clock_kind.c), and is passed on to the probes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LONGEST_LINE = 4096, MOST_WORDS = 256 };

static struct {
  char text[LONGEST_LINE];
  size_t used;
} input;

static void halt(const char *reason) {
  if (reason) perror(reason);
  sync();
  reboot(RB_POWER_OFF);
  reboot(RB_AUTOBOOT); /* where there is no switch to turn the power off: the emulator ends at a reset instead */
  for (;;) pause();
}

static void mount_all(void) {
  static const char *const places[][2] = {
      {"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    mkdir(places[i][1], 0755);
    mount(places[i][0], places[i][1], places[i][0], 0, NULL);
  }
  mkdir("/dev/shm", 0755);
  mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
}

/* The wire becomes standard input, output and error of all. */
static void open_wire(void) {
  struct termios raw;
  const char *path = getenv("wire");
  int wire = open(path ? path : "/dev/ttyS1", O_RDWR | O_NOCTTY);
  if (wire < 0) halt("no wire");
  if (tcgetattr(wire, &raw) < 0) halt("the wire is no serial line");
  cfmakeraw(&raw);
  cfsetspeed(&raw, B115200);
  tcsetattr(wire, TCSANOW, &raw);
  for (int standard = 0; standard <= 2; standard++) dup2(wire, standard);
}

/* Returns a complete line of the wire without its newline; NULL if there is none yet. */
static char *take_line(void) {
  static char line[LONGEST_LINE];
  char *end = memchr(input.text, '\n', input.used);
  if (!end) return NULL;
  size_t length = (size_t)(end - input.text);
  memcpy(line, input.text, length);
  line[length] = '\0';
  input.used -= length + 1;
  memmove(input.text, end + 1, input.used);
  return line;
}

static void fill(void) {
  if (input.used == sizeof input.text) input.used = 0; /* no command is so long: this is noise */
  ssize_t got = read(STDIN_FILENO, input.text + input.used, sizeof input.text - input.used);
  if (got > 0) input.used += (size_t)got;
}

static pid_t start(char *line, const sigset_t *unblocked) {
  char *words[MOST_WORDS + 1] = {NULL};
  unsigned count = 0;
  for (char *word; count < MOST_WORDS && (word = strsep(&line, " "));)
    if (*word) words[count++] = word;
  pid_t program = fork();
  if (program != 0) return program;
  setsid();
  sigprocmask(SIG_SETMASK, unblocked, NULL);
  execv(words[0] ? words[0] : "", words);
  printf("\nguest cannot %d\n", errno);
  fflush(stdout);
  _exit(127);
}

/* SIGCHLD only interrupts the wait below. */
static void wake(int signal_number) {
  (void)signal_number;
}

static bool has_ended(pid_t program, int *status) {
  bool ended = false;
  int each;
  for (pid_t one; (one = waitpid(-1, &each, WNOHANG)) > 0;) { /* orphans end here too */
    if (one != program) continue;
    ended = true;
    *status = each;
  }
  return ended;
}

/* Waits for the program, and handles the host's messages meanwhile. Remaining companions are ended with it. */
static int attend(pid_t program) {
  struct pollfd wire = {.fd = STDIN_FILENO, .events = POLLIN};
  sigset_t none;
  int status = 0;
  sigemptyset(&none);
  while (!has_ended(program, &status)) {
    if (ppoll(&wire, 1, NULL, &none) <= 0) continue;
    fill();
    for (char *line; (line = take_line());) {
      if (strcmp(line, "interrupt") == 0) kill(-program, SIGINT);
      if (strcmp(line, "halt") == 0) halt(NULL);
    }
  }
  kill(-program, SIGKILL);
  return status;
}

static void serve(char *line, const sigset_t *unblocked) {
  if (strcmp(line, "halt") == 0) halt(NULL);
  if (strcmp(line, "interrupt") == 0 || !*line) return;
  pid_t program = start(line, unblocked);
  if (program < 0)
    printf("\nguest cannot %d\n", errno);
  else
    printf("\nguest ended %d\n", attend(program));
  fflush(stdout);
  tcdrain(STDOUT_FILENO);
}

int main(void) {
  struct sigaction action = {.sa_handler = wake};
  sigset_t child, before;
  mount_all();
  open_wire();
  sigaction(SIGCHLD, &action, NULL);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &before);
  unsetenv("wire");
  sethostname("guest", 5);
  printf("guest ready\n");
  fflush(stdout);
  for (;;) {
    char *line = take_line();
    if (line)
      serve(line, &before);
    else
      fill();
  }
}
