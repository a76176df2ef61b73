/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls: those that a static program of one process needs. Their numbers and structures are Linux's for this CPU;
 * what each does is in its manual page. All others are answered with ENOSYS.
 */
#include <asm/mman.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/sysinfo.h>

#include "calls.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uintptr_t heap_end;

static uintptr_t whole_pages(uintptr_t bytes) {
  return (bytes + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
}

static intptr_t call_brk(registers *core) {
  const uintptr_t wanted = ARGUMENT(core, 0), old = whole_pages(heap_end), new = whole_pages(wanted);
  if (wanted < load_break() || wanted >= MAPPINGS_END) return (intptr_t)heap_end;
  for (uintptr_t page = old; page < new; page += PAGE_BYTES)
    if (memory_protect(page, PAGE_BYTES, MAY_READ | MAY_WRITE)) return (intptr_t)heap_end; /* a mapping is there */
  if (new > old) memory_promise(old, new - old, MAY_READ | MAY_WRITE);
  if (new < old) memory_release(new, old - new);
  heap_end = wanted;
  return (intptr_t)wanted;
}

static bool is_range(uintptr_t start, uintptr_t bytes) {
  return start % PAGE_BYTES == 0 && start < PROGRAM_END && bytes <= PROGRAM_END - start;
}

static intptr_t call_mmap(registers *core) {
  const uintptr_t bytes = whole_pages(ARGUMENT(core, 1)), flags = ARGUMENT(core, 3);
  if (!(flags & MAP_ANONYMOUS)) return -ENODEV;
  if (!bytes || bytes < ARGUMENT(core, 1)) return -EINVAL;
  const uintptr_t start = flags & MAP_FIXED ? ARGUMENT(core, 0) : memory_find(bytes);
  if (flags & MAP_FIXED ? !is_range(start, bytes) : !start) return -ENOMEM;
  memory_promise(start, bytes, (unsigned)ARGUMENT(core, 2));
  return (intptr_t)start;
}

static intptr_t call_munmap(registers *core) {
  const uintptr_t bytes = whole_pages(ARGUMENT(core, 1));
  if (!is_range(ARGUMENT(core, 0), bytes) || !bytes) return -EINVAL;
  memory_release(ARGUMENT(core, 0), bytes);
  return 0;
}

static intptr_t call_mprotect(registers *core) {
  const uintptr_t bytes = whole_pages(ARGUMENT(core, 1));
  if (!is_range(ARGUMENT(core, 0), bytes)) return -EINVAL;
  return memory_protect(ARGUMENT(core, 0), bytes, (unsigned)ARGUMENT(core, 2)) ? 0 : -ENOMEM;
}

/* Other advice is nothing that could be followed here. */
static intptr_t call_madvise(registers *core) {
  const uintptr_t bytes = whole_pages(ARGUMENT(core, 1));
  if (!is_range(ARGUMENT(core, 0), bytes)) return -EINVAL;
  if (ARGUMENT(core, 2) == MADV_HUGEPAGE) return -EINVAL;
  if (ARGUMENT(core, 2) == MADV_DONTNEED) memory_forget(ARGUMENT(core, 0), bytes);
  return 0;
}

/* ---- the process -------------------------------------------------------------------------------------------------- */

enum { PARENT = 1, OWN = 2 };

static intptr_t call_exit(registers *core) {
  bare_ended((int)(ARGUMENT(core, 0) & 0xff) << 8);
}

static intptr_t nothing(registers *core) {
  (void)core;
  return 0;
}

static intptr_t call_getpid(registers *core) {
  (void)core;
  return OWN;
}

static intptr_t call_getppid(registers *core) {
  (void)core;
  return PARENT;
}

static intptr_t raise_own(uintptr_t process, uintptr_t number) {
  if (process != OWN) return -ESRCH;
  if (number > 64) return -EINVAL;
  if (number) signals_raise((int)number);
  return 0;
}

static intptr_t call_kill(registers *core) {
  return raise_own(ARGUMENT(core, 0), ARGUMENT(core, 1));
}

static intptr_t call_tgkill(registers *core) {
  return ARGUMENT(core, 0) == OWN ? raise_own(ARGUMENT(core, 1), ARGUMENT(core, 2)) : -ESRCH;
}

static intptr_t call_prctl(registers *core) {
  return ARGUMENT(core, 0) == PR_SET_PDEATHSIG || ARGUMENT(core, 0) == PR_SET_NAME ? 0 : -EINVAL;
}

/* There is no other thread to wake this one. */
static intptr_t call_futex(registers *core) {
  enum { WAIT, WAKE, PRIVATE = 128, REALTIME = 256, WAIT_BITS = 9, WAKE_BITS = 10 };
  const uintptr_t command = ARGUMENT(core, 1) & ~(uintptr_t)(PRIVATE | REALTIME);
  const uint32_t *word = memory_of_program(ARGUMENT(core, 0), 4, MAY_READ);
  if (!word) return -EFAULT;
  if (command == WAKE || command == WAKE_BITS) return 0;
  return (command == WAIT || command == WAIT_BITS) && *word != (uint32_t)ARGUMENT(core, 2) ? -EAGAIN : -ENOSYS;
}

/* ---- what the machine is ----------------------------------------------------------------------------------------- */

/* A C library refuses a kernel that says it is older than the library likes: the number is Linux's, whose calls these are. */
static intptr_t call_uname(registers *core) {
  enum { FIELD = 65 };
  static const char *const fields[] = {"bare supervisor, calls as of Linux", "bare", "6.1", "1", MACHINE, ""};
  char *result = memory_of_program(ARGUMENT(core, 0), sizeof fields / sizeof fields[0] * FIELD, MAY_WRITE);
  if (!result) return -EFAULT;
  memset(result, 0, sizeof fields / sizeof fields[0] * FIELD);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    memcpy(result + i * FIELD, fields[i], strlen(fields[i]));
  return 0;
}

static intptr_t call_sysinfo(registers *core) {
  struct sysinfo *result = memory_of_program(ARGUMENT(core, 0), sizeof *result, MAY_WRITE);
  if (!result) return -EFAULT;
  memset(result, 0, sizeof *result);
  result->totalram = memory_total();
  result->freeram = memory_left();
  result->mem_unit = 1;
  return 0;
}

static intptr_t call_getrusage(registers *core) {
  struct rusage *result = memory_of_program(ARGUMENT(core, 1), sizeof *result, MAY_WRITE);
  const struct bare_time now = clock_time();
  if (!result) return -EFAULT;
  memset(result, 0, sizeof *result);
  result->ru_utime.tv_sec = (long)now.seconds;
  result->ru_utime.tv_usec = (long)(now.ns / 1000);
  result->ru_maxrss = (long)memory_most_pages() * (PAGE_BYTES / 1024);
  result->ru_minflt = (long)memory_faults();
  return 0;
}

static intptr_t call_getrlimit(registers *core) {
  uintptr_t *result = memory_of_program(ARGUMENT(core, 1), sizeof(uintptr_t[2]), MAY_WRITE);
  if (!result) return -EFAULT;
  result[0] = result[1] = ARGUMENT(core, 0) == RLIMIT_STACK ? STACK_BYTES : UINTPTR_MAX;
  return 0;
}

/* Words of 64 bits on every CPU. Only asks: nothing here could be limited. */
static intptr_t call_prlimit64(registers *core) {
  uint64_t *result = memory_of_program(ARGUMENT(core, 3), sizeof(uint64_t[2]), MAY_WRITE);
  if (ARGUMENT(core, 2)) return -EPERM;
  if (!result) return -EFAULT;
  result[0] = result[1] = ARGUMENT(core, 1) == RLIMIT_STACK ? STACK_BYTES : UINT64_MAX;
  return 0;
}

static intptr_t call_getaffinity(registers *core) {
  uintptr_t *result = memory_of_program(ARGUMENT(core, 2), sizeof *result, MAY_WRITE);
  if (!result) return -EFAULT;
  *result = 1;
  return sizeof *result;
}

static intptr_t call_setaffinity(registers *core) {
  const uint32_t *wanted = memory_of_program(ARGUMENT(core, 2), sizeof *wanted, MAY_READ);
  if (!wanted) return -EFAULT;
  return *wanted & 1 ? 0 : -EINVAL;
}

static intptr_t call_getcpu(registers *core) {
  for (int i = 0; i < 2; i++) {
    uint32_t *result = memory_of_program(ARGUMENT(core, i), sizeof *result, MAY_WRITE);
    if (result) *result = 0;
  }
  return 0;
}

/* The same each time, as all else is here; nothing that is measured rests on its being unknown. */
static intptr_t call_getrandom(registers *core) {
  uint8_t *result = memory_of_program(ARGUMENT(core, 0), ARGUMENT(core, 1), MAY_WRITE);
  uint32_t state = 0x2545f491;
  if (!result) return -EFAULT;
  for (uintptr_t i = 0; i < ARGUMENT(core, 1); i++) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5; /* Marsaglia's xorshift */
    result[i] = (uint8_t)state;
  }
  return (intptr_t)ARGUMENT(core, 1);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static call *const calls[] = {[__NR_exit] = call_exit,
                              [__NR_exit_group] = call_exit,
                              [__NR_openat] = call_openat,
                              [__NR_close] = call_close,
                              [__NR_read] = call_read,
                              [__NR_pread64] = call_pread,
                              [__NR_write] = call_write,
                              [__NR_writev] = call_writev,
                              [__NR_brk] = call_brk,
                              [__NR_munmap] = call_munmap,
                              [__NR_mprotect] = call_mprotect,
                              [__NR_madvise] = call_madvise,
                              [__NR_clock_gettime] = call_clock_gettime,
                              [__NR_gettimeofday] = call_gettimeofday,
                              [__NR_setitimer] = call_setitimer,
                              [__NR_nanosleep] = call_nanosleep,
                              [__NR_clock_nanosleep] = call_clock_nanosleep,
                              [__NR_rt_sigaction] = signals_call_action,
                              [__NR_rt_sigprocmask] = signals_call_mask,
                              [__NR_rt_sigpending] = signals_call_pending,
                              [__NR_sigaltstack] = signals_call_stack,
                              [__NR_rt_sigreturn] = signals_call_rt_return,
                              [__NR_getpid] = call_getpid,
                              [__NR_gettid] = call_getpid,
                              [__NR_set_tid_address] = call_getpid,
                              [__NR_getppid] = call_getppid,
                              [__NR_sched_yield] = nothing,
                              [__NR_kill] = call_kill,
                              [__NR_tgkill] = call_tgkill,
                              [__NR_tkill] = call_kill,
                              [__NR_prctl] = call_prctl,
                              [__NR_futex] = call_futex,
                              [__NR_uname] = call_uname,
                              [__NR_sysinfo] = call_sysinfo,
                              [__NR_getrusage] = call_getrusage,
                              [__NR_sched_getaffinity] = call_getaffinity,
                              [__NR_sched_setaffinity] = call_setaffinity,
                              [__NR_getcpu] = call_getcpu,
                              [__NR_getrandom] = call_getrandom,
                              CALLS_OF_ARCH};

void bare_call(registers *core) {
  const uintptr_t number = core->r[CALL_NUMBER];
  call *wanted = number < sizeof calls / sizeof calls[0] ? calls[number] : call_of_arch(number);
  ARGUMENT(core, 0) = (uintptr_t)(wanted ? wanted(core) : -ENOSYS);
  if (signals_wait()) signals_deliver(core);
}

void bare_interrupt(registers *core) {
  board_attend_interrupts();
  calls_attend_timer();
  if (signals_wait() && !core_is_taken()) signals_deliver(core);
}

void calls_clear(struct bare_file program, struct bare_file archive) {
  files_clear(program, archive);
  timer_clear();
  heap_end = load_break();
}
