/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a program to which the system calls of these numbers are forbidden, as a container's sandbox does it: EPERM.
 *
 *   forbidding [--kill | --lack | --only] NUMBER... -- PROGRAM ARGUMENT...
 *
 * With --kill the process that makes the call ends, as under systemd's SystemCallFilter. With --lack the kernel does not
 * have these calls: ENOSYS. With --only it has these and no other.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST = 64 };

int main(int count, char **words) {
  struct sock_filter code[2 * MOST + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  const int kills = count > 1 && strcmp(words[1], "--kill") == 0;
  const int allows = count > 1 && strcmp(words[1], "--only") == 0;
  const int lacks = count > 1 && strcmp(words[1], "--lack") == 0;
  const unsigned refused = kills ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (lacks ? ENOSYS : EPERM);
  unsigned short length = 1;
  int at = 1 + kills + lacks + allows;
  for (; at < count && at < MOST && strcmp(words[at], "--") != 0; at++) {
    const unsigned number = (unsigned)strtoul(words[at], NULL, 10);
    code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, allows ? SECCOMP_RET_ALLOW : refused);
  }
  code[length++] =
      (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, allows ? SECCOMP_RET_ERRNO | ENOSYS : SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {.len = length, .filter = code};
  if (at + 1 >= count || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return 125;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) return 125;
  execv(words[at + 1], words + at + 1);
  return 126;
}
