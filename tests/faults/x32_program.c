/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses what a program gets from its kernel, and prints one word for each thing that is right: run natively and by the
 * loader of x32 it prints the same. With an argument it is the program that it starts itself. */
#include <errno.h>
#include <fenv.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define RIGHT(what, condition) printf("%s %s\n", what, (condition) ? "right" : "WRONG")

static volatile int taken, value;
static sigjmp_buf jump;

static void take(int number, siginfo_t *info, void *context) {
  (void)context;
  taken = number;
  value = info->si_value.sival_int;
}

static void leap(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  siglongjmp(jump, info->si_addr == (void *)20 ? 2 : 1);
}

/* Skips the two bytes of ud2. */
static void step_over(int number, siginfo_t *info, void *in) {
  ucontext_t *context = in;
  (void)info;
  taken = number;
  context->uc_mcontext.gregs[REG_RIP] += 2;
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action = {0};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(number, &action, NULL);
}

static void signals(void) {
  static char stack[1 << 16];
  handle(SIGUSR1, take, 0);
  raise(SIGUSR1);
  RIGHT("raise", taken == SIGUSR1);
  sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 42});
  RIGHT("queue", value == 42);
  handle(SIGSEGV, leap, 0);
  int where = sigsetjmp(jump, 1);
  if (!where) *(volatile int *)20 = 1;
  RIGHT("fault", where == 2);
  where = sigsetjmp(jump, 1);
  if (!where) *(volatile int *)24 = 1;
  RIGHT("fault again", where == 1);
  handle(SIGILL, step_over, 0);
  __asm__ volatile("ud2");
  RIGHT("context", taken == SIGILL);
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  handle(SIGUSR2, take, SA_ONSTACK);
  raise(SIGUSR2);
  RIGHT("other stack", taken == SIGUSR2);
  sigset_t all, before, pending;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  taken = 0;
  kill(getpid(), SIGUSR1);
  sigpending(&pending);
  RIGHT("blocked", taken == 0 && sigismember(&pending, SIGUSR1) && getppid() > 0);
  sigprocmask(SIG_SETMASK, &before, NULL);
  RIGHT("unblocked", taken == SIGUSR1);
  handle(SIGALRM, take, 0);
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}}, NULL);
  RIGHT("interrupted", pause() == -1 && errno == EINTR && taken == SIGALRM);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2, .sigev_value = {.sival_int = 7}};
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  sigprocmask(SIG_BLOCK, &all, NULL);
  timer_settime(timer, 0, &(struct itimerspec){.it_value = {0, 1000000}}, NULL);
  siginfo_t info;
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  RIGHT("timer", sigtimedwait(&one, &info, &(struct timespec){5, 0}) == SIGUSR2 && info.si_value.sival_int == 7);
  sigprocmask(SIG_SETMASK, &before, NULL);
}

static volatile int ends_threads;
static void *map_and_unmap(void *nothing) {
  while (!ends_threads) munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
  return nothing;
}

static void call(int number, siginfo_t *info, void *context) {
  (void)info;
  (void)context;
  taken = getppid() > 0 ? number : 0;
}

/* A call of a handler that interrupts a wait with all other signals blocked; masks that are read and written at once. */
static void waits(void) {
  sigset_t most, same;
  handle(SIGALRM, call, 0);
  sigfillset(&most);
  sigdelset(&most, SIGALRM);
  taken = 0;
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}}, NULL);
  RIGHT("select", pselect(0, NULL, NULL, NULL, NULL, &most) == -1 && errno == EINTR && taken == SIGALRM);
  sigemptyset(&same);
  sigaddset(&same, SIGUSR1);
  sigprocmask(SIG_BLOCK, &same, &same);
  RIGHT("one mask", !sigismember(&same, SIGUSR1));
  sigprocmask(SIG_SETMASK, &same, &same);
  RIGHT("blocked by it", sigismember(&same, SIGUSR1));
}

/* Of a fork in one thread while another maps memory the child maps memory too. */
static void forks_in_a_crowd(void) {
  pthread_t thread;
  int right = 1;
  pthread_create(&thread, NULL, map_and_unmap, NULL);
  for (int i = 0; i < 50 && right; i++) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) _exit(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    for (int waits = 0; waits < 2000 && waitpid(child, &status, WNOHANG) == 0; waits++) usleep(1000);
    right = status == 0;
    if (!right) kill(child, SIGKILL);
  }
  ends_threads = 1;
  pthread_join(thread, NULL);
  RIGHT("fork in a crowd", right);
}

static void memory(void) {
  char *parts[300];
  int right = 1;
  for (int i = 0; i < 300; i++) parts[i] = memset(malloc(100 * i + 1), i, 100 * i + 1);
  for (int i = 0; i < 300; i++) right &= parts[i][50 * i] == (char)i;
  for (int i = 0; i < 300; i++) free(parts[i]);
  RIGHT("heap", right);
  char *large = memset(malloc(20 << 20), 3, 20 << 20);
  large = realloc(large, 60 << 20);
  RIGHT("moved", large[(20 << 20) - 1] == 3);
  free(large);
  enum { PAGE = 4096 };
  char *map = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(map + PAGE, PAGE);
  char *again = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *again = map[2 * PAGE] = 1;
  RIGHT("gap", munmap(map, 5 * PAGE) == 0);
  RIGHT("refused", mmap(NULL, ~(size_t)0 - 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
  char *most = sbrk(0);
  RIGHT("break", sbrk(3 * PAGE) == most && memset(most, 1, 3 * PAGE) == most && sbrk(-3 * PAGE) == most + 3 * PAGE);
}

static void *thread(void *number) {
  RIGHT("control word", fegetround() == FE_UPWARD);
  return (void *)(2 * (size_t)number);
}

static void threads(void) {
  pthread_t threads[4];
  size_t sum = 0;
  fesetround(FE_UPWARD);
  for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
  for (size_t i = 0; i < 4; i++) {
    void *result;
    pthread_join(threads[i], &result);
    sum += (size_t)result;
  }
  fesetround(FE_TONEAREST);
  RIGHT("threads", sum == 12);
}

static int status_of(pid_t child) {
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void processes(const char *name) {
  char *const shell[] = {"sh", "-c", "exit $NUMBER", NULL}, *const self[] = {(char *)name, "started", NULL};
  char *const environment[] = {"NUMBER=9", NULL};
  pid_t child;
  fflush(stdout);
  if ((child = fork()) == 0) _exit(kill(getppid(), 0) == 0 ? 3 : 4);
  siginfo_t info;
  RIGHT("fork", waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child && info.si_status == 3);
  RIGHT("status", status_of(child) == 3);
  RIGHT("spawn", posix_spawn(&child, "/bin/sh", NULL, NULL, shell, environment) == 0 && status_of(child) == 9);
  RIGHT("self", posix_spawn(&child, "/proc/self/exe", NULL, NULL, self, environment) == 0 && status_of(child) == 5);
  RIGHT("missing", posix_spawn(&child, "/nonexistent", NULL, NULL, self, environment) == ENOENT);
  if ((child = fork()) == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    _exit(6);
  }
  static long word = 77;
  waitpid(child, NULL, 0);
  RIGHT("peek", ptrace(PTRACE_PEEKDATA, child, &word, NULL) == 77);
  ptrace(PTRACE_CONT, child, NULL, NULL);
  int status;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
    ptrace(PTRACE_CONT, child, NULL, (void *)(long)WSTOPSIG(status));
  RIGHT("traced", WIFEXITED(status) && WEXITSTATUS(status) == 6);
}

static void files(const char *name) {
  int ends[2];
  char first[3] = "", second[6] = "";
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  struct iovec out[2] = {{"ab", 2}, {"cdefg", 5}}, in[2] = {{first, 2}, {second, 5}};
  RIGHT("parts", writev(ends[0], out, 2) == 7 && readv(ends[1], in, 2) == 7 && !strcmp(second, "cdefg"));
  struct msghdr message = {.msg_iov = out, .msg_iovlen = 2}, got = {.msg_iov = in, .msg_iovlen = 2};
  RIGHT("message", sendmsg(ends[0], &message, 0) == 7 && recvmsg(ends[1], &got, 0) == 7 && !strcmp(first, "ab"));
  int bytes = 0;
  socklen_t length = sizeof bytes;
  RIGHT("option", getsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0 && bytes > 0);
  sigset_t all;
  sigfillset(&all);
  struct pollfd ready = {ends[0], POLLOUT, 0};
  RIGHT("poll", ppoll(&ready, 1, &(struct timespec){1, 0}, &all) == 1);
  char own[4096] = "";
  RIGHT("own name", readlink("/proc/self/exe", own, sizeof own - 1) > 0 && strstr(own, name));
}

int main(int count, char **words) {
  struct timespec now;
  struct rusage use;
  setvbuf(stdout, NULL, _IOLBF, 1 << 12);
  if (count > 1) return strcmp(words[1], "started") || strcmp(getenv("NUMBER"), "9") ? 6 : 5;
  RIGHT("clock", clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_nsec < 1000000000);
  signals();
  waits();
  memory();
  threads();
  forks_in_a_crowd();
  processes(words[0]);
  files(strrchr(words[0], '/') + 1);
  RIGHT("use", getrusage(RUSAGE_SELF, &use) == 0 && use.ru_maxrss > 100);
  return 7;
}
