/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the work of batches independently of the probe, after the samples of the first visit of each point: system
 * calls and instructions of n and of 2n iterations, so that work that a batch does once cancels in the difference. Then
 * both again for a batch as long as the longest sampled one, or as long as can be counted soon, and the times of ever
 * shorter batches. A body that does other work in long batches, or after some batches, would pass the first count.
 *
 * A count is never given up because it takes long: of a batch that makes more calls or instructions than are counted,
 * their number so far is a lower bound, which contradicts a smaller declared one. Bodies that make system calls are
 * stepped through however long they take, since their time is the kernel's.
 *
 * The tracer is a process that shares this one's memory. After a fork without shared memory, the first store to each
 * page would be a copy-on-write fault inside a sample. Where the system, a sandbox or the architecture does not permit
 * tracing, nothing is reported.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "wait.h"

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif
#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

enum { MOST_CALLS = 4000, MOST_LONG_CALLS = 12000, MOST_STEPS = 1500, LONG_STEPS = 300, STACK_BYTES = 16384 };
enum { ENDED, STARTING, ATTACHED };
enum { BEFORE, FIRST, SECOND, DONE };

static struct {
  _Atomic uint32_t state;  /* the kernel sets it to ENDED if a sandbox kills the tracer */
  volatile unsigned batch; /* phase of the traced process: BEFORE, FIRST, ... */
  pid_t traced;
  bool steps, attached, signalled, cut;
  uint64_t stops[DONE + 1], most;
  char stack[STACK_BYTES] __attribute__((aligned(64)));
} trace;

/* Iterations of the shorter batch. For a body with a minimum number of iterations, this minimum suffices. */
static uint64_t length(const struct toll_run *r) {
  enum { QUICK_NS = 200000, LENGTH = 4 };
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  return r->visit->proof_ns < QUICK_NS && quantum < LENGTH ? LENGTH * quantum : quantum;
}

/* Counts a stop, and returns the signal to deliver to the process. */
static int take_stop(int status) {
  const int number = WSTOPSIG(status);
  if (status >> 16 == PTRACE_EVENT_STOP) return 0;
  if (number == (trace.steps ? SIGTRAP : (SIGTRAP | 0x80))) {
    trace.stops[trace.batch]++;
    return 0;
  }
  if (number == (SIGTRAP | 0x80)) return 0;
  trace.signalled = true;
  return number;
}

static bool attach(void) {
  if (ptrace(PTRACE_SEIZE, trace.traced, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0) return false;
  return ptrace(PTRACE_INTERRUPT, trace.traced, NULL, NULL) == 0;
}

static int tracer(void *nothing) {
  (void)nothing;
  int status, number = 0;
  uint64_t stops = 0;
  trace.attached = attach();
  if (!trace.attached) _exit(0);
  atomic_store(&trace.state, ATTACHED);
  toll_futex_wake(&trace.state, 1);
  while (waitpid(trace.traced, &status, __WALL) == trace.traced && WIFSTOPPED(status)) {
    number = take_stop(status);
    trace.cut = ++stops > trace.most;
    if (trace.cut || trace.batch == DONE) break;
    if (trace.steps ? ptrace(PTRACE_SINGLESTEP, trace.traced, NULL, (void *)(intptr_t)number) < 0
                    : ptrace(PTRACE_SYSCALL, trace.traced, NULL, (void *)(intptr_t)number) < 0) {
      trace.attached = false;
      break;
    }
  }
  ptrace(PTRACE_DETACH, trace.traced, NULL, (void *)(intptr_t)number);
  _exit(0);
}

static pid_t start(bool steps, uint64_t most) {
  trace.state = STARTING;
  trace.batch = BEFORE;
  trace.steps = steps;
  trace.cut = trace.signalled = trace.attached = false;
  trace.most = most;
  memset(trace.stops, 0, sizeof trace.stops);
  trace.traced = getpid();
  pid_t child = clone(tracer, trace.stack + STACK_BYTES, CLONE_VM | CLONE_FILES | CLONE_CHILD_CLEARTID, NULL, NULL,
                      NULL, &trace.state);
  if (child < 0) return child;
  prctl(PR_SET_PTRACER, (unsigned long)child, 0, 0, 0); /* by default, Yama lets only a parent trace a process */
  while (atomic_load(&trace.state) == STARTING) toll_futex_wait(&trace.state, STARTING);
  return child;
}

/* A function of its own, so that both batch lengths execute the same instructions around the body. */
TOLL_NOINLINE static void run_batch(struct toll_run *r, void (*body)(struct toll_run *r), unsigned batch) {
  trace.batch = batch;
  body(r);
  trace.batch = BEFORE;
}

/* Counts system calls or instructions of a batch of each length. False if they cannot be counted. Where they are too
 * many (trace.cut), found has those before. */
static bool counted(struct toll_run *r, void (*body)(struct toll_run *r), bool steps, uint64_t most,
                    const uint64_t lengths[2], uint64_t found[2]) {
  pid_t child = start(steps, most);
  if (child < 0) return false;
  bool is_long = false; /* the second batch, which is twice as long, would reach the limit */
  for (unsigned i = 0; i < 2 && lengths[i] && !is_long; i++) {
    r->iterations = lengths[i];
    run_batch(r, body, FIRST + i);
    is_long = steps && lengths[1] && 3 * trace.stops[FIRST] > most;
  }
  trace.batch = DONE;
  getppid(); /* the tracer stops at the next system call */
  while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR) continue;
  trace.cut |= is_long;
  for (unsigned i = 0; i < 2; i++) found[i] = trace.stops[FIRST + i] / (steps ? 1 : 2); /* entered and left */
  return trace.attached;
}

/* If a loader serves the system calls, it counts them. A tracer would also see the loader's signals. */
static bool calls_counted(struct toll_run *r, void (*body)(struct toll_run *r), const uint64_t lengths[2],
                          uint64_t found[2]) {
  if (!toll_is_served()) return counted(r, body, false, MOST_CALLS, lengths, found);
  trace.signalled = trace.cut = false;
  for (unsigned i = 0; i < 2; i++) {
    const uint64_t before = toll_served_calls();
    r->iterations = lengths[i];
    run_batch(r, body, FIRST + i);
    found[i] = toll_served_calls() - before;
  }
  return true;
}

static void emit_counts(const char *key, bool known, const uint64_t found[2]) {
  if (!known) return;
  toll_put_open(key, '[');
  toll_put_count(NULL, found[0]);
  toll_put_count(NULL, found[1]);
  toll_put_close(']');
}

/* A batch as long as the longest sampled one, but of no more stops than are counted soon: half of those at which the
 * count ends, so that one that ended is twice what was expected. pair: of the short batches. */
static void emit_long(struct toll_run *r, const char *key, bool steps, const uint64_t pair[2]) {
  const uint64_t n = length(r), each = pair[1] > pair[0] ? pair[1] - pair[0] : 0,
                 room = steps ? LONG_STEPS : MOST_LONG_CALLS / 2, longest = 2 * r->visit->sampled;
  if (!each || toll_is_served() || pair[0] > room / 2) return;
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1, fit = (room - pair[0]) * n / each;
  uint64_t iterations = fit < longest ? fit : longest, found[2];
  iterations -= iterations % quantum;
  if (!iterations) return;
  const bool known = counted(r, r->visit->probe->body, steps, 2 * (steps ? LONG_STEPS : MOST_LONG_CALLS),
                             (uint64_t[]){iterations, 0}, found);
  emit_counts(key, known, (uint64_t[]){iterations, found[0]});
}

/* Steps through both batches. A step takes 2 us, and 24 in a guest whose host intercepts the debug exception, as KVM
 * does, so that only a short body, or one of system calls, is stepped through. keys: of the pair, of its lower bound and
 * of the long batch. */
static void emit_steps(struct toll_run *r, void (*body)(struct toll_run *r), const char *const keys[3]) {
  const uint64_t lengths[2] = {length(r), 2 * length(r)};
  uint64_t steps[2];
  const bool known = counted(r, body, true, MOST_STEPS, lengths, steps);
  if (known && trace.cut && keys[1]) toll_put_count(keys[1], MOST_STEPS);
  emit_counts(keys[0], known && !trace.cut, steps);
  if (known && !trace.cut && keys[2]) emit_long(r, keys[2], true, steps);
}

enum { PAIR_OF_CALLS, MOST_OF_CALLS, LONG_OF_CALLS, PAIR_OF_STEPS };
static const char *const OF_BODY[] = {"calls",        "most_calls", "long_calls",
                                      "instructions", "most_steps", "long_instructions"};
static const char *const OF_CONTROL[] = {"control_calls", NULL, NULL, "control_instructions", NULL, NULL};

/* Calls first. Returns whether there are none. */
static bool emit_batches(struct toll_run *r, void (*body)(struct toll_run *r), const char *const keys[]) {
  enum { SHORT_NS = 1500, TRIALS = 3 };
  const uint64_t lengths[2] = {length(r), 2 * length(r)};
  uint64_t calls[2], took_ns = UINT64_MAX;
  for (unsigned trial = 0; trial < TRIALS && took_ns > SHORT_NS; trial++) took_ns = toll_timed(r, body, lengths[1]);
  const bool known = calls_counted(r, body, lengths, calls);
  if (known && trace.cut && keys[MOST_OF_CALLS]) toll_put_count(keys[MOST_OF_CALLS], MOST_CALLS / 2);
  emit_counts(keys[PAIR_OF_CALLS], known && !trace.cut, calls);
  const bool has_signals = trace.signalled || (toll_is_served() && calls[1]);
  if (!known || trace.cut || has_signals || r->visit->probe->switches) return false;
  if (keys[LONG_OF_CALLS]) emit_long(r, keys[LONG_OF_CALLS], false, calls);
  if (took_ns <= SHORT_NS || calls[1]) emit_steps(r, body, keys + PAIR_OF_STEPS);
  return !calls[1];
}

/* The shortest of several batches, since a host or a neighbour that takes the CPU only lengthens them, or the first that
 * takes as long as the shortest before it. */
static uint64_t shortest_ns(struct toll_run *r, uint64_t iterations, uint64_t times) {
  enum { ALIKE = 16 };
  uint64_t least = UINT64_MAX;
  for (uint64_t i = 0; i < times; i++) {
    const uint64_t took = toll_crew_batch(r, iterations, NULL), shorter = took < least ? took : least;
    const bool is_alike = i && (took < least ? least - took : took - least) <= shorter / ALIKE;
    least = shorter;
    if (is_alike) break;
  }
  return least;
}

/* Times of batches of 2N, N / 2, N / 8, ... iterations, in an order that changes from trial to trial. */
static void emit_ladder(struct toll_run *r) {
  enum { RUNGS = 8, LEAST_RUNGS = 3, TRIALS = 5, FACTOR = 4, LEAST_NS = 1000, TIMES = 6 };
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  uint64_t lengths[RUNGS] = {2 * r->visit->sampled}, least[RUNGS][TRIALS];
  unsigned count = 1;
  while (count < RUNGS && (lengths[count] = lengths[count - 1] / FACTOR / quantum * quantum)) count++;
  if (count < LEAST_RUNGS) return;
  for (unsigned trial = 0; trial < TRIALS; trial++)
    for (unsigned turn = 0; turn < count; turn++) {
      const unsigned rung = trial % 2 ? count - 1 - turn : turn;
      least[rung][trial] = shortest_ns(r, lengths[rung], TIMES);
      if (!trial && rung && least[rung][0] < LEAST_NS) count = rung;
    }
  toll_put_open("ladder", '[');
  for (unsigned rung = 0; rung < count; rung++) {
    toll_put_open(NULL, '[');
    toll_put_count(NULL, lengths[rung]);
    for (unsigned trial = 0; trial < TRIALS; trial++) toll_put_count(NULL, least[rung][trial]);
    toll_put_close(']');
  }
  toll_put_close(']');
}

/* Descriptors and child processes of this process, which a batch could leave behind. Both are 0 if /proc is not
 * readable. */
struct holdings {
  uint64_t descriptors, children;
};

static struct holdings held(void) {
  struct holdings found = {0, 0};
  DIR *folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) found.descriptors++;
  if (folder) closedir(folder);
  FILE *file = fopen("/proc/thread-self/children", "re"); /* numbers, each followed by a blank */
  for (int c; file && (c = getc(file)) != EOF;) found.children += c == ' ';
  if (file) fclose(file);
  return found;
}

static void emit_left(struct holdings before, struct holdings after) {
  if (after.descriptors > before.descriptors) toll_put_count("left_open", after.descriptors - before.descriptors);
  if (after.children > before.children) toll_put_count("left_running", after.children - before.children);
}

/* A batch that takes this long at its minimum length is run once and not five times. */
void toll_count(struct toll_run *r) {
  enum { MOST_NS = 20000000 };
  const struct toll_probe *probe = r->visit->probe;
  const struct holdings before = held();
  toll_record_open("count");
  toll_put_count("iterations", length(r));
  toll_put_count("buffer_bytes", r->visit->buffer_bytes);
  toll_put_count("chase_bytes", r->visit->chase_bytes);
  if (r->visit->hugetlb_bytes) toll_put_count("hugetlb_bytes", r->visit->hugetlb_bytes);
  toll_put_real("chase_in_order", r->visit->chase_in_order);
  if (r->visit->chase_bytes) {
    toll_put_count("chase_stride", r->visit->chase_stride);
    toll_put_count("chase_pages", r->visit->chase_pages);
    toll_put_count("line_bytes", toll_line_bytes());
    toll_put_count("page_bytes", toll_page_bytes());
  }
  if (r->visit->proof_ns < MOST_NS && !probe->pauses && toll_crew_turns() == 1) emit_ladder(r);
  if (r->workers == 1 && r->visit->proof_ns < MOST_NS) {
    const bool is_own = emit_batches(r, probe->body, OF_BODY);
    if (probe->control) emit_batches(r, probe->control, OF_CONTROL);
    if (is_own) toll_touch(r);
  }
  emit_left(before, held());
  toll_record_close();
}
