/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that cross boundaries a known number of times, and the same ones changed so that they need not:
 *   crossing MODE N    MODE: one of `modes`
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 4096, MAP = 1 << 20, TOUCHED = 64 << 20, STEP = 4096 };
static char block[BLOCK];

static void copy(long bytes, size_t each) {
  const int from = open("/dev/zero", O_RDONLY), to = open("/dev/null", O_WRONLY);
  for (long i = 0; i < bytes; i += (long)each)
    if (read(from, block, each) != (ssize_t)each || write(to, block, each) != (ssize_t)each) exit(1);
}
static void bytes(long n) {
  copy(n, 1);
}
static void blocks(long n) {
  copy(n, BLOCK);
}

static void start(long n, pid_t (*make)(void)) {
  char *footprint = malloc(TOUCHED);
  for (long at = 0; at < TOUCHED; at += STEP) footprint[at] = 1;
  for (long i = 0; i < n; i++) {
    const pid_t child = make();
    if (child == 0) {
      execl("/proc/self/exe", "crossing", "nothing", "0", NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
  }
  free(footprint);
}
static pid_t forked(void) {
#ifdef SYS_fork
  return (pid_t)syscall(SYS_fork);
#else
  return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* 64-bit ARM has no other */
#endif
}
static void forks(long n) {
  start(n, forked);
}
static void vforks(long n) {
  char *footprint = malloc(TOUCHED);
  for (long at = 0; at < TOUCHED; at += STEP) footprint[at] = 1;
  for (long i = 0; i < n; i++) {
    const pid_t child = vfork();
    if (child == 0) {
      execl("/proc/self/exe", "crossing", "nothing", "0", NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
  }
  free(footprint);
}

static void maps(long n) {
  for (long i = 0; i < n; i++) {
    char *map = mmap(NULL, MAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(map, MAP);
  }
}
static void map_once(long n) {
  char *map = mmap(NULL, MAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 0; i < n; i++) *(volatile char *)map = 1;
  munmap(map, MAP);
}

static void ask(long n, const char *path) {
  struct stat about;
  for (long i = 0; i < n; i++)
    if (stat(path, &about)) exit(1);
}
static void stats(long n) {
  ask(n, "/usr/lib/os-release");
}
/* Of a file that a guest has too. */
static void null_stats(long n) {
  ask(n, "/dev/null");
}
static void stat_once(long n) {
  stats(n > 0);
}

static void seeks(long n) {
  const int file = open("/proc/self/exe", O_RDONLY);
  for (long i = 0; i < n; i++) {
    lseek(file, i % 4096, SEEK_SET);
    if (read(file, block, BLOCK) < 0) exit(1);
  }
}
static void preads(long n) {
  const int file = open("/proc/self/exe", O_RDONLY);
  for (long i = 0; i < n; i++)
    if (pread(file, block, BLOCK, i % 4096) < 0) exit(1);
}

static void clocks(long n) {
  long now[2];
  for (long i = 0; i < n; i++) syscall(SYS_clock_gettime, 1, now);
}

static void ping(long n, size_t each) {
  int out[2], back[2];
  if (pipe(out) || pipe(back)) exit(1);
  const pid_t child = fork();
  for (long i = 0; i < n; i += (long)each) {
    if (child && (write(out[1], block, each) < 0 || read(back[0], block, each) < 0)) exit(1);
    if (!child && (read(out[0], block, each) < 0 || write(back[1], block, each) < 0)) exit(1);
  }
  if (!child) _exit(0);
  waitpid(child, NULL, 0);
}
static void pings(long n) {
  ping(n, 1);
}
static void ping_blocks(long n) {
  ping(n, BLOCK);
}

/* Both ends on one CPU, or on two. */
static void pin(unsigned place) {
  cpu_set_t allowed, own;
  sched_getaffinity(0, sizeof allowed, &allowed);
  CPU_ZERO(&own);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed) && place-- == 0) CPU_SET(cpu, &own);
  sched_setaffinity(0, sizeof own, &own);
}
static void pings_on_one(long n) {
  pin(0);
  ping(n, 1);
}
static void ping_blocks_on_one(long n) {
  pin(0);
  ping(n, BLOCK);
}

/* Two threads, each of which waits for the other after `each` steps. */
static _Atomic int turn;
static long steps, steps_each;
static void *hand_over(void *own) {
  const int mine = own != NULL;
  for (long i = 0; i < steps; i += steps_each) {
    while (turn != mine) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !mine, NULL, NULL, 0);
    turn = !mine;
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
  return NULL;
}
static void hand(long n, long each) {
  pthread_t other;
  pin(0);
  steps = n;
  steps_each = each;
  if (pthread_create(&other, NULL, hand_over, block)) exit(1);
  hand_over(NULL);
  pthread_join(other, NULL);
}
static void hands(long n) {
  hand(n, 1);
}
static void hand_blocks(long n) {
  hand(n, 64);
}

/* A child that sleeps for n ms, and is waited for. */
static void waits(long n) {
  const pid_t child = fork();
  if (!child) usleep((useconds_t)n * 1000), _exit(0);
  waitpid(child, NULL, 0);
}

static void nothing(long n) {
  (void)n;
}

static const struct {
  const char *name;
  void (*run)(long n);
} modes[] = {{"bytes", bytes},
             {"blocks", blocks},
             {"forks", forks},
             {"vforks", vforks},
             {"maps", maps},
             {"map_once", map_once},
             {"stats", stats},
             {"stat_once", stat_once},
             {"null_stats", null_stats},
             {"seeks", seeks},
             {"preads", preads},
             {"clocks", clocks},
             {"pings", pings},
             {"ping_blocks", ping_blocks},
             {"pings_on_one", pings_on_one},
             {"ping_blocks_on_one", ping_blocks_on_one},
             {"hands", hands},
             {"hand_blocks", hand_blocks},
             {"waits", waits},
             {"nothing", nothing}};

int main(int count, char **words) {
  if (count != 3) return 2;
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
    if (strcmp(words[1], modes[i].name) == 0) return modes[i].run(atol(words[2])), 0;
  return 2;
}
