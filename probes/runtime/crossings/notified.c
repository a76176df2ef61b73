/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts system calls without a privilege: a seccomp filter stops each one, this process counts it and lets it go on
 * (seccomp_unotify(2), SECCOMP_USER_NOTIF_FLAG_CONTINUE). It follows children, costs 6 to 8 us a call, and takes from the
 * command the right to gain privileges (no_new_privs): a set-user-ID program does not change its user.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bill.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#endif
enum { SYNC_WAKE_UP = 1, STACK_BYTES = 1 << 18, PENDING = -1 };

struct opening {
  int (*start)(void *argument);
  void *argument;
  _Atomic int listener; /* PENDING, then a file or a negative number of errno */
};

static int listener = -1;

/* With the flag a signal that the command handles does not stop a call that is being counted, which would count it twice. */
static int open_filter(void) {
  struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
  struct sock_fprog filter = {1, all};
  const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -errno;
  int file =
      (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &filter);
  if (file < 0 && errno == EINVAL) file = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
  return file < 0 ? -errno : file;
}

/* Shares memory and files with its parent until it executes the command, so that the listener needs no message, which
 * would be a system call of its own. */
static int become_filtered(void *argument) {
  struct opening *opening = argument;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = open_filter();
  atomic_store(&opening->listener, file);
  if (file < 0) _exit(1);
  return opening->start(opening->argument);
}

pid_t notified_start(int (*start)(void *), void *argument, const char **reason) {
  enum { POLL_US = 100 };
  static struct opening opening;
  char *stack = malloc(STACK_BYTES);
  uint64_t flags = SYNC_WAKE_UP;
  if (!stack) return *reason = "out of memory", -1;
  opening = (struct opening){start, argument, PENDING};
  const pid_t child = clone(become_filtered, stack + STACK_BYTES, CLONE_VM | CLONE_FILES | SIGCHLD, &opening);
  if (child < 0) return *reason = strerror(errno), -1;
  while ((listener = atomic_load(&opening.listener)) == PENDING) usleep(POLL_US);
  if (listener < 0) return *reason = strerror(-listener), -1;
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags); /* Linux 6.6: wakes on the same CPU */
  return child;
}

static bool is_32_bit(uint32_t architecture) {
  return !(architecture & __AUDIT_ARCH_64BIT) && sizeof(void *) == sizeof(uint64_t);
}

/* The bytes that a call asks for; 0 where it transfers none. What it returns is not seen. */
static uint64_t asked_bytes(const struct seccomp_data *call, const char *name) {
  static const char *const transfers[] = {"read", "write", "pread64", "pwrite64", "sendto", "recvfrom"};
  for (size_t i = 0; name && i < sizeof transfers / sizeof transfers[0]; i++)
    if (strcmp(name, transfers[i]) == 0) return call->args[2];
  return 0;
}

static void count(const struct seccomp_data *call, struct counts *counts) {
  static const uint64_t below[] = {1, 64, 4096, 65536};
  const bool is_32 = is_32_bit(call->arch);
  const unsigned number = call_place((unsigned)call->nr);
  const uint64_t bytes = asked_bytes(call, call_name(number, is_32));
  struct call_count *sizes = counts->calls[number + (is_32 ? CALLS_OF_ABI : 0)];
  unsigned size = NO_BYTES;
  while (size < LARGE && bytes >= below[size]) size++;
  sizes[size].count++;
  sizes[size].bytes += bytes;
}

void notified_serve(pid_t child, struct counts *counts) {
  struct seccomp_notif asked;
  struct pollfd waits[] = {{listener, POLLIN, 0}, {(int)syscall(SYS_pidfd_open, child, 0), POLLIN, 0}};
  while (poll(waits, 2, -1) > 0 || errno == EINTR) {
    if (!(waits[0].revents & POLLIN)) {
      if (waits[1].revents || (waits[0].revents & POLLHUP)) break;
      continue;
    }
    memset(&asked, 0, sizeof asked);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) continue;
    count(&asked.data, counts);
    struct seccomp_notif_resp goes_on = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &goes_on);
  }
  if (waits[1].fd >= 0) close(waits[1].fd);
}
