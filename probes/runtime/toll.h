/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole contract between a probe and the runtime.
 *
 * A probe crosses one boundary of the machine and knows nothing else. It offers a description of itself, a body that
 * crosses the boundary `iterations` times, a control that is the same body less the boundary, and a check that proves
 * the work was done. It neither times, prints, parses nor forks: the runtime does.
 *
 * The runtime times the body over n and over 2n iterations. The cost of one iteration is the difference divided by n,
 * so the cost of calling the body, of reading the clock and of starting workers cancels without ever being measured
 * apart. Where there is a control, it is timed the same way inside the same sample.
 *
 * Beside it stand helpers for what more than one family does: asked.h (sizes that an ABI can address), walk.h (chains of
 * dependent loads), wait.h (futexes and appointments).
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

/* ---- what happened ------------------------------------------------------------------------------------------- */

enum toll_status {
  TOLL_OK,
  TOLL_SKIPPED, /* the boundary does not exist here, or may not be crossed; the reason reaches the report */
  TOLL_WRONG,   /* the work was not done as it should be: a wrong answer has no number */
  TOLL_FAILED   /* something that the probe needs was refused */
};

struct toll_run;

/* Each records a printf-style reason and returns its status, so that a probe can write `return toll_skip(r, ...)`. */
enum toll_status toll_skip(struct toll_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum toll_status toll_wrong(struct toll_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum toll_status toll_fail(struct toll_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- what a probe says of itself ----------------------------------------------------------------------------- */

enum toll_better { TOLL_LESS, TOLL_MORE, TOLL_NEITHER };

/* What a metric's value is made of. */
enum toll_source {
  TOLL_BODY,       /* the body's time for one iteration */
  TOLL_CONTROL,    /* the control's time for one iteration */
  TOLL_DIFFERENCE, /* body less control, both taken inside the same sample */
  TOLL_COMPANIONS, /* what the background companions achieved while the timed worker ran */
  TOLL_TOGETHER,   /* the timed worker and its background companions, added up (rates only) */
  TOLL_GAUGE       /* a value that the probe gave with toll_report() */
};

/* Unit is one of: ns cycle instruction B/s bit/s flop/s op/s B fault ratio count.
 * A time in ns or cycle is divided by work.operations; a rate is work.bytes (or their bits), work.flops or
 * work.operations over time. */
struct toll_metric {
  const char *name, *unit;
  enum toll_better better;
  const char *summary;
  enum toll_source source;
  const char *means; /* what analysis may use it for: the closed list is in docs/add-a-probe.md; NULL: nothing */
  const char *toll;  /* its line in the toll table, `{parameter}` replaced by the value; NULL: no line */
};

enum toll_kind {
  TOLL_SIZE,  /* bytes */
  TOLL_COUNT, /* how many */
  TOLL_CHOICE /* one of some words */
};
/* Of the last two the values are the numbers of the memory nodes that have CPUs, or memory. */
enum toll_scale { TOLL_ABSOLUTE, TOLL_TIMES_LAST_CACHE, TOLL_TIMES_CPUS, TOLL_NODES_WITH_CPUS, TOLL_NODES_WITH_MEMORY };

#define TOLL_END UINT64_MAX

/* An axis with its default sweep: either a list of values, or from..to with `per_octave` steps of equal length inside
 * every doubling (1024 1280 1536 1792 2048 ...: whole lines, and the odd sizes that caches really have). */
struct toll_parameter {
  const char *name;
  enum toll_kind kind;
  const char *summary;
  uint64_t from, to;
  enum toll_scale to_scale;
  unsigned per_octave;
  const uint64_t *values;     /* ends with TOLL_END */
  const char *const *choices; /* ends with NULL */
  const char *typical;        /* the one value that the toll table shows; NULL: all of them */
  bool refine;                /* denser where the curve bends */
};

/* What one iteration does; the host derives rates from it. */
struct toll_work {
  double bytes, flops;
  double bus_bytes;       /* estimated traffic with write-allocate counted; 0: as bytes */
  double operations;      /* 0: one */
  double footprint_bytes; /* of memory that an iteration touches, each counted once; 0: not told */
};

enum toll_worker { TOLL_PROCESS, TOLL_THREAD };
enum toll_pace {
  TOLL_LOCKSTEP,  /* runs its body once for each batch, with the same iterations as the timed worker */
  TOLL_BACKGROUND /* runs its body again and again until the timed worker is done; what it achieved is recorded */
};

/* A kind of companion to the timed worker (worker 0). Workers are pinned and start after a barrier. */
struct toll_role {
  const char *name;
  void (*body)(struct toll_run *r);
  enum toll_worker worker;
  enum toll_pace pace;
  unsigned (*count)(const struct toll_run *r);                /* how many; NULL: one */
  unsigned (*cpu)(const struct toll_run *r, unsigned worker); /* index into r->cpus for a worker; NULL: its number */
  uint64_t background_iterations;                             /* of one turn of a background body; 0: one */
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
  bool alike;                    /* the control takes as many iterations as the body: both go round as much memory */
  bool switches;                 /* being switched out is what the probe does: no evidence against a sample */
  bool faults;                   /* likewise for page faults */
  bool sleeps;                   /* a companion sleeps in a batch: the scheduler that wakes it is part of the answer */
  unsigned calls;                /* system calls of one operation, which are counted; 0: not told */
  bool pauses;                   /* the body stops the watch: part of it is not timed by design */
  bool accounts;                 /* memory, faults and CPU time of the process are part of the answer (account.c) */
  bool spreads;                  /* what it starts may go to every CPU of the visit, though it has no companions */
  bool serves;                   /* with TOLL_SERVE in its environment it is the other end on another machine */
  const char *library;           /* what it is built with beside the C library: names in probes/libraries.toml */
  int revision;                  /* raised whenever the number means something else */
};

extern const struct toll_probe toll_probe; /* each probe file defines it */

/* What the build calls this probe, its ABI and its compiler flags. The build defines the three macros for the probe's own
 * file, which so carries its name; the runtime is compiled once for an ABI and knows no name. */
extern const char toll_probe_name[], toll_abi_name[], toll_build_flags[];
#ifdef TOLL_PROBE
const char toll_probe_name[] = TOLL_PROBE;
const char toll_abi_name[] = TOLL_ABI;
const char toll_build_flags[] = TOLL_FLAGS;
#endif

/* ---- what a probe sees --------------------------------------------------------------------------------------- */

struct toll_run {
  uint64_t iterations; /* of this batch */
  void *state;
  unsigned worker, workers;
  const int *cpus; /* the CPUs of this visit, by the system's numbers */
  unsigned cpu_count;
  uint64_t seed;
  struct toll_visit *visit; /* the runtime's own */
};

uint64_t toll_number(const struct toll_run *r, const char *parameter); /* a TOLL_SIZE or TOLL_COUNT */
unsigned toll_choice(const struct toll_run *r, const char *parameter); /* index into the parameter's choices */
/* Where a probe may make files, and has to remove them: the run's own folder, or what the person named. */
const char *toll_folder(const struct toll_run *r);
/* Where another machine serves this visit, as the host wrote it; empty where there is none. */
const char *toll_peer(const struct toll_run *r);
void toll_report(struct toll_run *r, const char *metric, double value);

/* ---- memory -------------------------------------------------------------------------------------------------- */

enum toll_pages {
  TOLL_PAGES_SMALL, /* the base page, huge pages refused */
  TOLL_PAGES_HUGE,  /* huge pages: transparent ones, verified after the fact, else explicit ones (hugetlb) */
  TOLL_PAGES_ANY,   /* as the system likes: what a program gets that asks for nothing */
  TOLL_PAGES_LARGE  /* huge pages where the system gives them, else small ones: toll_huge_bytes() tells */
};
struct toll_buffer_request {
  size_t bytes;
  enum toll_pages pages;
  size_t misalign; /* bytes past a page boundary */
  unsigned colour; /* moves the start by colour x 576 B, so that two streams differ in their low 12 address bits */
  bool shared;     /* visible to companions that are processes */
  bool drawn;      /* from more pages than are wanted, where they fit a huge page: each layout gets others */
};
/* Touched, zeroed memory, released at the end of the visit. Less than what the system and the control group have to
 * give. NULL after a refusal, whose reason is then recorded: the probe returns toll_refused(r). */
void *toll_buffer(struct toll_run *r, struct toll_buffer_request request);
enum toll_status toll_refused(const struct toll_run *r);
/* How much of a buffer, rounded up to whole pages, lies in transparent huge pages; 0 where the system does not say. */
size_t toll_huge_bytes(const void *buffer);
/* For prepare, before a program takes so many bytes in its own way: skips, and names both sizes, where the system or this
 * ABI has less. */
enum toll_status toll_needs_memory(struct toll_run *r, uint64_t bytes);
size_t toll_line_bytes(void);       /* of the first data cache as the system says, else 64 */
size_t toll_last_cache_bytes(void); /* of this CPU's largest cache as the system says, else 32 MiB */
/* Of all largest caches that the first so many CPUs of the visit have between them. */
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
/* Threads one cycle of pointers through `bytes` of buffer, one pointer every `stride` bytes, and returns its head.
 * bytes must hold at least one stride. */
void **toll_chase(struct toll_run *r, void *buffer, size_t bytes, size_t stride, enum toll_order order);

/* In page-local order a walk goes through all cells of a patch before it comes to another: the patch of the cell with this
 * index, and all of a patch's cells read, none of which waits for another. */
size_t toll_chase_patch(size_t stride, size_t index);
void toll_chase_fetch(void *buffer, size_t bytes, size_t stride, size_t patch);

/* A random order of `count` things that is computed, not kept: where the walk stands after so many steps is known without
 * going there. In random order a chase of many cells is laid by it. */
enum { TOLL_SHUFFLE_ROUNDS = 4 };
struct toll_shuffle {
  uint64_t count;     /* at most UINT32_MAX */
  uint32_t low, high; /* bases of the two digits of a place; their product is the count or a little more */
  uint32_t key[TOLL_SHUFFLE_ROUNDS];
};
bool toll_chase_is_large(size_t count);
struct toll_shuffle toll_chase_shuffle(const struct toll_run *r, size_t count, size_t stride);
size_t toll_shuffle_at(const struct toll_shuffle *shuffle, uint64_t place); /* the index of the cell at a place */

/* The place of a chase, and the number of steps that the body counted on the way there. */
struct toll_cursor {
  void **at;
  uint64_t steps;
};

/* Cursors that one body moves. */
enum { TOLL_MOST_CURSORS = 128 };
struct toll_cursors {
  struct toll_cursor *first;
  size_t count, stride; /* at most TOLL_MOST_CURSORS, so many bytes from one to the next */
  unsigned loads;       /* of each cursor in one iteration */
};
/* For check: the body must move each cursor by exactly the loads that it is asked for. The place of a chase tells its
 * steps only modulo the length of its cycle: a body that drops 32 loads a batch stands at the right place of a cycle of
 * 64 after every second batch. So the body is run on a cycle of its own, whose length is a prime. Afterwards the cursors
 * are as they were. */
enum toll_status toll_check_loads(struct toll_run *r, void (*body)(struct toll_run *r), struct toll_cursors cursors);

/* ---- places ---------------------------------------------------------------------------------------------------- */

/* Pins the calling thread to a CPU by the system's number; false, with errno, where the system refuses. A worker is
 * pinned before its body runs: a probe asks only where its boundary needs another place. */
bool toll_pin(int cpu);
/* For prepare: the timed worker goes to another of the visit's CPUs, which becomes r->cpus[0], so that the visit's record
 * tells where it ran. Refusals are recorded. */
enum toll_status toll_move(struct toll_run *r, int cpu);
/* The calling thread may run on all CPUs of the visit until it is pinned again, and what it starts as well. */
bool toll_unpin(const struct toll_run *r);

/* ---- what the machine may refuse --------------------------------------------------------------------------------- */

/* Calls act(context); returns 0, or the signal (SIGBUS, SIGILL, SIGSEGV) that stopped it on its way. Not for what is
 * timed, nor for more than one thread at a time. */
int toll_guarded(void (*act)(void *context), void *context);

/* ---- what is not timed ---------------------------------------------------------------------------------------- */

/* Between the two the timed worker's clock stands still, in its body or control: for a state of the machine that has to
 * be made anew before each timed stretch. Each pair leaves the cost of one reading of the clock in the time, so a
 * stretch is long beside that. Neither is for companions. A probe that uses them declares `pauses`. */
void toll_timer_pause(void);
void toll_timer_resume(void);

/* ---- randomness (SplitMix64, Steele et al. 2014), the same for the same seed on every machine ---------------- */

uint64_t toll_random(uint64_t *state);
uint64_t toll_random_below(uint64_t *state, uint64_t bound);

/* ---- what the system can say ---------------------------------------------------------------------------------- */

/* Whether the system's accounts of this process (resident set, faults, switches) are of the program alone. Under an
 * emulator of a CPU they are mostly the emulator's own, and a probe must not report them. */
bool toll_accounts_are_own(void);

/* Whether time passes here as on a core. Else it is counted: an addition is no cycle, and memory answers at once, however
 * scattered it is. */
bool toll_clock_is_real(void);

/* First in the preparation of a probe, or of a choice of one, whose boundary is the kernel's: skips where the clock counts
 * the program's own instructions and none of its kernel's, and says which place sees both. */
enum toll_status toll_needs_kernel(struct toll_run *r);

/* ---- what the CPU can do ------------------------------------------------------------------------------------- */

/* "sse2" "avx2" "avx512f" "erms" "neon" ...: false for what this architecture has never heard of. */
bool toll_cpu_has(const char *feature);

/* ---- keeping the compiler honest ----------------------------------------------------------------------------- */

/* The value is needed in a register, and may have changed: nothing is folded across it. */
#define TOLL_OPAQUE(value) __asm__ volatile("" : "+r"(value))
/* The value is used: it is computed, and nothing else happens. */
#define TOLL_USE(value) __asm__ volatile("" : : "r"(value))
/* All memory may have been read and written. */
#define TOLL_MEMORY() __asm__ volatile("" : : : "memory")
#if defined(__GNUC__) && !defined(__clang__)
#define TOLL_NOINLINE __attribute__((noipa)) /* noinline alone does not stop gcc from hoisting a pure function */
#else
#define TOLL_NOINLINE __attribute__((noinline))
#endif

/* Tells the CPU that this is a spin on a value that another CPU writes. */
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
