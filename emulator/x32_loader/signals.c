/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals. The kernel delivers each in its native form, on a stack below 4 GiB, to a handler of the loader, which calls
 * the program's with the context that x32 has: struct ucontext_x32 and x32's siginfo of the kernel's arch/x86.
 *
 * SIGSYS serves the program's system calls. It is never blocked and never delivered to the program.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "loader.h"

enum { SIGNALS = 64, SA_HAS_RESTORER = 0x04000000, CALL_DISPATCHED = 2 };

struct native_action {
  uint64_t handler, flags, restorer, mask;
};
struct x32_action {
  uint32_t handler, flags, restorer, mask[2];
};
struct x32_context {
  uint32_t flags, link, stack, stack_flags, stack_bytes, padding;
  uint8_t registers[sizeof(mcontext_t)];
  uint64_t mask;
};
_Static_assert(sizeof(mcontext_t) == 256, "x32 has the registers of x86-64, with the same layout");

void return_from_signal(void);

static struct x32_action actions[SIGNALS + 1];
static long own_process; /* a child that shares this memory and not its handlers has natively what it set there */

static const uint64_t SYS_BIT = 1ull << (SIGSYS - 1);

void signals_forked(void) {
  own_process = NATIVE(SYS_getpid, 0);
}

static void put_kill(uint32_t *words, const siginfo_t *info) {
  words[3] = (uint32_t)info->si_pid;
  words[4] = info->si_uid;
}

/* x32's siginfo, 128 bytes: the fields follow si_code at once, since its pointers have 32 bits. */
void signal_info(void *out, const siginfo_t *info) {
  uint32_t *words = out;
  memset(words, 0, 128);
  words[0] = (uint32_t)info->si_signo;
  words[1] = (uint32_t)info->si_errno;
  words[2] = (uint32_t)info->si_code;
  if (info->si_signo == SIGCHLD && info->si_code > 0) {
    put_kill(words, info);
    words[5] = (uint32_t)info->si_status;
    memcpy(&words[6], &info->si_utime, sizeof(uint64_t));
    memcpy(&words[8], &info->si_stime, sizeof(uint64_t));
  } else if (info->si_code == SI_TIMER) {
    words[3] = (uint32_t)info->si_timerid;
    words[4] = (uint32_t)info->si_overrun;
    words[5] = (uint32_t)(uintptr_t)info->si_ptr;
  } else if (info->si_code <= 0 || info->si_code == SI_KERNEL) {
    put_kill(words, info);
    words[5] = (uint32_t)(uintptr_t)info->si_ptr;
  } else {
    words[3] = (uint32_t)(uintptr_t)info->si_addr;
    words[4] = (uint32_t)(uint16_t)info->si_addr_lsb;
  }
}

static void call_program(int number, siginfo_t *info, void *in) {
  ucontext_t *context = in;
  uint32_t info32[32];
  struct x32_context own = {.stack = (uint32_t)(uintptr_t)context->uc_stack.ss_sp,
                            .stack_flags = (uint32_t)context->uc_stack.ss_flags,
                            .stack_bytes = (uint32_t)context->uc_stack.ss_size};
  signal_info(info32, info);
  memcpy(own.registers, &context->uc_mcontext, sizeof own.registers);
  memcpy(&own.mask, &context->uc_sigmask, sizeof own.mask);
  const address32 address = actions[number].handler;
  void (*handler)(int, void *, void *) = at(address);
  __atomic_fetch_add(&shared->calls, 1, __ATOMIC_RELAXED);
  if (address > 1) handler(number, info32, &own); /* else it is just being taken away */
  memcpy(&context->uc_mcontext, own.registers, sizeof own.registers);
  own.mask &= ~SYS_BIT;
  memcpy(&context->uc_sigmask, &own.mask, sizeof own.mask);
}

static void serve_call(int number, siginfo_t *info, void *in) {
  (void)number;
  ucontext_t *context = in;
  if (info->si_code != CALL_DISPATCHED) return;
  long long *registers = context->uc_mcontext.gregs;
  registers[REG_RAX] = serve((long)(uint32_t)registers[REG_RAX], context);
}

static struct native_action natively(const struct x32_action *own) {
  const bool is_handler = own->handler > 1;
  uint64_t mask;
  memcpy(&mask, own->mask, sizeof mask);
  return (struct native_action){
      .handler = is_handler ? (uint64_t)(uintptr_t)call_program : own->handler,
      .flags = own->flags | (is_handler ? SA_HAS_RESTORER | SA_SIGINFO : 0u),
      .restorer = (uint64_t)(uintptr_t)return_from_signal,
      .mask = mask & ~SYS_BIT,
  };
}

/* rt_sigaction(2). Reads from the kernel whether a handler is set, since SA_RESETHAND and exec change it. */
long signals_action(int number, const void *action, void *old, size_t set_bytes) {
  struct native_action before, after;
  if (number < 1 || number > SIGNALS) return -EINVAL;
  const struct x32_action previous = actions[number];
  const bool is_own = NATIVE(SYS_getpid, 0) == own_process;
  struct x32_action next = previous;
  if (action) memcpy(&next, action, sizeof next);
  if (is_own) actions[number] = next; /* before the kernel delivers to it */
  if (number != SIGSYS) {
    after = natively(&next);
    const long result = NATIVE(SYS_rt_sigaction, number, action ? &after : NULL, &before, set_bytes);
    if (result < 0) {
      if (is_own) actions[number] = previous;
      return result;
    }
  }
  if (!old) return 0;
  struct x32_action *found = old;
  *found = previous;
  if (number != SIGSYS && before.handler <= 1) *found = (struct x32_action){.handler = (uint32_t)before.handler};
  return 0;
}

/* rt_sigprocmask(2): what the context holds is in force once the call is served. */
long signals_mask(ucontext_t *context, int how, const uint64_t *set, uint64_t *old) {
  uint64_t mask, change = 0;
  memcpy(&mask, &context->uc_sigmask, sizeof mask);
  if (set) memcpy(&change, set, sizeof change); /* may be the same as old */
  if (old) memcpy(old, &mask, sizeof mask);
  if (!set) return 0;
  if (how == SIG_BLOCK)
    mask |= change;
  else if (how == SIG_UNBLOCK)
    mask &= ~change;
  else if (how == SIG_SETMASK)
    mask = change;
  else
    return -EINVAL;
  mask &= ~SYS_BIT;
  memcpy(&context->uc_sigmask, &mask, sizeof mask);
  return 0;
}

/* sigaltstack(2): likewise. */
long signals_stack(ucontext_t *context, const uint32_t *stack, uint32_t *old) {
  stack_t *own = &context->uc_stack;
  if (old) {
    old[0] = (uint32_t)(uintptr_t)own->ss_sp;
    old[1] = (uint32_t)own->ss_flags;
    old[2] = (uint32_t)own->ss_size;
  }
  if (!stack) return 0;
  if (own->ss_flags & SS_ONSTACK) return -EPERM;
  *own = (stack_t){.ss_sp = at(stack[0]), .ss_flags = (int)stack[1], .ss_size = stack[2]};
  return 0;
}

bool signals_serve(void) {
  signals_forked();
  const struct native_action action = {
      .handler = (uint64_t)(uintptr_t)serve_call,
      .flags = SA_SIGINFO | SA_NODEFER | SA_HAS_RESTORER,
      .restorer = (uint64_t)(uintptr_t)return_from_signal,
  };
  return NATIVE(SYS_rt_sigaction, SIGSYS, &action, NULL, sizeof action.mask) == 0;
}
