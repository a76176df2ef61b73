/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between a probe and the runtime.
 *
 * A probe crosses one boundary of the machine. It has a description, a body that crosses the boundary `iterations`
 * times, a control that is the same body without the boundary, and a check that verifies the work. The runtime times,
 * prints, parses and forks; a probe does none of these.
 *
 * The runtime times the body over n and over 2n iterations. The cost of one iteration is the difference divided by n,
 * so that the cost of calling the body, of reading the clock and of starting workers cancels and need not be measured.
 * A control is timed in the same way within the same sample.
 *
 * Shared by several families: asked.h (sizes that an ABI can address), walk.h (chains of dependent loads), wait.h
 * (futexes and absolute timeouts).
 *
 * Every file compiles as C11 (or C++20) for 32 and 64 bit and for both byte orders.
 */
#ifndef TOLL_H
#define TOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status -------------------------------------------------------------------------------------------------------- */

enum toll_status {
  TOLL_OK,
  TOLL_SKIPPED, /* the boundary does not exist here or may not be crossed; the report prints the reason */
  TOLL_WRONG,   /* the work was wrong: no number is reported */
  TOLL_FAILED   /* the system refused a resource that the probe needs */
};

struct toll_run;

/* Each records a printf-style reason and returns its status, so that a probe can write `return toll_skip(r, ...)`. */
enum toll_status toll_skip(struct toll_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum toll_status toll_wrong(struct toll_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum toll_status toll_fail(struct toll_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- description of a probe -------------------------------------------------------------------------------------- */

enum toll_better { TOLL_LESS, TOLL_MORE, TOLL_NEITHER };

/* The source of a metric's value. */
enum toll_source {
  TOLL_BODY,       /* the time of one iteration of the body */
  TOLL_CONTROL,    /* the time of one iteration of the control */
  TOLL_DIFFERENCE, /* body minus control, both from the same sample */
  TOLL_COMPANIONS, /* the work of the background companions while the timed worker ran */
  TOLL_TOGETHER,   /* the sum of the timed worker and its background companions (rates only) */
  TOLL_GAUGE       /* a value that the probe reported with toll_report() */
};

/* Unit is one of: ns cycle instruction B/s bit/s flop/s op/s B fault ratio count.
 * A time in ns or cycle is divided by work.operations; a rate is work.bytes (or their bits), work.flops or
 * work.operations over time. */
struct toll_metric {
  const char *name, *unit;
  enum toll_better better;
  const char *summary;
  enum toll_source source;
  const char *means; /* its meaning to the analysis: docs/add-a-probe.md lists all; NULL: none */
  const char *toll;  /* its line in the toll table, `{parameter}` replaced by the value; NULL: no line */
};

enum toll_kind {
  TOLL_SIZE,  /* bytes */
  TOLL_COUNT, /* how many */
  TOLL_CHOICE /* one of several words */
};
/* The values of the last two are the numbers of the memory nodes that have CPUs, or memory. */
enum toll_scale { TOLL_ABSOLUTE, TOLL_TIMES_LAST_CACHE, TOLL_TIMES_CPUS, TOLL_NODES_WITH_CPUS, TOLL_NODES_WITH_MEMORY };

#define TOLL_END UINT64_MAX

/* A parameter with its default sweep: a list of values, or from..to with `per_octave` equal steps within every doubling
 * (1024 1280 1536 1792 2048 ...: whole cache lines, and sizes of caches that are no power of two). */
struct toll_parameter {
  const char *name;
  enum toll_kind kind;
  const char *summary;
  uint64_t from, to;
  enum toll_scale to_scale;
  unsigned per_octave;
  const uint64_t *values;     /* ends with TOLL_END */
  const char *const *choices; /* ends with NULL */
  const char *typical;        /* the value that the toll table shows; NULL: all values */
  bool refine;                /* denser where the curve bends */
};

/* The work of one iteration, from which the host derives rates. */
struct toll_work {
  double bytes, flops;
  double bus_bytes;       /* estimated traffic with write-allocate counted; 0: as bytes */
  double operations;      /* 0: one */
  double footprint_bytes; /* memory that an iteration touches, each byte counted once; 0: unknown */
};

enum toll_worker { TOLL_PROCESS, TOLL_THREAD };
enum toll_pace {
  TOLL_LOCKSTEP,   /* runs its body once for each batch, with the same iterations as the timed worker */
  TOLL_BACKGROUND, /* repeats its body until the timed worker is done; the number of iterations is recorded */
  TOLL_IN_TURN /* after the timed worker's batch: runs its body once with as many iterations while every other worker
                      waits; its time is recorded */
};

/* A kind of companion to the timed worker (worker 0). Workers are pinned and start after a barrier. */
struct toll_role {
  const char *name;
  void (*body)(struct toll_run *r);
  enum toll_worker worker;
  enum toll_pace pace;
  unsigned (*count)(const struct toll_run *r);                /* how many; NULL: one */
  unsigned (*cpu)(const struct toll_run *r, unsigned worker); /* index into r->cpus for a worker; NULL: its number */
  uint64_t background_iterations;                             /* iterations of one turn of a background body; 0: one */
};

struct toll_probe {
  const char *question;
  const struct toll_metric *metrics;               /* ends with {0} */
  const struct toll_parameter *parameters;         /* ends with {0}; NULL: none */
  size_t state_bytes;                              /* r->state: zeroed, line-aligned, shared by every worker */
  enum toll_status (*prepare)(struct toll_run *r); /* once, before any worker starts */
  void (*body)(struct toll_run *r);
  void (*control)(struct toll_run *r);           /* the body less the boundary; NULL: none */
  enum toll_status (*check)(struct toll_run *r); /* before the first sample and after the last */
  void (*finish)(struct toll_run *r);            /* once, after the workers have ended: toll_report() goes here */
  void (*work)(const struct toll_run *r, struct toll_work *work);
  const struct toll_role *roles; /* ends with {0}; NULL: the timed worker alone */
  uint64_t quantum;              /* iterations are a multiple of this; 0: one */
  bool alike;     /* the control runs as many iterations as the body, so that both walk through as much memory */
  bool switches;  /* the probe is switched out by design: a switch does not discard a sample */
  bool faults;    /* the probe takes page faults by design: they do not discard a sample */
  bool enters;    /* the number of system calls of an operation depends on the point */
  bool sleeps;    /* a companion sleeps in a batch: the scheduler that wakes it is part of the answer */
  unsigned calls; /* system calls of one operation, verified by counting; 0: not declared */
  unsigned control_calls; /* system calls of one turn of a control with its own boundary */
  bool pauses;            /* the body pauses the timer: part of it is untimed by design */
  bool once;              /* what it reports is found in prepare: a layout serves one visit, and no other repeats it */
  bool accounts;          /* memory, faults and CPU time of the process are part of the answer (account.c) */
  bool spreads;        /* processes that it starts may run on every CPU of the visit, although it has no companions */
  bool serves;         /* with TOLL_SERVE in its environment, it serves as the other end on another machine */
  const char *library; /* libraries that it is built with, by their names in probes/libraries.toml */
  int revision;        /* increased whenever the meaning of the number changes */
};

extern const struct toll_probe toll_probe; /* each probe file defines it */

/* The names of this probe and its ABI, and its compiler flags. The build defines the three macros for the probe's own
 * file only, since the runtime is compiled once per ABI. */
extern const char toll_probe_name[], toll_abi_name[], toll_build_flags[];
#ifdef TOLL_PROBE
const char toll_probe_name[] = TOLL_PROBE;
const char toll_abi_name[] = TOLL_ABI;
const char toll_build_flags[] = TOLL_FLAGS;
#endif

/* ---- a run, as a probe sees it ----------------------------------------------------------------------------------- */

struct toll_run {
  uint64_t iterations; /* iterations of this batch */
  void *state;
  unsigned worker, workers;
  const int *cpus; /* the CPUs of this visit, by the system's numbers */
  unsigned cpu_count;
  uint64_t seed;
  struct toll_visit *visit; /* the runtime's own */
};

uint64_t toll_number(const struct toll_run *r, const char *parameter); /* a TOLL_SIZE or TOLL_COUNT */
unsigned toll_choice(const struct toll_run *r, const char *parameter); /* index into the parameter's choices */
double toll_left_s(const struct toll_run *r); /* seconds that the run has left, at the most; a day if it has no limit */
/* The folder for files, which the probe must remove: the run's folder, or that of --folder. */
const char *toll_folder(const struct toll_run *r);
/* The address of the machine that serves this visit, as the host passed it; empty if there is none. */
const char *toll_peer(const struct toll_run *r);
void toll_report(struct toll_run *r, const char *metric, double value);
/* For prepare: what a parameter's value came to on this machine. The visit's record states it. */
void toll_chose(struct toll_run *r, const char *parameter, const char *choice);

/* ---- memory -------------------------------------------------------------------------------------------------- */

enum toll_pages {
  TOLL_PAGES_SMALL, /* the base page, huge pages refused */
  TOLL_PAGES_HUGE,  /* huge pages: transparent ones, verified after the fact, else explicit ones (hugetlb) */
  TOLL_PAGES_ANY,   /* no request: the system's default for a program */
  TOLL_PAGES_LARGE  /* huge pages if the system gives them, else small ones; toll_huge_bytes() returns which */
};
struct toll_buffer_request {
  size_t bytes;
  enum toll_pages pages;
  size_t misalign; /* bytes past a page boundary */
  unsigned colour; /* moves the start by colour x 576 B, so that two streams differ in their low 12 address bits */
  bool shared;     /* visible to companions that are processes */
  bool drawn;      /* pages chosen at random from more than are needed, so that each layout has different ones */
  bool untouched;  /* has no pages yet, and nothing is known of them */
};
/* Returns zeroed memory, touched unless the request says otherwise, which is released at the end of the visit, within
 * the limits of the system and the control group. NULL after a refusal, whose reason is recorded; the probe then returns
 * toll_refused(r). */
void *toll_buffer(struct toll_run *r, struct toll_buffer_request request);
enum toll_status toll_refused(const struct toll_run *r);
/* The number of bytes of a buffer, rounded up to pages, in transparent huge pages; 0 if the system does not report
 * it. */
size_t toll_huge_bytes(const void *buffer);
/* For prepare, before a program allocates this many bytes by itself: skips, with both sizes, if the system or the ABI
 * has less. */
enum toll_status toll_needs_memory(struct toll_run *r, uint64_t bytes);
size_t toll_line_bytes(void);       /* line of the first data cache by the system, else 64 */
size_t toll_last_cache_bytes(void); /* this CPU's largest cache by the system, else 32 MiB */
/* The sum of the largest caches of the first `cpus` CPUs of the visit, each cache counted once. */
size_t toll_last_caches_bytes(const struct toll_run *r, unsigned cpus);
size_t toll_page_bytes(void);
bool toll_share_core(int cpu, int other); /* hardware threads of one core, as the system says */
/* Memory nodes, as the system numbers them, which may leave gaps; 0 nodes where it reports none. */
unsigned toll_node_count(void);
bool toll_node_exists(unsigned node);
bool toll_node_has(unsigned node, int cpu); /* whether the CPU is of the node */
size_t toll_huge_page_bytes(void);          /* as the system says, else 2 MiB */

enum toll_order {
  TOLL_ORDER_RANDOM,     /* one random cycle over all lines (Sattolo 1986) */
  TOLL_ORDER_PAGE_LOCAL, /* random within a few pages at a time: few translations, many misses */
  TOLL_ORDER_FORWARD,
  TOLL_ORDER_BACKWARD
};
/* Writes one cycle of pointers into `bytes` of buffer, one pointer every `stride` bytes, and returns its head. bytes
 * must be at least one stride. */
void **toll_chase(struct toll_run *r, void *buffer, size_t bytes, size_t stride, enum toll_order order);

/* In page-local order, a walk visits all cells of a patch before it enters another. The first function returns the
 * patch of a cell; the second reads all cells of a patch with independent loads. */
size_t toll_chase_patch(size_t stride, size_t index);
void toll_chase_fetch(void *buffer, size_t bytes, size_t stride, size_t patch);

/* A random permutation of `count` elements that is computed and not stored, so that the position after any number of
 * steps is known without walking. The random order of a large chase uses it. */
enum { TOLL_SHUFFLE_ROUNDS = 4 };
struct toll_shuffle {
  uint64_t count;     /* at most UINT32_MAX */
  uint32_t low, high; /* bases of the two digits of a place; their product is the count or a little more */
  uint32_t key[TOLL_SHUFFLE_ROUNDS];
};
bool toll_chase_is_large(size_t count);
struct toll_shuffle toll_chase_shuffle(const struct toll_run *r, size_t count, size_t stride);
size_t toll_shuffle_at(const struct toll_shuffle *shuffle, uint64_t place); /* the index of the cell at a place */

/* A position in a chase, and the number of steps that the body has counted. */
struct toll_cursor {
  void **at;
  uint64_t steps;
};

/* Cursors that one body moves. */
enum { TOLL_MOST_CURSORS = 128 };
struct toll_cursors {
  struct toll_cursor *first;
  size_t count, stride; /* at most TOLL_MOST_CURSORS, so many bytes from one to the next */
  unsigned loads;       /* loads of each cursor in one iteration */
};
/* For check: the body must move each cursor by exactly the requested number of loads. The position in a chase gives
 * this number only modulo the length of the cycle: a body that drops 32 loads per batch is at the right position of a
 * cycle of 64 after every second batch. So the body runs on a separate cycle whose length is a prime. The cursors are
 * restored afterwards. */
enum toll_status toll_check_loads(struct toll_run *r, void (*body)(struct toll_run *r), struct toll_cursors cursors);

/* ---- CPU placement ----------------------------------------------------------------------------------------------- */

/* Pins the calling thread to a CPU by its number; false, with errno, if the system refuses. Workers are pinned before
 * their bodies run: a probe calls this only if its boundary requires another CPU. */
bool toll_pin(int cpu);
/* For a prepare that already measures. Fails where the visit is prepared ahead, on another CPU and beside another
 * measurement; the visit then prepares once more, on its own CPU. */
enum toll_status toll_prepare_in_place(struct toll_run *r);
/* For prepare: moves the timed worker to another CPU of the visit, which becomes r->cpus[0] and appears in the visit's
 * record. A refusal is recorded. */
enum toll_status toll_move(struct toll_run *r, int cpu);
/* The calling thread, and threads and processes that it starts, may run on all CPUs of the visit until it is pinned
 * again. */
bool toll_unpin(const struct toll_run *r);

/* ---- code that may end in a signal ------------------------------------------------------------------------------- */

/* Calls act(context); returns 0, or the signal (SIGBUS, SIGILL, SIGSEGV) that ended it. Not for timed code, nor for
 * several threads at once. */
int toll_guarded(void (*act)(void *context), void *context);

/* ---- pausing the timer ------------------------------------------------------------------------------------------- */

/* Pause and resume the timer in a body or control, to restore a state of the machine before each timed stretch. Each
 * pair adds the cost of one reading of the clock, so a timed stretch must be much longer. Not for companions. A probe
 * that uses them declares `pauses`. */
void toll_timer_pause(void);
void toll_timer_resume(void);

/* ---- randomness (SplitMix64, Steele et al. 2014), the same for the same seed on every machine ---------------- */

uint64_t toll_random(uint64_t *state);
uint64_t toll_random_below(uint64_t *state, uint64_t bound);

/* ---- facts about the system -------------------------------------------------------------------------------------- */

/* Whether the system's accounts of this process (resident set, faults, switches) describe the program. Under a
 * user-mode emulator they describe the emulator, and a probe must not report them. */
bool toll_accounts_are_own(void);

/* Whether the clock is real time. Otherwise it counts instructions: an addition does not stand for a cycle, and memory
 * has no latency. */
bool toll_clock_is_real(void);

/* Called first in the preparation of a probe, or of a parameter's value, whose boundary is the kernel: skips if the
 * clock counts the program's instructions but not the kernel's, and names the targets that count both. */
enum toll_status toll_needs_kernel(struct toll_run *r);

/* ---- CPU features ------------------------------------------------------------------------------------------------ */

/* "sse2" "avx2" "avx512f" "erms" "neon" ...; false for a feature of another architecture. */
bool toll_cpu_has(const char *feature);

/* ---- compiler barriers ------------------------------------------------------------------------------------------- */

/* The value must be in a register and may have changed, so the compiler folds nothing across this point. */
#define TOLL_OPAQUE(value) __asm__ volatile("" : "+r"(value))
/* The value counts as used, so the compiler computes it. No instruction is emitted. */
#define TOLL_USE(value) __asm__ volatile("" : : "r"(value))
/* All memory counts as read and written. */
#define TOLL_MEMORY() __asm__ volatile("" : : : "memory")
#if defined(__GNUC__) && !defined(__clang__)
#define TOLL_NOINLINE __attribute__((noipa)) /* noinline alone does not stop gcc from hoisting a pure function */
#else
#define TOLL_NOINLINE __attribute__((noinline))
#endif

/* A hint to the CPU that this loop spins on a value that another CPU writes. */
static inline void toll_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __asm__ volatile("pause" ::: "memory");
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ volatile("yield" ::: "memory");
#else
  TOLL_MEMORY();
#endif
}

#ifdef __cplusplus
}
#endif
#endif
