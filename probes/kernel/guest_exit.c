/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of an instruction that a hypervisor serves: the exit from the guest, the hypervisor's work, and the entry.
 *
 * A program can cause few exits by itself. CPUID leaves every guest on Intel's CPUs, and under each usual hypervisor on
 * AMD's; without a hypervisor it only serialises the core, for 100 to 200 cycles. VMCALL leaves the guest at every
 * privilege level, and KVM and Xen answer a program with -EPERM: that is the shortest exit that has an answer. A read of a
 * port or of a device's register goes on to the process that emulates the device, where the hypervisor does not know it
 * itself: port 0x80 is no device of KVM's, and a virtio device on PCI is none either. Without a hypervisor both are
 * reads over a bus. RDTSC and RDTSCP exit where the hypervisor adjusts the time-stamp counter by hand, and PAUSE where it
 * wants to know of loops that spin, once in thousands of them on AMD's CPUs; else they are instructions like others.
 *
 * So the time tells whether there was an exit: one takes more than a thousand cycles. What a guest exits for beside these
 * is the kernel's: kernel.wake (an interrupt to a halted CPU, which the hypervisor has to start again), kernel.timer (the
 * timer is set and expires), kernel.page_release (interrupts to the CPUs of other threads), kernel.fault_trap (traps that
 * some hypervisors look at).
 *
 * The control is an empty loop.
 */
#define _GNU_SOURCE 1
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"
#include "virtio.h"

/* The choices, and how AMD's CPUs write a hypercall. */
enum kind { CPUID, PORT, MMIO, HYPERCALL, RDTSC, RDTSCP, PAUSE, AMD_HYPERCALL };
enum { DEBUG_PORT = 0x80, NO_HYPERCALL = 0xffff };

/* A hypervisor may refuse the exit (TDX raises #VE), and the file of a device may map no register. */
#define SIGNALS "this instruction ends in a signal here"

struct exits {
  enum kind kind;
  const volatile uint16_t *device;
  uint64_t first, strange; /* the first answer, and how many others differ; a time-stamp counter's are greater */
};

#if defined(__x86_64__) || defined(__i386__)
enum { IS_X86 = 1 };

/* The first four letters of the CPU's maker. */
static inline uint64_t ask_cpuid(void) {
  uint32_t a = 0, b, c = 0, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return b;
}

static inline uint64_t read_port(void) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "i"(DEBUG_PORT) : "memory");
  return value;
}

/* Some hypervisors write to the registers of the arguments. */
#define NOT_KEPT "ebx", "ecx", "edx", "esi", "edi", "cc", "memory"
static inline uint64_t call_by_intel(void) {
  unsigned long answer = NO_HYPERCALL;
  __asm__ volatile("vmcall" : "+a"(answer) : : NOT_KEPT);
  return answer;
}

static inline uint64_t call_by_amd(void) {
  unsigned long answer = NO_HYPERCALL;
  __asm__ volatile("vmmcall" : "+a"(answer) : : NOT_KEPT);
  return answer;
}

static inline uint64_t read_tsc(void) {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
  return (uint64_t)high << 32 | low;
}

static inline uint64_t read_tscp(void) {
  uint32_t low, high, cpu;
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu) : : "memory");
  return (uint64_t)high << 32 | low;
}

static uint64_t first_of_maker(void) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(0, &a, &b, &c, &d);
  return b;
}

static bool may_read_port(void) {
  return syscall(SYS_ioperm, (long)DEBUG_PORT, 1L, 1) == 0;
}
#else
enum { IS_X86 = 0 };
static inline uint64_t nothing(void) {
  return 0;
}
#define ask_cpuid      nothing
#define read_port      nothing
#define call_by_intel  nothing
#define call_by_amd    nothing
#define read_tsc       nothing
#define read_tscp      nothing
#define first_of_maker nothing
#define may_read_port  nothing
#endif

static inline __attribute__((always_inline)) uint64_t serve(const struct exits *exits, enum kind kind) {
  switch (kind) {
    case CPUID: return ask_cpuid();
    case PORT: return read_port();
    case MMIO: return *exits->device;
    case HYPERCALL: return call_by_intel();
    case AMD_HYPERCALL: return call_by_amd();
    case RDTSC: return read_tsc();
    case RDTSCP: return read_tscp();
    case PAUSE: toll_relax();
  }
  return 0;
}

static void serve_first(void *context) {
  struct exits *exits = context;
  exits->first = serve(exits, exits->kind);
}

static enum toll_status try_device(struct toll_run *r) {
  struct exits *exits = r->state;
  exits->device = virtio_register();
  if (!exits->device && errno == ENODEV)
    return toll_skip(r, "there is no virtio device on PCI, and a read of another device may change it");
  if (!exits->device) return toll_skip(r, "no register of a virtio device can be mapped: %s", strerror(errno));
  return toll_guarded(serve_first, exits) ? toll_skip(r, "%s", SIGNALS) : TOLL_OK;
}

static enum toll_status try_hypercall(struct toll_run *r) {
  struct exits *exits = r->state;
  if (toll_guarded(serve_first, exits) == 0 && exits->first != NO_HYPERCALL) return TOLL_OK;
  exits->kind = AMD_HYPERCALL;
  if (toll_guarded(serve_first, exits) == 0 && exits->first != NO_HYPERCALL) return TOLL_OK;
  return toll_skip(r, "no hypervisor here answers a program's hypercall");
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct exits *exits = r->state;
  exits->kind = toll_choice(r, "kind");
  if (exits->kind == MMIO) return try_device(r);
  if (!IS_X86)
    return toll_skip(r, "on this architecture no instruction of user mode but a device's read leaves a guest");
  if (exits->kind == HYPERCALL) return try_hypercall(r);
  if (exits->kind == PORT && !may_read_port())
    return toll_skip(r, "ioperm of port 0x80 is refused: %s (it needs CAP_SYS_RAWIO)", strerror(errno));
  return toll_guarded(serve_first, exits) ? toll_skip(r, "%s", SIGNALS) : TOLL_OK;
}

static inline __attribute__((always_inline)) uint64_t strange_of(const struct exits *exits, uint64_t i,
                                                                 enum kind kind) {
  const uint64_t first = exits->first;
  uint64_t strange = 0;
  for (; i; i--) strange += serve(exits, kind) != first;
  return strange;
}

/* For these three kinds the loop is the instruction alone: RDTSCP and PAUSE leave nothing to overlap with. */
static inline __attribute__((always_inline)) uint64_t last_of(const struct exits *exits, uint64_t i, enum kind kind) {
  uint64_t last = 0;
  for (; i; i--) last = serve(exits, kind);
  return last;
}

static void leave(struct toll_run *r) {
  struct exits *exits = r->state;
  const uint64_t i = r->iterations;
  switch (exits->kind) {
    case CPUID: exits->strange += strange_of(exits, i, CPUID); break;
    case PORT: exits->strange += strange_of(exits, i, PORT); break;
    case MMIO: exits->strange += strange_of(exits, i, MMIO); break;
    case HYPERCALL: exits->strange += strange_of(exits, i, HYPERCALL); break;
    case AMD_HYPERCALL: exits->strange += strange_of(exits, i, AMD_HYPERCALL); break;
    case RDTSC: exits->strange += last_of(exits, i, RDTSC) <= exits->first; break;
    case RDTSCP: exits->strange += last_of(exits, i, RDTSCP) <= exits->first; break;
    case PAUSE: exits->strange += last_of(exits, i, PAUSE); break;
  }
}

static void control(struct toll_run *r) {
  uint64_t answer = 0;
  for (uint64_t i = r->iterations; i; i--) TOLL_OPAQUE(answer);
}

static enum toll_status check(struct toll_run *r) {
  const struct exits *exits = r->state;
  if (exits->kind == CPUID && exits->first != first_of_maker())
    return toll_wrong(r, "CPUID did not answer with the CPU's maker");
  if (!exits->strange) return TOLL_OK;
  return toll_wrong(r, "%llu answers are not as the first, %llu", (unsigned long long)exits->strange,
                    (unsigned long long)exits->first);
}

static const char *const kinds[] = {"cpuid", "port", "mmio", "hypercall", "rdtsc", "rdtscp", "pause", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "kind",
     .kind = TOLL_CHOICE,
     .summary = "CPUID, a read of port 0x80, a read of a virtio device's register, a hypercall that is refused, reads "
                "of the time-stamp counter, or PAUSE",
     .choices = kinds},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "served",
     .unit = "ns",
     .summary = "one such instruction; in a guest with the exit to the hypervisor, if there is one",
     .source = TOLL_DIFFERENCE,
     .toll = "instruction that a hypervisor may serve, {kind}"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does an exit from a guest cost, by what causes it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct exits),
    .prepare = prepare,
    .body = leave,
    .control = control,
    .check = check,
    .revision = 1,
};
