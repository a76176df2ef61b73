/* SPDX-License-Identifier: Apache-2.0
 *
 * The register of a signal's machine context that holds the result of a system call: a handler of SIGSYS stores its
 * result there.
 */
#ifndef TOLL_KERNEL_ANSWER_H
#define TOLL_KERNEL_ANSWER_H

#include <stdbool.h>
#include <ucontext.h>

#if defined(__x86_64__)
#define ANSWER_REGISTER gregs[REG_RAX]
#elif defined(__i386__)
#define ANSWER_REGISTER gregs[REG_EAX]
#elif defined(__aarch64__)
#define ANSWER_REGISTER regs[0]
#elif defined(__arm__)
#define ANSWER_REGISTER arm_r0
#elif defined(__riscv)
#define ANSWER_REGISTER __gregs[REG_A0]
#elif defined(__loongarch__)
#define ANSWER_REGISTER __gregs[4] /* a0 */
#elif defined(__s390x__)
#define ANSWER_REGISTER gregs[2]
#endif

#ifdef ANSWER_REGISTER
enum { ANSWER_KNOWN = true };
static inline void answer_in_context(void *context, long answer) {
  ((ucontext_t *)context)->uc_mcontext.ANSWER_REGISTER = (unsigned long)answer;
}
#else
enum { ANSWER_KNOWN = false };
static inline void answer_in_context(void *context, long answer) {
  (void)context, (void)answer;
}
#endif

#endif
