/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls: those that a static program of one process needs. Their numbers and structures are Linux's for ARM EABI;
 * what each does is told in its manual page. All others are answered with ENOSYS.
 */
#include <asm/mman.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/prctl.h>
#include <linux/resource.h>

#include "../custom_vectors.h"
#include "calls.h"
#include "limits/limits.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uint32_t heap_end;

static uint32_t whole_pages(uint32_t bytes) {
  return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1u);
}

static int32_t call_brk(struct fpa_core *core) {
  const uint32_t wanted = core->r[0], old = whole_pages(heap_end), new = whole_pages(wanted);
  if (wanted < load_break() || wanted >= MAPPINGS_END) return (int32_t)heap_end;
  for (uint32_t page = old; page < new; page += PAGE_BYTES)
    if (memory_protect(page, PAGE_BYTES, MAY_READ | MAY_WRITE)) return (int32_t)heap_end; /* a mapping is there */
  if (new > old) memory_promise(old, new - old, MAY_READ | MAY_WRITE);
  if (new < old) memory_release(new, old - new);
  heap_end = wanted;
  return (int32_t)wanted;
}

static bool is_range(uint32_t start, uint32_t bytes) {
  return start % PAGE_BYTES == 0 && start < PROGRAM_END && bytes <= PROGRAM_END - start;
}

static int32_t call_mmap2(struct fpa_core *core) {
  const uint32_t bytes = whole_pages(core->r[1]), flags = core->r[3];
  if (!(flags & MAP_ANONYMOUS)) return -ENODEV;
  if (!bytes || bytes < core->r[1]) return -EINVAL;
  const uint32_t start = flags & MAP_FIXED ? core->r[0] : memory_find(bytes);
  if (flags & MAP_FIXED ? !is_range(start, bytes) : !start) return -ENOMEM;
  memory_promise(start, bytes, core->r[2]);
  return (int32_t)start;
}

static int32_t call_munmap(struct fpa_core *core) {
  const uint32_t bytes = whole_pages(core->r[1]);
  if (!is_range(core->r[0], bytes) || !bytes) return -EINVAL;
  memory_release(core->r[0], bytes);
  return 0;
}

static int32_t call_mprotect(struct fpa_core *core) {
  const uint32_t bytes = whole_pages(core->r[1]);
  if (!is_range(core->r[0], bytes)) return -EINVAL;
  return memory_protect(core->r[0], bytes, core->r[2]) ? 0 : -ENOMEM;
}

/* Other advice is nothing that could be followed here. */
static int32_t call_madvise(struct fpa_core *core) {
  const uint32_t bytes = whole_pages(core->r[1]);
  if (!is_range(core->r[0], bytes)) return -EINVAL;
  if (core->r[2] == MADV_HUGEPAGE) return -EINVAL;
  if (core->r[2] == MADV_DONTNEED) memory_forget(core->r[0], bytes);
  return 0;
}

static int32_t call_cacheflush(struct fpa_core *core) {
  if (!memory_of_program(core->r[0], core->r[1] - core->r[0], MAY_READ)) return -EFAULT;
  memory_publish(core->r[0], core->r[1] - core->r[0]);
  return 0;
}

/* ---- the process -------------------------------------------------------------------------------------------------- */

enum { PARENT = 1, OWN = 2 };

static int32_t call_exit(struct fpa_core *core) {
  bare_ended((int)(core->r[0] & 0xff) << 8);
}

static int32_t nothing(struct fpa_core *core) {
  (void)core;
  return 0;
}

static int32_t call_getpid(struct fpa_core *core) {
  (void)core;
  return OWN;
}

static int32_t call_getppid(struct fpa_core *core) {
  (void)core;
  return PARENT;
}

static int32_t raise_own(uint32_t process, uint32_t number) {
  if (process != OWN) return -ESRCH;
  if (number > 64) return -EINVAL;
  if (number) signals_raise((int)number);
  return 0;
}

static int32_t call_kill(struct fpa_core *core) {
  return raise_own(core->r[0], core->r[1]);
}

static int32_t call_tgkill(struct fpa_core *core) {
  return core->r[0] == OWN ? raise_own(core->r[1], core->r[2]) : -ESRCH;
}

static int32_t call_prctl(struct fpa_core *core) {
  return core->r[0] == PR_SET_PDEATHSIG || core->r[0] == PR_SET_NAME ? 0 : -EINVAL;
}

static int32_t call_set_tls(struct fpa_core *core) {
  __asm__ volatile("mcr p15, 0, %0, c13, c0, 3" ::"r"(core->r[0])); /* TPIDRURO */
  return 0;
}

/* Nobody else is there to wake this one. */
static int32_t call_futex(struct fpa_core *core) {
  enum { WAIT, WAKE, PRIVATE = 128, REALTIME = 256, WAIT_BITS = 9, WAKE_BITS = 10 };
  const uint32_t command = core->r[1] & ~(uint32_t)(PRIVATE | REALTIME);
  const uint32_t *word = memory_of_program(core->r[0], 4, MAY_READ);
  if (!word) return -EFAULT;
  if (command == WAKE || command == WAKE_BITS) return 0;
  return (command == WAIT || command == WAIT_BITS) && *word != core->r[2] ? -EAGAIN : -ENOSYS;
}

/* ---- what the machine is ----------------------------------------------------------------------------------------- */

/* A C library refuses a kernel that says it is older than the library likes: the number is Linux's, whose calls these are. */
static int32_t call_uname(struct fpa_core *core) {
  enum { FIELD = 65 };
  static const char *const fields[] = {"bare supervisor, calls as of Linux", "bare", "6.1", "1", "armv7l", ""};
  char *told = memory_of_program(core->r[0], sizeof fields / sizeof fields[0] * FIELD, MAY_WRITE);
  if (!told) return -EFAULT;
  memset(told, 0, sizeof fields / sizeof fields[0] * FIELD);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) memcpy(told + i * FIELD, fields[i], strlen(fields[i]));
  return 0;
}

static int32_t call_sysinfo(struct fpa_core *core) {
  enum { TOTAL = 4, FREE = 5, UNIT = 13, WORDS = 16 };
  uint32_t *told = memory_of_program(core->r[0], WORDS * 4, MAY_WRITE);
  if (!told) return -EFAULT;
  memset(told, 0, WORDS * 4);
  told[TOTAL] = memory_total();
  told[FREE] = memory_left();
  told[UNIT] = 1;
  return 0;
}

static int32_t call_getrusage(struct fpa_core *core) {
  enum { USER_SECONDS, USER_MICROSECONDS, MOST_KIB = 4, MINOR_FAULTS = 8, WORDS = 18 };
  uint32_t *told = memory_of_program(core->r[1], WORDS * 4, MAY_WRITE);
  struct bare_time now = clock_time();
  if (!told) return -EFAULT;
  memset(told, 0, WORDS * 4);
  told[USER_SECONDS] = now.seconds;
  told[USER_MICROSECONDS] = now.ns / 1000;
  told[MOST_KIB] = memory_most_pages() * (PAGE_BYTES / 1024);
  told[MINOR_FAULTS] = memory_faults();
  return 0;
}

static int32_t call_getrlimit(struct fpa_core *core) {
  uint32_t *told = memory_of_program(core->r[1], 8, MAY_WRITE);
  if (!told) return -EFAULT;
  told[0] = told[1] = core->r[0] == RLIMIT_STACK ? STACK_BYTES : UINT32_MAX;
  return 0;
}

static int32_t call_getaffinity(struct fpa_core *core) {
  uint32_t *told = memory_of_program(core->r[2], 4, MAY_WRITE);
  if (!told) return -EFAULT;
  *told = 1;
  return 4;
}

static int32_t call_setaffinity(struct fpa_core *core) {
  const uint32_t *wanted = memory_of_program(core->r[2], 4, MAY_READ);
  if (!wanted) return -EFAULT;
  return *wanted & 1 ? 0 : -EINVAL;
}

static int32_t call_getcpu(struct fpa_core *core) {
  for (int i = 0; i < 2; i++) {
    uint32_t *told = memory_of_program(core->r[i], 4, MAY_WRITE);
    if (told) *told = 0;
  }
  return 0;
}

/* The same each time, as all else is here; nothing that is measured rests on its being unknown. */
static int32_t call_getrandom(struct fpa_core *core) {
  uint8_t *told = memory_of_program(core->r[0], core->r[1], MAY_WRITE);
  uint32_t state = 0x2545f491;
  if (!told) return -EFAULT;
  for (uint32_t i = 0; i < core->r[1]; i++) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5; /* Marsaglia's xorshift */
    told[i] = (uint8_t)state;
  }
  return (int32_t)core->r[1];
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static call *const calls[] = {
    [__NR_exit] = call_exit,
    [__NR_exit_group] = call_exit,
    [__NR_open] = call_open,
    [__NR_openat] = call_openat,
    [__NR_close] = call_close,
    [__NR_read] = call_read,
    [__NR_pread64] = call_pread,
    [__NR__llseek] = call_llseek,
    [__NR_write] = call_write,
    [__NR_writev] = call_writev,
    [__NR_brk] = call_brk,
    [__NR_mmap2] = call_mmap2,
    [__NR_munmap] = call_munmap,
    [__NR_mprotect] = call_mprotect,
    [__NR_madvise] = call_madvise,
    [__NR_clock_gettime64] = call_clock_gettime64,
    [__NR_clock_gettime] = call_clock_gettime,
    [__NR_gettimeofday] = call_gettimeofday,
    [__NR_setitimer] = call_setitimer,
    [__NR_nanosleep] = call_nanosleep,
    [__NR_clock_nanosleep] = call_clock_nanosleep,
    [__NR_clock_nanosleep_time64] = call_clock_nanosleep64,
    [__NR_rt_sigaction] = signals_call_action,
    [__NR_rt_sigprocmask] = signals_call_mask,
    [__NR_rt_sigpending] = signals_call_pending,
    [__NR_sigaltstack] = signals_call_stack,
    [__NR_sigreturn] = signals_call_return,
    [__NR_rt_sigreturn] = signals_call_rt_return,
    [__NR_getpid] = call_getpid,
    [__NR_gettid] = call_getpid,
    [__NR_set_tid_address] = call_getpid,
    [__NR_getppid] = call_getppid,
    [__NR_getuid32] = nothing,
    [__NR_geteuid32] = nothing,
    [__NR_getgid32] = nothing,
    [__NR_getegid32] = nothing,
    [__NR_sched_yield] = nothing,
    [__NR_kill] = call_kill,
    [__NR_tgkill] = call_tgkill,
    [__NR_tkill] = call_kill,
    [__NR_prctl] = call_prctl,
    [__NR_futex] = call_futex,
    [__NR_futex_time64] = call_futex,
    [__NR_uname] = call_uname,
    [__NR_sysinfo] = call_sysinfo,
    [__NR_getrusage] = call_getrusage,
    [__NR_ugetrlimit] = call_getrlimit,
    [__NR_sched_getaffinity] = call_getaffinity,
    [__NR_sched_setaffinity] = call_setaffinity,
    [__NR_getcpu] = call_getcpu,
    [__NR_getrandom] = call_getrandom,
};

/* The numbers that ARM keeps for itself. */
static call *of_arm(uint32_t number) {
  if (number == VECTORS_CALL) return limits_call;
  return number == __ARM_NR_set_tls ? call_set_tls : number == __ARM_NR_cacheflush ? call_cacheflush : NULL;
}

void bare_call(struct fpa_core *core) {
  const uint32_t number = core->r[7];
  call *wanted = number < sizeof calls / sizeof calls[0] ? calls[number] : of_arm(number);
  core->r[0] = (uint32_t)(wanted ? wanted(core) : -ENOSYS);
  if (signals_wait()) signals_deliver(core);
}

void bare_interrupt(struct fpa_core *core) {
  board_attend_interrupts();
  calls_attend_timer();
  if (signals_wait() && !limits_are_on()) signals_deliver(core); /* a handler could call no other */
}

void calls_clear(struct bare_file program, struct bare_file archive) {
  files_clear(program, archive);
  timer_clear();
  heap_end = load_break();
}
