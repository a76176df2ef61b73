/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a static x32 executable on a kernel that does not know x32: 64-bit mode with 32-bit pointers needs the kernel only
 * for its system calls and for exec. The program's code runs natively below 4 GiB. Its system calls raise SIGSYS (Syscall
 * User Dispatch, Linux 5.11, Documentation/admin-guide/syscall-user-dispatch.rst), and this loader, which lies above
 * 4 GiB, makes the native call in their place. Structures with pointers are translated as the kernel's arch/x86 does.
 *
 * The loader has no C library: its code runs in the middle of the program's, whose thread-local storage is not its own,
 * and it must not use vector registers, which a new thread inherits.
 */
#ifndef X32_LOADER_H
#define X32_LOADER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#pragma GCC visibility push(hidden) /* nothing is bound at run time */

typedef uint32_t address32; /* a pointer of the program */

enum { PAGE = 4096, X32_CALL = 0x40000000 };
#define STACK_TOP   0xffffe000ul /* where the kernel ends an x32 process's addresses: IA32_PAGE_OFFSET */
#define STACK_BYTES (8ul << 20)

static inline uintptr_t page_down(uintptr_t value) {
  return value & -(uintptr_t)PAGE;
}
static inline uintptr_t page_up(uintptr_t value) {
  return page_down(value + PAGE - 1);
}
static inline void *at(uint64_t address) {
  return (void *)(uintptr_t)(address32)address;
}

/* A native system call: its result, or a negative errno. */
long native_6(long number, long a, long b, long c, long d, long e, long f);
#define NATIVE(number, ...)               NATIVE_(number, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define NATIVE_(n, a, b, c, d, e, f, ...) native_6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* Prints one sentence on stderr. number: appended, unless negative. */
void complain(const char *sentence, long number);

/* memory.c: the addresses below 4 GiB, handed out from the top as the kernel does, so that mappings join as there. */
void memory_reserve(uintptr_t start, uintptr_t bytes);
void memory_set_break(uintptr_t start, bool is_native);
long memory_map(uintptr_t start, size_t bytes, long protection, long flags, long file, long offset);
long memory_unmap(uintptr_t start, size_t bytes);
long memory_remap(uintptr_t old, size_t old_bytes, size_t bytes, long flags, uintptr_t new);
long memory_break(uintptr_t end);
uint64_t memory_lock(void); /* all signals are blocked until memory_unlock() gets what this returns */
void memory_unlock(uint64_t before);

/* signals.c: handlers of the program, called with the context that x32 has. */
long signals_action(int number, const void *action, void *old, size_t set_bytes);
long signals_mask(ucontext_t *context, int how, const uint64_t *set, uint64_t *old);
long signals_stack(ucontext_t *context, const uint32_t *stack, uint32_t *old);
void signals_forked(void);
void signal_info(void *out, const siginfo_t *info);
bool signals_serve(void);

/* processes.c */
long process_clone(ucontext_t *context, unsigned long flags, uintptr_t stack, uintptr_t parent, uintptr_t child,
                   uintptr_t storage);
long process_exec(address32 path, address32 words, address32 environment);
bool process_dispatch(void);
extern char program_path[];

/* calls.c */
struct shared {     /* a page that the program can read: TOLL_SERVED in its environment is its address */
  uint64_t calls;   /* and handlers of signals, which the loader calls in the kernel's place */
  uint64_t started; /* processes, threads and programs: what is served to these is counted elsewhere */
};
extern struct shared *shared;
long serve(long number, ucontext_t *context);

#endif
