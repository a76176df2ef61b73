/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program does under the supervisor of a board without an operating system, one act a start.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int handled;
static volatile double crowded[64];

/* A handler that needs most floating-point registers. */
static void handle(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  handled++;
  for (int i = 0; i < 64; i++) crowded[i] = crowded[i] * 1.5 + handled;
  if (info->si_signo == SIGSEGV)
    mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
}

static void catch_signal(int number) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  sigaction(number, &action, NULL);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void caught(void) {
  catch_signal(SIGSEGV);
  volatile char *page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  page[4096] = 7;
  printf("%d handled, %d", handled, page[4096]);
}

/* Sums of a loop that signals interrupt, in registers. */
static void alarmed(void) {
  const struct itimerval often = {{0, 1000}, {0, 1000}};
  double sum = 0;
  long steps = 0;
  catch_signal(SIGALRM);
  setitimer(ITIMER_REAL, &often, NULL);
  for (; handled < 3; steps++) sum += 0.5;
  printf("%s", sum == (double)steps / 2 ? "sum kept" : "sum lost");
}

static void slept(void) {
  const double start = seconds();
  nanosleep(&(struct timespec){2, 500000000}, NULL);
  printf("%.3f s", seconds() - start);
}

static void forked(void) {
  printf("%d, %s", fork(), strerror(errno));
}

static void pages(void) {
  enum { BYTES = 900 << 20 };
  char *room = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < BYTES; i += 4096) room[i] = 1;
}

static void null(void) {
  *(volatile int *)8 = 1;
}

static void supervisor(void) {
  *(volatile int *)(uintptr_t)(sizeof(long) == 8 ? 0x2000000000 : 0x40000000) = 1;
}

static void text(void) {
  *(volatile int *)(uintptr_t)text = 1;
}

static void nowhere(void) {
  ((void (*)(void))0x30000000)();
}

static void unknown(void) {
  __asm__ volatile(".word 0");
}

static void overflow(void) {
  volatile char room[65536];
  room[0] = 1;
  overflow();
  room[1] = room[0];
}

/* More calls deep than a CPU has windows of registers, and from there back to the first. */
static jmp_buf first;

static long sum_to(long number, long back_at) {
  if (number == back_at) longjmp(first, 3);
  return number ? number + sum_to(number - 1, back_at) : 0;
}

static void deep(void) {
  const int came = setjmp(first);
  if (!came) sum_to(40, 1);
  printf("%d, %ld", came, sum_to(40, -1));
}

/* Loads and stores of each width at each address of a word, compared with the bytes. No compiler knows the addresses. */
static unsigned char bytes[24] = {0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8, 0x09, 0x1a, 0x2b, 0x3c};
static unsigned char *volatile source = bytes, *volatile target = bytes + 12;

#define DIFFERS(type, at)                                                          \
  ({                                                                               \
    type value;                                                                    \
    memcpy(&value, bytes + (at), sizeof value);                                    \
    const type loaded = *(volatile type *)(source + (at));                         \
    *(volatile type *)(target + (at)) = loaded;                                    \
    loaded != value || memcmp(bytes + 12 + (at), bytes + (at), sizeof value) != 0; \
  })

static void misaligned(void) {
  int wrong = 0;
#if defined(__sparc__)
  __asm__ volatile("ta 6");
#endif
  for (unsigned at = 0; at < 4; at++)
    wrong += DIFFERS(uint16_t, at) + DIFFERS(int16_t, at) + DIFFERS(uint32_t, at) + DIFFERS(uint64_t, at);
  printf("%d wrong", wrong);
}

static void unmended(void) {
  (void)*(volatile uint32_t *)(source + 1);
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*act)(void);
  } acts[] = {{"caught", caught},         {"alarmed", alarmed},  {"slept", slept},           {"forked", forked},
              {"pages", pages},           {"null", null},        {"supervisor", supervisor}, {"text", text},
              {"nowhere", nowhere},       {"unknown", unknown},  {"overflow", overflow},     {"deep", deep},
              {"misaligned", misaligned}, {"unmended", unmended}};
  for (size_t i = 0; count == 2 && i < sizeof acts / sizeof acts[0]; i++) {
    if (strcmp(words[1], acts[i].name) != 0) continue;
    acts[i].act();
    return 0;
  }
  return 2;
}
