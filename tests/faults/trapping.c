/* SPDX-License-Identifier: Apache-2.0
 *
 * A program for 32-bit ARM that does one thing that traps, as its only word names it, and prints what came of it. What it
 * should print is told in test_bare.py. The words of FPA instructions are what the GNU assembler makes of the mnemonics
 * beside them (`.fpu fpa`); a core without the accelerator knows none of them.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define SUPERVISOR ((volatile int *)0xc0010000) /* probes/runtime/bare/arm/places.h */

static volatile sig_atomic_t handled;

/* Steps over the instruction, which in Thumb state is two bytes long. */
static void on_undefined(int number, siginfo_t *info, void *context) {
  const unsigned long thumb_state = 1ul << 5;
  mcontext_t *core = &((ucontext_t *)context)->uc_mcontext;
  (void)number;
  if (++handled > 2 || (uintptr_t)info->si_addr != core->arm_pc) _exit(3);
  core->arm_pc += core->arm_cpsr & thumb_state ? 2 : 4;
}

static void catch_undefined(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_undefined;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, NULL);
}

/* 1.5 * 2.25 + 1: a load with write-back, arithmetic with a constant, a store. */
static double accelerated(void) {
  static const uint32_t operands[] = {0x3ff80000, 0, 0x40020000, 0}; /* the high word first */
  uint32_t words[2] = {0, 0};
  const uint32_t *from = operands;
  uint32_t *to = words;
  __asm__ volatile(
      "mov r1, %0\n\tmov r0, %1\n\t"
      ".inst 0xecb18102\n\t" /* ldfd f0, [r1], #8 */
      ".inst 0xecb19102\n\t" /* ldfd f1, [r1], #8 */
      ".inst 0xee102181\n\t" /* mufd f2, f0, f1 */
      ".inst 0xee022189\n\t" /* adfd f2, f2, #1.0 */
      ".inst 0xed80a100\n\t" /* stfd f2, [r0] */
      :
      : "r"(from), "r"(to)
      : "r0", "r1", "memory");
  uint64_t bits = (uint64_t)words[0] << 32 | words[1];
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void accelerator(void) {
  catch_undefined();
  double value = accelerated();
  printf("%g, %d handled\n", value, (int)handled);
}

/* What the accelerator held when the program began. */
static void remembered(void) {
  uint32_t words[2] = {1, 1};
  __asm__ volatile("mov r0, %0\n\t.inst 0xed80a100" /* stfd f2, [r0] */ : : "r"(words) : "r0", "memory");
  printf("%u %u, then %g\n", words[0], words[1], accelerated());
}

static void unknown(void) {
  __asm__ volatile(".inst 0xec410200"); /* mcrr, coprocessor 2 */
}

static void caught(void) {
  catch_undefined();
  unknown();
  unknown();
  printf("%d handled\n", (int)handled);
}

static void thumb(void) {
  static const uint16_t code[] __attribute__((aligned(4))) = {0xbf00, 0xde00, 0x4770}; /* nop; udf #0; bx lr */
  ((void (*)(void))((uintptr_t)code | 1))();
}

static void caught_thumb(void) {
  catch_undefined();
  thumb();
  printf("%d handled\n", (int)handled);
}

static void null(void) {
  *(volatile int *)0 = 1;
}

static void supervisor(void) {
  printf("%d\n", *SUPERVISOR);
}

/* The emulator may reach the supervisor's memory; the program may not by it. */
static void accelerated_supervisor(void) {
  __asm__ volatile("mov r0, %0\n\t.inst 0xed80a100" /* stfd f2, [r0] */ : : "r"(SUPERVISOR) : "r0", "memory");
}

static void accelerated_null(void) {
  __asm__ volatile("mov r0, #0\n\t.inst 0xed80a100" /* stfd f2, [r0] */ : : : "r0", "memory");
}

/* Pages of which the emulator is the first to touch one, until there are none left. */
static void accelerated_pages(void) {
  enum { COUNT = 240000 };
  volatile double *const pages = mmap(NULL, COUNT * 4096u, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (unsigned i = 0; i < COUNT; i++) {
    __asm__ volatile("mov r0, %0\n\t.inst 0xed80a100" /* stfd f2, [r0] */ : : "r"(pages + i * 512) : "r0", "memory");
    if (i == 1) printf("%g\n", pages[512]), fflush(stdout);
  }
}

static void text(void) {
  *(volatile int *)(uintptr_t)text = 1;
}

static void nowhere(void) {
  ((void (*)(void))0x30000000)();
}

static void overflow(void) {
  volatile char room[65536];
  room[0] = 1;
  overflow();
  room[1] = room[0];
}

static void on_alarm(int number) {
  (void)number;
  __asm__ volatile("vmov.f64 d16, #1.0" ::: "d16");
  handled++;
}

/* The program's own timer, and a register of the FPU that its handler uses too and keeps for nobody. */
static void alarm_and_fpu(void) {
  struct sigaction action = {0};
  struct itimerval soon = {{0, 5000}, {0, 5000}};
  double kept;
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &soon, NULL);
  __asm__ volatile("vmov.f64 d16, #2.0" ::: "d16");
  while (handled < 3) continue;
  __asm__ volatile("vmov %Q0, %R0, d16" : "=r"(kept));
  printf("%d handled, d16 = %g\n", (int)handled, kept);
}

static void slept(void) {
  struct timespec before, after, pause = {2, 500000000};
  clock_gettime(CLOCK_MONOTONIC, &before);
  nanosleep(&pause, NULL);
  clock_gettime(CLOCK_MONOTONIC, &after);
  printf("%.3f s\n", (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9);
}

/* The routines that the C libraries of old cores take from the kernel. */
static void helpers(void) {
  int (*const exchange)(int, int, volatile int *) = (int (*)(int, int, volatile int *))0xffff0fc0;
  int (*const exchange_64)(const int64_t *, const int64_t *, volatile int64_t *) =
      (int (*)(const int64_t *, const int64_t *, volatile int64_t *))0xffff0f60;
  volatile int word = 7;
  volatile int64_t words = 1ll << 40;
  const int64_t old = 1ll << 40, new = 3ll << 40;
  int done = exchange(7, 9, &word), refused = exchange(7, 11, &word);
  int done_64 = exchange_64(&old, &new, &words), refused_64 = exchange_64(&old, &new, &words);
  printf("%d %d %d, %d %d %d, version %d\n", done, refused != 0, word, done_64, refused_64 != 0, (int)(words >> 40),
         *(const int *)0xffff0ffc);
}

/* Pages come when they are touched, and go when they are given back. */
static void pages(void) {
  enum { COUNT = 64, BYTES = COUNT * 4096 };
  struct rusage before, after;
  char *room = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < COUNT; i++) room[i * 4096] = 1;
  getrusage(RUSAGE_SELF, &after);
  madvise(room, BYTES, MADV_DONTNEED);
  printf("%ld faults, then %d\n", after.ru_minflt - before.ru_minflt, room[4096]);
  munmap(room, BYTES);
  fflush(stdout);
  room[0] = 1;
}

static void forked(void) {
  pid_t process = fork();
  printf("%d, %s\n", (int)process, strerror(errno));
}

static const struct {
  const char *name;
  void (*act)(void);
} acts[] = {{"accelerator", accelerator},
            {"remembered", remembered},
            {"unknown", unknown},
            {"caught", caught},
            {"thumb", thumb},
            {"caught-thumb", caught_thumb},
            {"null", null},
            {"supervisor", supervisor},
            {"accelerated-supervisor", accelerated_supervisor},
            {"accelerated-null", accelerated_null},
            {"accelerated-pages", accelerated_pages},
            {"text", text},
            {"nowhere", nowhere},
            {"overflow", overflow},
            {"alarm-and-fpu", alarm_and_fpu},
            {"slept", slept},
            {"helpers", helpers},
            {"pages", pages},
            {"forked", forked}};

int main(int count, char **words) {
  for (size_t i = 0; count == 2 && i < sizeof acts / sizeof acts[0]; i++) {
    if (strcmp(words[1], acts[i].name) != 0) continue;
    acts[i].act();
    return 0;
  }
  return 2;
}
