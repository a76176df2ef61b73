/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's system calls. Most take the same arguments as the native call of that number; those above 511 are x32's
 * forms of calls whose structures hold pointers or longs (arch/x86/entry/syscalls/syscall_64.tbl).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "loader.h"

enum {
  X32_SIGACTION = 512,
  X32_IOCTL = 514,
  X32_READV,
  X32_WRITEV,
  X32_RECVFROM,
  X32_SENDMSG,
  X32_RECVMSG,
  X32_EXECVE,
  X32_PTRACE,
  X32_SIGPENDING,
  X32_SIGTIMEDWAIT,
  X32_SIGQUEUEINFO,
  X32_SIGALTSTACK,
  X32_TIMER_CREATE,
  X32_WAITID = 529,
  X32_SET_ROBUST_LIST,
  X32_VMSPLICE = 532,
  X32_PREADV = 534,
  X32_PWRITEV,
  X32_TGSIGQUEUEINFO,
  X32_SETSOCKOPT = 541,
  X32_GETSOCKOPT,
  X32_EXECVEAT = 545
};
enum { MOST_PARTS = 256, EPOLL_PWAIT2 = 441 };

/* The program's argument i, as the kernel takes it. */
struct call {
  long number, of[6];
};

struct x32_message {
  address32 name;
  int32_t name_bytes;
  address32 parts;
  uint32_t count;
  address32 control;
  uint32_t control_bytes;
  uint32_t flags;
};

static long passed(long number, const struct call *call) {
  const long *of = call->of;
  return native_6(number, of[0], of[1], of[2], of[3], of[4], of[5]);
}

/* ---- parts of a message -------------------------------------------------------------------------------------------- */

static long widen(address32 from, uint32_t count, struct iovec *parts) {
  const uint32_t *words = at(from);
  if (count > MOST_PARTS) return -EINVAL;
  for (uint32_t i = 0; i < count; i++) parts[i] = (struct iovec){at(words[2 * i]), words[2 * i + 1]};
  return 0;
}

static long vector_call(long number, struct call call) {
  struct iovec parts[MOST_PARTS];
  const long failed = widen((address32)call.of[1], (uint32_t)call.of[2], parts);
  call.of[1] = (long)parts;
  return failed ? failed : passed(number, &call);
}

/* Messages without control data, whose layout differs: no probe that is timed here sends any. */
static long message_call(long number, struct call call) {
  struct x32_message *own = at((uint64_t)call.of[1]);
  struct iovec parts[MOST_PARTS];
  const long failed = own->control_bytes ? -EOPNOTSUPP : widen(own->parts, own->count, parts);
  if (failed) return failed;
  struct msghdr message = {
      .msg_name = at(own->name), .msg_namelen = (socklen_t)own->name_bytes, .msg_iov = parts, .msg_iovlen = own->count};
  call.of[1] = (long)&message;
  const long result = passed(number, &call);
  if (result >= 0 && number == SYS_recvmsg) {
    own->name_bytes = (int32_t)message.msg_namelen;
    own->control_bytes = 0;
    own->flags = (uint32_t)message.msg_flags;
  }
  return result;
}

/* ---- signals, timers, children ---------------------------------------------------------------------------------------- */

/* The signal mask of a waiting call: SIGSYS stays unblocked, for handlers that run meanwhile. */
static long masked(long number, struct call call, unsigned which) {
  uint64_t mask;
  if (call.of[which]) {
    memcpy(&mask, at((uint64_t)call.of[which]), sizeof mask);
    mask &= ~(1ull << (SIGSYS - 1));
    call.of[which] = (long)&mask;
  }
  return passed(number, &call);
}

/* pselect6(2) has its mask in a structure of two words. */
static long select_call(struct call call) {
  uint64_t words[2], mask;
  if (call.of[5]) {
    memcpy(words, at((uint64_t)call.of[5]), sizeof words);
    if (words[0]) {
      memcpy(&mask, at(words[0]), sizeof mask);
      mask &= ~(1ull << (SIGSYS - 1));
      words[0] = (uint64_t)(uintptr_t)&mask;
    }
    call.of[5] = (long)words;
  }
  return passed(SYS_pselect6, &call);
}

static long timer_call(struct call call) {
  const uint32_t *own = at((uint64_t)call.of[1]);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL};
  if (own) {
    event.sigev_value.sival_ptr = at(own[0]);
    event.sigev_signo = (int)own[1];
    event.sigev_notify = (int)own[2];
    memcpy((char *)&event + 16, &own[3], sizeof own[3]); /* SIGEV_THREAD_ID */
    call.of[1] = (long)&event;
  }
  return passed(SYS_timer_create, &call);
}

/* waitid(2) and rt_sigtimedwait(2): which: the argument that a siginfo is written to. */
static long informed(long number, struct call call, unsigned which) {
  siginfo_t info;
  void *own = at((uint64_t)call.of[which]);
  memset(&info, 0, sizeof info);
  if (own) call.of[which] = (long)&info;
  const long result = passed(number, &call);
  if (own && result >= 0) signal_info(own, &info);
  return result;
}

static long queued(long number, struct call call, unsigned which) {
  const uint32_t *own = at((uint64_t)call.of[which]);
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_signo = (int)own[0];
  info.si_code = (int)own[2];
  info.si_pid = (pid_t)own[3];
  info.si_uid = own[4];
  info.si_ptr = at(own[5]);
  call.of[which] = (long)&info;
  return passed(number, &call);
}

/* PTRACE_PEEK reads a word of the width of x32's long. */
static long trace_call(struct call call) {
  uint64_t word = 0;
  uint32_t *own = at((uint64_t)call.of[3]);
  const long request = call.of[0];
  const bool peeks = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER ||
                     request == PTRACE_GETEVENTMSG;
  if (request == PTRACE_GETSIGINFO) return informed(SYS_ptrace, call, 3);
  if (!peeks) return passed(SYS_ptrace, &call);
  call.of[3] = (long)&word;
  const long result = passed(SYS_ptrace, &call);
  if (result >= 0) *own = (uint32_t)word;
  return result;
}

/* ---- paths -------------------------------------------------------------------------------------------------------------- */

/* The running program is the loader's file to the kernel. which: the argument that is a path. */
static long of_path(long number, struct call call, unsigned which) {
  const char *path = at((uint64_t)call.of[which]);
  if (path && strcmp(path, "/proc/self/exe") == 0) {
    call.of[which] = (long)program_path;
    if (number == SYS_readlink || number == SYS_readlinkat) {
      const size_t bytes = strlen(program_path), most = (size_t)call.of[which + 2];
      memcpy(at((uint64_t)call.of[which + 1]), program_path, bytes < most ? bytes : most);
      return (long)(bytes < most ? bytes : most);
    }
  }
  return passed(number, &call);
}

/* ---- all ------------------------------------------------------------------------------------------------------------------ */

static long unserved(long number) {
  complain("x32-loader: this system call is not served, and fails:", number);
  return -ENOSYS;
}

static long x32_call(const struct call *call, ucontext_t *context) {
  const long *of = call->of;
  switch (call->number) {
    case X32_SIGACTION: return signals_action((int)of[0], at((uint64_t)of[1]), at((uint64_t)of[2]), (size_t)of[3]);
    case X32_IOCTL: return passed(SYS_ioctl, call);
    case X32_READV: return vector_call(SYS_readv, *call);
    case X32_WRITEV: return vector_call(SYS_writev, *call);
    case X32_PREADV: return vector_call(SYS_preadv, *call);
    case X32_PWRITEV: return vector_call(SYS_pwritev, *call);
    case X32_VMSPLICE: return vector_call(SYS_vmsplice, *call);
    case X32_RECVFROM: return passed(SYS_recvfrom, call);
    case X32_SENDMSG: return message_call(SYS_sendmsg, *call);
    case X32_RECVMSG: return message_call(SYS_recvmsg, *call);
    case X32_EXECVE: return process_exec((address32)of[0], (address32)of[1], (address32)of[2]);
    case X32_PTRACE: return trace_call(*call);
    case X32_SIGPENDING: return passed(SYS_rt_sigpending, call);
    case X32_SIGTIMEDWAIT: return informed(SYS_rt_sigtimedwait, *call, 1);
    case X32_SIGQUEUEINFO: return queued(SYS_rt_sigqueueinfo, *call, 2);
    case X32_TGSIGQUEUEINFO: return queued(SYS_rt_tgsigqueueinfo, *call, 3);
    case X32_SIGALTSTACK: return signals_stack(context, at((uint64_t)of[0]), at((uint64_t)of[1]));
    case X32_TIMER_CREATE: return timer_call(*call);
    case X32_WAITID: return informed(SYS_waitid, *call, 2);
    case X32_SET_ROBUST_LIST: return 0; /* the kernel would read it when a thread dies, in its native form */
    case X32_SETSOCKOPT: return passed(SYS_setsockopt, call);
    case X32_GETSOCKOPT: return passed(SYS_getsockopt, call);
    case X32_EXECVEAT: return -ENOSYS; /* C libraries then name the file by /proc */
    default: return unserved(call->number);
  }
}

static bool places_memory_itself(long number) {
  return number == SYS_shmat || number == SYS_io_setup || number == SYS_seccomp || number == SYS_kexec_load;
}

struct shared *shared;

/* The result of a call, or a negative errno. */
long serve(long number, ucontext_t *context) {
  __atomic_fetch_add(&shared->calls, 1, __ATOMIC_RELAXED);
  const long long *from = context->uc_mcontext.gregs;
  const struct call call = {number & ~X32_CALL,
                            {from[REG_RDI], from[REG_RSI], from[REG_RDX], from[REG_R10], from[REG_R8], from[REG_R9]}};
  const long *of = call.of;
  if (call.number >= X32_SIGACTION) return x32_call(&call, context);
  switch (call.number) {
    case SYS_mmap: return memory_map((uintptr_t)of[0], (size_t)of[1], of[2], of[3], of[4], of[5]);
    case SYS_munmap: return memory_unmap((uintptr_t)of[0], (size_t)of[1]);
    case SYS_mremap: return memory_remap((uintptr_t)of[0], (size_t)of[1], (size_t)of[2], of[3], (uintptr_t)of[4]);
    case SYS_brk: return memory_break((uintptr_t)of[0]);
    case SYS_rt_sigprocmask: return signals_mask(context, (int)of[0], at((uint64_t)of[1]), at((uint64_t)of[2]));
    case SYS_rt_sigsuspend: return masked(call.number, call, 0);
    case SYS_ppoll: return masked(call.number, call, 3);
    case SYS_epoll_pwait:
    case EPOLL_PWAIT2: return masked(call.number, call, 4);
    case SYS_pselect6: return select_call(call);
    case SYS_clone:
      return process_clone(context, (unsigned long)of[0], (uintptr_t)of[1], (uintptr_t)of[2], (uintptr_t)of[3],
                           (uintptr_t)of[4]);
    case SYS_fork:
    case SYS_vfork: return process_clone(context, SIGCHLD, 0, 0, 0, 0);
    case SYS_clone3: return -ENOSYS; /* C libraries then call clone(2) */
    case SYS_open:
    case SYS_readlink: return of_path(call.number, call, 0);
    case SYS_openat:
    case SYS_readlinkat: return of_path(call.number, call, 1);
    default: return places_memory_itself(call.number) ? unserved(call.number) : passed(call.number, &call);
  }
}
