/* SPDX-License-Identifier: Apache-2.0
 *
 * Any number of virtual CPUs on two real ones, for a probe of two threads: linked with --wrap, so that the runtime pins
 * its first thread to CPU 0 and its partner to CPU 1, whatever CPUs a visit names, and reports the named ones.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __wrap_sched_getcpu(void);

static _Thread_local int own_cpu;

int __wrap_sched_getcpu(void) {
  return own_cpu;
}

static long set_affinity(const unsigned char *asked, size_t bytes) {
  int count = 0;
  unsigned long real[1024 / sizeof(unsigned long)];
  memset(real, 0, sizeof real);
  for (size_t cpu = 0; cpu < 8 * bytes; cpu++) {
    if (!(asked[cpu / 8] >> cpu % 8 & 1)) continue;
    own_cpu = (int)cpu;
    count++;
  }
  const bool is_first = __real_syscall(SYS_gettid) == getpid();
  real[0] = count > 1 ? 3 : is_first ? 1 : 2;
  return __real_syscall(SYS_sched_setaffinity, 0, sizeof real, real);
}

long __wrap_syscall(long number, ...) {
  long words[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) words[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_sched_setaffinity) return set_affinity((const unsigned char *)words[2], (size_t)words[1]);
  return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
