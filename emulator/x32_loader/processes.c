/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, processes and programs that the program starts. Dispatch ends with fork and with exec, so that each new thread
 * turns it on first.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "loader.h"

enum { BELOW_STACK = 512, MOST_WORDS = 1024 };
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

/* The registers of a call of clone(2), in the order of start.S. */
struct resumed {
  int64_t rbx, rbp, rdi, rsi, rdx, r8, r9, r10, r12, r13, r14, r15, rsp, rip;
};

long clone_onto(unsigned long flags, uintptr_t stack, uintptr_t parent, uintptr_t child, uintptr_t storage,
                struct resumed *resumed);
extern const char __executable_start[], __etext[];

/* All system calls but the loader's own are served. */
bool process_dispatch(void) {
  return NATIVE(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, __executable_start, __etext - __executable_start, 0) == 0;
}

static long forked(unsigned long flags, uintptr_t parent, uintptr_t child, uintptr_t storage) {
  const unsigned long own = flags & ~(unsigned long)(CLONE_VM | CLONE_VFORK);
  const uint64_t before = memory_lock(); /* else the child of a fork in another thread would find it locked for ever */
  const long result = NATIVE(SYS_clone, own, 0, parent, child, storage);
  memory_unlock(before);
  if (result == 0) {
    signals_forked();
    process_dispatch();
  }
  return result;
}

/* vfork(2) is served as fork(2): its child would return through this frame, below which the parent goes on. */
long process_clone(ucontext_t *context, unsigned long flags, uintptr_t stack, uintptr_t parent, uintptr_t child,
                   uintptr_t storage) {
  __atomic_fetch_add(&shared->started, 1, __ATOMIC_RELAXED);
  if (!stack) return forked(flags, parent, child, storage);
  const long long *from = context->uc_mcontext.gregs;
  struct resumed *resumed = (struct resumed *)((stack - BELOW_STACK) & -16ul);
  *resumed = (struct resumed){
      .rbx = from[REG_RBX],
      .rbp = from[REG_RBP],
      .rdi = from[REG_RDI],
      .rsi = from[REG_RSI],
      .rdx = from[REG_RDX],
      .r8 = from[REG_R8],
      .r9 = from[REG_R9],
      .r10 = from[REG_R10],
      .r12 = from[REG_R12],
      .r13 = from[REG_R13],
      .r14 = from[REG_R14],
      .r15 = from[REG_R15],
      .rsp = (int64_t)stack,
      .rip = from[REG_RIP],
  };
  /* A handler starts with the floating-point control words of a new process, but a thread inherits its creator's. */
  __asm__ volatile("fxrstor64 %0" : : "m"(*(const char(*)[512])context->uc_mcontext.fpregs));
  return clone_onto(flags, stack, parent, child, storage, resumed);
}

/* ---- exec ------------------------------------------------------------------------------------------------------- */

static bool is_x32(const char *path) {
  Elf32_Ehdr header;
  const long file = NATIVE(SYS_open, path, O_RDONLY | O_CLOEXEC);
  const long bytes = file < 0 ? file : NATIVE(SYS_read, file, &header, sizeof header);
  if (file >= 0) NATIVE(SYS_close, file);
  return bytes == sizeof header && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS32 && header.e_machine == EM_X86_64;
}

/* Widens a list of strings; -E2BIG where it does not fit. */
static long widened(address32 from, const char **to, unsigned most) {
  const address32 *list = at(from);
  unsigned count = 0;
  for (; list && list[count]; count++) {
    if (count + 1 >= most) return -E2BIG;
    to[count] = at(list[count]);
  }
  to[count] = NULL;
  return count;
}

/* A file that is named by its descriptor is opened by the loader, after exec has closed the close-on-exec
 * descriptors. */
static void keep_open(const char *name) {
  static const char form[] = "/proc/self/fd/";
  long file = 0;
  if (strncmp(name, form, sizeof form - 1) != 0) return;
  for (name += sizeof form - 1; *name >= '0' && *name <= '9'; name++) file = 10 * file + *name - '0';
  NATIVE(SYS_fcntl, file, F_SETFD, 0);
}

/* An x32 program is started by this loader again, which the kernel knows as the running executable. */
long process_exec(address32 path, address32 words, address32 environment) {
  const char *arguments[MOST_WORDS + 3], *variables[MOST_WORDS];
  __atomic_fetch_add(&shared->started, 1, __ATOMIC_RELAXED);
  const char *name = at(path);
  const long count = widened(words, arguments + 3, MOST_WORDS), others = widened(environment, variables, MOST_WORDS);
  if (count < 0 || others < 0) return -E2BIG;
  if (strcmp(name, "/proc/self/exe") == 0) name = program_path;
  if (!is_x32(name)) return NATIVE(SYS_execve, name, arguments + 3, variables);
  keep_open(name);
  arguments[0] = "x32-loader";
  arguments[1] = "--as";
  arguments[2] = count ? arguments[3] : name;
  arguments[3] = name;
  if (!count) arguments[4] = NULL;
  return NATIVE(SYS_execve, "/proc/self/exe", arguments, variables);
}
