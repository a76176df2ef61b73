/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of system calls (seccomp) as programs of a few instructions, put in force for the calling process and all that
 * it starts from then on. A filter cannot be taken back: it ends with the visit's process.
 */
#ifndef TOLL_KERNEL_FILTER_H
#define TOLL_KERNEL_FILTER_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"

enum { FILTER_MOST = 4096 }; /* BPF_MAXINSNS: the kernel takes no longer one */

struct filter {
  unsigned short count;
  struct sock_filter code[FILTER_MOST];
};

static inline void filter_add(struct filter *filter, unsigned short code, uint32_t operand, unsigned char then,
                              unsigned char otherwise) {
  filter->code[filter->count++] = (struct sock_filter){code, then, otherwise, operand};
}

static inline void filter_load(struct filter *filter, size_t offset) {
  filter_add(filter, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* The low half of an argument lies where the byte order puts it. */
static inline size_t filter_argument(unsigned index) {
  const size_t offset = offsetof(struct seccomp_data, args) + 8 * index;
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? offset + 4 : offset;
}

/* Returns an answer for calls whose loaded word is `value`; for all others the filter continues. */
static inline void filter_answer(struct filter *filter, uint32_t value, uint32_t answer) {
  filter_add(filter, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  filter_add(filter, BPF_RET | BPF_K, answer, 0, 0);
}

static inline void filter_end(struct filter *filter) {
  filter_add(filter, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/* Below zero with errno after a refusal; with SECCOMP_FILTER_FLAG_NEW_LISTENER a file, else 0. */
static inline long filter_enforce(struct filter *filter, unsigned flags) {
  struct sock_fprog program = {filter->count, filter->code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -1;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

#endif
