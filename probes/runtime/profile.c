/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles the body in place of timing it. The body runs as in a visit, and the address of the current instruction is
 * sampled at regular intervals of the timed worker's time.
 *
 *   TOLL_PROFILE=MS         in the environment of a visit: profile for so long in place of taking samples
 *   TOLL_PROFILE=MS,signal  likewise, without asking the kernel for its sampler
 *   TOLL_PROFILE=MS+misses  under an emulator that models a cache: a trap is one of the model's, and no reason to skip
 *
 * The sampler is perf's CPU clock where the system permits it: it samples the kernel too. Elsewhere a timer sends
 * SIGPROF, which samples the program only. Under an emulator that counts, a plugin counts the executions of each
 * instruction while the counter's page enables it, and nothing is sampled. The pause timer gates all three: untimed
 * parts are not in the profile.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "internal.h"

#ifndef sigev_notify_thread_id /* from the manual page; glibc's header lacks it */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Prime numbers of ns, which are in step with no loop and no other timer. A signal costs several times as much as a
 * sample of perf. 20,000 samples in 2 s give a share of one half a standard error of 0.35 points, and the difference of
 * two such shares one of 0.5. */
enum { PERF_PERIOD_NS = 99991, SIGNAL_PERIOD_NS = 199999 };
enum { MOST_SAMPLES = 1 << 17, RING_BYTES = 2 << 20, HITS_A_RECORD = 1024, MOST_LOOKS = 64 };

/* Positions in the ring at which the timer was paused. */
struct stretch {
  uint64_t begin, end;
};
struct sampler {
  const char *source;   /* NULL: nothing is profiled */
  bool running, paused; /* paused: by the pause timer, inside a batch */
  bool gated;           /* it was paused at least once */
  bool sees_kernel;     /* it is sampled, so that all samples together are the program's time */
  int perf;
  struct perf_event_mmap_page *ring;
  timer_t timer;
  uint64_t kernel, lost, iterations, ns;
};
static struct sampler sampler;
/* Before and after each batch, since the distribution of time changes while the sibling hyperthread is busy. */
static struct toll_burst looks[MOST_LOOKS];
static unsigned look_count;
/* kernel_addresses are wider than a pointer where a 64-bit kernel runs a 32-bit program. */
static uint64_t *addresses, *kernel_addresses;
static volatile unsigned address_count;
static unsigned kernel_address_count;
static struct stretch *stretches; /* no more than there are records */
static unsigned stretch_count;

static void keep(uint64_t address) {
  if (address_count < MOST_SAMPLES)
    addresses[address_count++] = address;
  else
    sampler.lost++;
}

/* ---- perf's CPU clock ---- */

static int open_perf(bool with_kernel) {
  struct perf_event_attr asked = {.type = PERF_TYPE_SOFTWARE,
                                  .size = sizeof asked,
                                  .config = PERF_COUNT_SW_CPU_CLOCK,
                                  .sample_period = PERF_PERIOD_NS,
                                  .sample_type = PERF_SAMPLE_IP,
                                  .disabled = 1,
                                  .exclude_hv = 1};
  asked.exclude_kernel = !with_kernel;
  return (int)syscall(SYS_perf_event_open, &asked, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The number of its data pages is a power of two; one more page is the header. */
static bool begin_perf(void) {
  const size_t bytes = RING_BYTES + toll_page_bytes();
  sampler.perf = open_perf(true);
  sampler.sees_kernel = sampler.perf >= 0;
  if (sampler.perf < 0) sampler.perf = open_perf(false);
  if (sampler.perf < 0) return false;
  void *ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, sampler.perf, 0);
  if (ring == MAP_FAILED) { /* exceeds this user's limit of locked memory */
    close(sampler.perf);
    sampler.sees_kernel = false;
    return false;
  }
  sampler.ring = ring;
  return true;
}

/* Disabling and enabling the sampler takes 13 us in a guest, and a timed part may last 30 us. So it stays enabled, and
 * samples taken while the timer is paused are left out. */
static void pause_ring(bool pause) {
  /* Written by interrupts of this thread; 32 bits, since a 32-bit program has no single load for more. */
  const uint32_t head = (uint32_t)((const volatile struct perf_event_mmap_page *)sampler.ring)->data_head;
  if (pause)
    stretches[stretch_count].begin = head;
  else if (stretches[stretch_count].begin != head && stretch_count < MOST_SAMPLES - 1)
    stretches[stretch_count++].end = head;
}

/* Both records and paused stretches are in order. */
static bool is_left_out(uint64_t at) {
  static unsigned next;
  while (next < stretch_count && stretches[next].end <= at) next++;
  return next < stretch_count && stretches[next].begin <= at;
}

static void take_record(const struct perf_event_header *header, uint64_t address, uint64_t lost) {
  if (header->type != PERF_RECORD_SAMPLE)
    sampler.lost += header->type == PERF_RECORD_LOST ? lost : 0;
  else if ((header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER)
    keep(address);
  else if (sampler.kernel++ < MOST_SAMPLES)
    kernel_addresses[kernel_address_count++] = address;
}

/* Records are read once the program has stopped: the ring holds a dozen seconds of them. */
static void read_ring(void) {
  const char *data = (const char *)sampler.ring + toll_page_bytes();
  const uint64_t bytes = RING_BYTES, end = sampler.ring->data_head;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  for (uint64_t at = sampler.ring->data_tail; at < end;) {
    struct perf_event_header header;
    uint64_t address, lost;
    memcpy(&header, data + at % bytes, sizeof header); /* all are multiples of 8 bytes, and never torn */
    memcpy(&address, data + (at + sizeof header) % bytes, sizeof address);
    memcpy(&lost, data + (at + sizeof header + sizeof address) % bytes, sizeof lost);
    if (!is_left_out(at)) take_record(&header, address, lost);
    at += header.size ? header.size : end - at;
  }
}

/* ---- SIGPROF ---- */

/* The program counter at which a signal arrived; 0 for an architecture that this file does not support. */
static uintptr_t address_of(const ucontext_t *context) {
#if defined(__x86_64__)
  return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
  return (uintptr_t)context->uc_mcontext.gregs[REG_EIP];
#elif defined(__aarch64__) || defined(__mips__)
  return (uintptr_t)context->uc_mcontext.pc;
#elif defined(__arm__)
  return (uintptr_t)context->uc_mcontext.arm_pc;
#elif defined(__riscv)
  return (uintptr_t)context->uc_mcontext.__gregs[REG_PC];
#elif defined(__loongarch__)
  return (uintptr_t)context->uc_mcontext.__pc;
#elif defined(__powerpc64__)
  enum { NIP = 32 }; /* after the general registers (asm/ptrace.h) */
  return (uintptr_t)context->uc_mcontext.gp_regs[NIP];
#elif defined(__s390x__)
  return (uintptr_t)context->uc_mcontext.psw.addr;
#elif defined(__sparc__) && defined(__arch64__)
  /* There the kernel passes the signal frame, which begins with siginfo, in place of a ucontext. */
  return (uintptr_t)((const struct sigcontext *)(const void *)context)->sigc_regs.tpc;
#else
  (void)context;
  return 0;
#endif
}

static void on_signal(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number, (void)info;
  if (sampler.running && !sampler.paused) keep(address_of(context));
}

/* A real-time timer, since a CPU-time timer has only the resolution of the kernel's tick. It continues while the gate
 * is closed; on_signal() checks the gate. */
static bool begin_signal(void) {
  struct sigaction action = {0};
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
  const struct itimerspec every = {{0, SIGNAL_PERIOD_NS}, {0, SIGNAL_PERIOD_NS}};
  event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  return sigaction(SIGPROF, &action, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &event, &sampler.timer) == 0 &&
         timer_settime(sampler.timer, 0, &every, NULL) == 0;
}

/* ---- whichever it is ---- */

static bool asked_by_signal(const char *asked) {
  return strchr(asked, ',') != NULL;
}

/* While the timer is paused, nothing is kept. */
static void pause_sampler(bool pause) {
  if (!sampler.running || pause == sampler.paused) return;
  sampler.paused = pause;
  sampler.gated = true;
  if (toll_counts_instructions())
    toll_counter_gate(!pause);
  else if (sampler.ring)
    pause_ring(pause);
}

static void begin(const char *asked) {
  addresses = calloc(MOST_SAMPLES, sizeof *addresses);
  kernel_addresses = calloc(MOST_SAMPLES, sizeof *kernel_addresses);
  stretches = calloc(MOST_SAMPLES, sizeof *stretches);
  if (!addresses || !kernel_addresses || !stretches) return;
  if (toll_counts_instructions())
    sampler.source = "instructions";
  else if (!asked_by_signal(asked) && begin_perf())
    sampler.source = "perf cpu-clock";
  else if (begin_signal())
    sampler.source = "SIGPROF";
  if (sampler.source) toll_timer_watch(pause_sampler);
}

void toll_profile_run(bool on) {
  if (!sampler.source || on == sampler.running) return;
  sampler.running = on;
  if (toll_counts_instructions())
    toll_counter_gate(on);
  else if (sampler.ring)
    ioctl(sampler.perf, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* ---- what came of it ---- */

static int in_order(const void *one, const void *other) {
  const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

static void open_record(const char *hits) {
  toll_record_open("profile");
  toll_put_text("source", sampler.source);
  toll_put_count("period_ns", toll_counts_instructions() ? 0 : sampler.ring ? PERF_PERIOD_NS : SIGNAL_PERIOD_NS);
  toll_put_open(hits, '[');
}

/* 20 us, unsampled. */
static void look(void) {
  if (look_count < MOST_LOOKS) looks[look_count++] = toll_burst_measure();
}

static void emit_looks(void) {
  toll_put_open("looks", '[');
  for (unsigned i = 0; i < look_count; i++) {
    toll_put_open(NULL, '[');
    toll_put_real(NULL, looks[i].chain_hz);
    toll_put_real(NULL, looks[i].width_hz);
    toll_put_close(']');
  }
  toll_put_close(']');
}

/* Each address with its number of samples, in records of bounded length; the last is left open. */
static void emit_hits(const char *name, uint64_t *at, unsigned count) {
  qsort(at, count, sizeof *at, in_order);
  unsigned written = 0;
  open_record(name);
  for (unsigned i = 0, same; i < count; i += same) {
    for (same = 1; i + same < count && at[i + same] == at[i]; same++) continue;
    if (written++ && written % HITS_A_RECORD == 0) {
      toll_put_close(']');
      toll_record_close();
      open_record(name);
    }
    toll_put_open(NULL, '[');
    toll_put_count(NULL, at[i]);
    toll_put_count(NULL, same);
    toll_put_close(']');
  }
  toll_put_close(']');
}

static void emit_profile(void) {
  /* In stretches as short as a pause timer's, the kernel's share is interrupts only, which depend on the load. */
  if (!sampler.gated && kernel_address_count) {
    emit_hits("kernel_hits", kernel_addresses, kernel_address_count);
    toll_record_close();
  }
  emit_hits("hits", addresses, address_count);
  toll_put_count("kernel", sampler.gated ? 0 : sampler.kernel);
  toll_put_bool("sees_kernel", sampler.sees_kernel);
  toll_put_count("lost", sampler.lost);
  toll_put_count("iterations", sampler.iterations);
  toll_put_count("ns", sampler.ns);
  emit_looks();
  toll_record_close();
}

static uint64_t elapsed_ms(const struct timespec *since) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)((now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000);
}

/* Bounded by the profiled time; where other processes have the CPU, or instructions are counted, also by elapsed
 * time. */
static bool is_enough(uint64_t wanted_ms, uint64_t elapsed) {
  enum { NS_PER_MS = 1000000, MOST_TIMES = 4 };
  if (toll_stop_asked() || elapsed > MOST_TIMES * wanted_ms) return true;
  return (toll_counts_instructions() ? elapsed : sampler.ns / NS_PER_MS) >= wanted_ms;
}

bool toll_profile_take(struct toll_run *r) {
  const char *asked = getenv("TOLL_PROFILE");
  struct timespec began;
  if (!asked) return false;
  begin(asked);
  if (!sampler.source) {
    toll_skip(r, "no profile: neither perf's CPU clock nor a timer's signal is permitted here: %s", strerror(errno));
    return true;
  }
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  const uint64_t wanted_ms = strtoull(asked, NULL, 10);
  uint64_t iterations = quantum;
  clock_gettime(CLOCK_MONOTONIC, &began);
  look();
  do {
    const uint64_t before_ms = elapsed_ms(&began);
    toll_profile_run(true);
    sampler.ns += toll_crew_batch(r, iterations, NULL);
    sampler.iterations += iterations;
    toll_profile_run(false);
    look();
    if (elapsed_ms(&began) - before_ms < 5) iterations *= 2;
  } while (!is_enough(wanted_ms, elapsed_ms(&began)));
  if (sampler.ring)
    read_ring();
  else if (!toll_counts_instructions())
    timer_delete(sampler.timer);
  emit_profile();
  return true;
}
