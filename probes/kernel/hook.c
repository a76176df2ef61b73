/* SPDX-License-Identifier: Apache-2.0
 *
 * One and the same function, which makes the shortest system call, with something hooked to it.
 *
 *   nothing         the call alone: what the other rows have less of it is what their hook adds
 *   raw_tracepoint  at the entry of all system calls (sys_enter): the kernel also takes its slower way in
 *   tracepoint      at the entry of this one (sys_enter_getppid), by an event of perf's
 *   kprobe          at the kernel's function: a breakpoint there, or a call that took the place of an instruction
 *   uprobe          at the first instruction of the program's own function: a breakpoint, and so a trap
 *   uretprobe       at its return: the trap on the way in changes where the function returns to, which enters the kernel
 *                   once more (x86-64 from Linux 6.11 on: by a system call of its own, else by a trap)
 *
 * What is hooked is in each case a BPF program that adds one to a counter of its CPU: what a tracer that counts does
 * (bpftrace's `@ = count()`). The function begins with a no-operation, as a static probe point (USDT) does: the kernel
 * emulates that. One that it cannot emulate it executes elsewhere, with a second trap.
 *
 * A hook at a system call's entry is paid for by every process, by its own calls or by the slower way in alone. So it is
 * attached in place and for one visit, and it takes milliseconds until the kernel has taken it away: no control of the
 * same visit could be without it.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <link.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

#include "bpf.h"
#include "entry.h"

enum hook { NOTHING, RAW_TRACEPOINT, TRACEPOINT, KPROBE, UPROBE, URETPROBE };
enum { KEY = -8, OUT = 0 };

#if defined(__x86_64__)
#define KERNEL_FUNCTION "__x64_sys_getppid"
#elif defined(__i386__)
#define KERNEL_FUNCTION "__ia32_sys_getppid"
#elif defined(__aarch64__)
#define KERNEL_FUNCTION "__arm64_sys_getppid"
#elif defined(__riscv)
#define KERNEL_FUNCTION "__riscv_sys_getppid"
#elif defined(__s390x__)
#define KERNEL_FUNCTION "__s390x_sys_getppid"
#else
#define KERNEL_FUNCTION "sys_getppid"
#endif

struct hooked {
  unsigned hook;
  int map, file; /* the counters, and what takes the hook away when it is closed */
  long answer;
  uint64_t calls;
};

/* ---- what is hooked ---- */

#if __has_attribute(patchable_function_entry)
__attribute__((patchable_function_entry(1)))
#endif
TOLL_NOINLINE static long
hooked_call(void) {
  const long answer = kernel_enter(SYS_getppid, 0, 0);
  TOLL_MEMORY(); /* keeps the compiler from a tail call: this function must return too */
  return answer;
}

struct place {
  uintptr_t address;
  uint64_t offset; /* in the executable's file */
};

static int look_in_segments(struct dl_phdr_info *object, size_t bytes, void *context) {
  (void)bytes;
  struct place *place = context;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type != PT_LOAD || place->address < start || place->address >= start + segment->p_filesz) continue;
    place->offset = segment->p_offset + (place->address - start);
    return 1;
  }
  return 0;
}

/* ---- hooks ---- */

/* Counts only this one of all system calls at sys_enter(registers, number). */
static int load_counter(unsigned type, int map) {
  static struct code code;
  if (type == BPF_PROG_TYPE_RAW_TRACEPOINT) {
    load(&code, R1, R1, 8);
    jump(&code, BPF_JNE, R1, SYS_getppid, OUT);
  }
  step(&code, BPF_ST | BPF_MEM | BPF_W, FRAME, 0, KEY, 0);
  find(&code, map, KEY, OUT);
  load(&code, R1, R0, 0);
  with_value(&code, BPF_ADD, R1, 1);
  store(&code, R0, 0, R1);
  mark(&code, OUT);
  leave(&code);
  return load_program(&code, type, NULL, 0);
}

/* A number in the kernel's files, or below zero with errno. */
static int number_in(const char *path) {
  int number = -1;
  FILE *file = fopen(path, "re");
  if (!file) return -1;
  if (fscanf(file, "%d", &number) != 1) errno = EINVAL;
  fclose(file);
  return number;
}

static int open_event(struct perf_event_attr event, int program) {
  event.size = sizeof event;
  const int file = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  return file < 0 || ioctl(file, PERF_EVENT_IOC_SET_BPF, program) < 0 ? -1 : file;
}

static int attach_tracepoint(int program) {
  int id = number_in("/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id");
  if (id < 0) id = number_in("/sys/kernel/debug/tracing/events/syscalls/sys_enter_getppid/id");
  if (id < 0) return -1;
  return open_event((struct perf_event_attr){.type = PERF_TYPE_TRACEPOINT, .config = (uint64_t)id}, program);
}

static int attach_kprobe(int program) {
  const int type = number_in("/sys/bus/event_source/devices/kprobe/type");
  const struct perf_event_attr event = {.type = (uint32_t)type, .config1 = (uintptr_t)KERNEL_FUNCTION};
  return type < 0 ? -1 : open_event(event, program);
}

static int attach_uprobe(int program, bool at_return) {
  struct place place = {.address = (uintptr_t)hooked_call};
  const int type = number_in("/sys/bus/event_source/devices/uprobe/type");
  if (type < 0 || !dl_iterate_phdr(look_in_segments, &place)) return -1;
  const struct perf_event_attr event = {.type = (uint32_t)type,
                                        .config = at_return, /* format/retprobe */
                                        .config1 = (uintptr_t) "/proc/self/exe",
                                        .config2 = place.offset};
  return open_event(event, program);
}

static int attach(unsigned hook, int program) {
  switch (hook) {
    case RAW_TRACEPOINT: return attach_raw("sys_enter", program);
    case TRACEPOINT: return attach_tracepoint(program);
    case KPROBE: return attach_kprobe(program);
    default: return attach_uprobe(program, hook == URETPROBE);
  }
}

/* Whether the kernel is of longer pointers than this program. */
static bool is_compat(void) {
  struct utsname kernel;
  return sizeof(void *) == 4 && uname(&kernel) == 0 && strstr(kernel.machine, "64");
}

static enum toll_status prepare(struct toll_run *r) {
  static const char *const missing[] = {
      [RAW_TRACEPOINT] = "the kernel has no raw tracepoint sys_enter",
      [TRACEPOINT] = "tracefs has no event sys_enter_getppid (mount -t tracefs none /sys/kernel/tracing)",
      [KPROBE] = "the kernel has no probe of " KERNEL_FUNCTION " (CONFIG_KPROBE_EVENTS)",
      [UPROBE] = "the kernel has no probe of a program's functions (CONFIG_UPROBE_EVENTS)",
      [URETPROBE] = "the kernel has no probe of a program's returns (CONFIG_UPROBE_EVENTS)"};
  if (toll_needs_kernel(r) != TOLL_OK || toll_prepare_in_place(r) != TOLL_OK) return toll_refused(r);
  struct hooked *hooked = r->state;
  hooked->hook = toll_choice(r, "hook");
  hooked->file = -1;
  if (hooked->hook == NOTHING) return TOLL_OK;
  if (hooked->hook == TRACEPOINT && is_compat())
    return toll_skip(r, "a 64-bit kernel has no events of a 32-bit program's system calls");
  hooked->map = make_map(BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(uint32_t), sizeof(uint64_t), 1);
  if (hooked->map < 0) return toll_skip(r, "%s", refused("BPF maps"));
  const unsigned type = hooked->hook == RAW_TRACEPOINT ? BPF_PROG_TYPE_RAW_TRACEPOINT
                        : hooked->hook == TRACEPOINT   ? BPF_PROG_TYPE_TRACEPOINT
                                                       : BPF_PROG_TYPE_KPROBE;
  const int program = load_counter(type, hooked->map);
  if (program < 0) return toll_skip(r, "%s", refused("a BPF program"));
  hooked->file = attach(hooked->hook, program);
  return hooked->file < 0 ? toll_skip(r, "%s", refused(missing[hooked->hook])) : TOLL_OK;
}

static void call_hooked(struct toll_run *r) {
  struct hooked *hooked = r->state;
  long answer = 0;
  for (uint64_t i = r->iterations; i; i--) answer = hooked_call();
  hooked->answer = answer;
  hooked->calls += r->iterations;
}

static void control(struct toll_run *r) {
  long answer = 0;
  for (uint64_t i = r->iterations; i; i--) TOLL_OPAQUE(answer);
}

static bool count_hooked(const struct hooked *hooked, uint64_t *counted) {
  uint64_t *of_cpus = calloc(possible_cpus(), sizeof *of_cpus);
  const bool known = of_cpus && read_element(hooked->map, 0, of_cpus);
  for (unsigned cpu = 0; known && cpu < possible_cpus(); cpu++) *counted += of_cpus[cpu];
  free(of_cpus);
  return known;
}

/* Other processes' calls may be counted too. */
static enum toll_status check(struct toll_run *r) {
  const struct hooked *hooked = r->state;
  uint64_t counted = 0;
  if (hooked->answer != (long)getppid()) return toll_wrong(r, "the kernel answered %ld", hooked->answer);
  if (hooked->hook == NOTHING) return TOLL_OK;
  if (hooked->hook == TRACEPOINT && is_compat())
    return toll_skip(r, "a 64-bit kernel has no events of a 32-bit program's system calls");
  if (!count_hooked(hooked, &counted)) return toll_fail(r, "%s", refused("reading a BPF map"));
  if (counted >= hooked->calls) return TOLL_OK;
  return toll_wrong(r, "the hook ran %llu times in %llu calls", (unsigned long long)counted,
                    (unsigned long long)hooked->calls);
}

static void finish(struct toll_run *r) {
  const struct hooked *hooked = r->state;
  if (hooked->file >= 0) close(hooked->file);
}

static const char *const hooks[] = {"nothing", "raw_tracepoint", "tracepoint", "kprobe", "uprobe", "uretprobe", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "hook", .kind = TOLL_CHOICE, .summary = "where a BPF program that counts is hooked", .choices = hooks},
    {0}};
static const struct toll_metric metrics[] = {{.name = "call",
                                              .unit = "ns",
                                              .summary = "one call of a function that makes a system call, hooked",
                                              .toll = "system call with a hook: {hook}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a tracer's hook add to what it is hooked to?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct hooked),
    .prepare = prepare,
    .body = call_hooked,
    .control = control,
    .check = check,
    .finish = finish,
    .enters = true,
    .once = true,
    .revision = 1,
};
