/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations common to the runtime's files. Probes never include this.
 */
#ifndef TOLL_INTERNAL_H
#define TOLL_INTERNAL_H

#include "toll.h"

enum {
  TOLL_PROTOCOL = 1,
  TOLL_MOST_PARAMETERS = 16,
  TOLL_MOST_CPUS = 2048,
  TOLL_MOST_LISTED = 8192, /* highest number of CPUs or nodes in a list of the system */
  TOLL_MOST_WORKERS = TOLL_MOST_CPUS,
  TOLL_MOST_GAUGES = 1088, /* one for each of 1,024 CPUs, and further ones of a probe */
  TOLL_LONGEST_LINE = 65536,
  TOLL_REASON_BYTES = 256,
  TOLL_FOLDER_BYTES = 1024,
  TOLL_EXIT_USAGE = 2,
  TOLL_EXIT_DEADLINE = 124
};

/* ---- files.c: small system files ------------------------------------------------------------------------------ */

/* The path of a file of /proc or /sys: below the folder in TOLL_SYSTEM_ROOT if that is set, by which a test replaces
 * the machine, else unchanged. `room`: storage for a longer path. */
const char *toll_system_path(const char *path, char *room, size_t bytes);
bool toll_system_is_folder(void); /* whether that is set */
/* Reads a file's beginning as text without trailing white space. False, with empty text, if it cannot be read. */
bool toll_read_text(const char *path, char *text, size_t room);
/* Reads the number at the beginning of a file. False if there is none. */
bool toll_read_number(const char *path, uint64_t *number);
/* Reads the first four bytes of a file of the device tree as a big-endian number. */
bool toll_read_cell(const char *path, uint32_t *value);
/* Finds `key` at the beginning of a line and copies what follows it and its separators (blank, tab, colon). */
bool toll_find_field(const char *path, const char *key, char *text, size_t room);

/* ---- topology.c: how CPUs and memory nodes relate ---------------------------------------------------------------- */

/* CPUs or nodes by their numbers. */
struct toll_set {
  uint64_t words[TOLL_MOST_LISTED / 64];
};
/* Reads a list in the system's form, "0-3,8". False, with an empty set, if the file names none. */
bool toll_read_set(const char *path, struct toll_set *set);
bool toll_parse_set(const char *text,
                    struct toll_set *set); /* such a list; false, and the set empty, where it is none */
bool toll_set_has(const struct toll_set *set, int number);
void toll_put_set(const char *key, const struct toll_set *set);
/* The hardware threads of a CPU's core. */
bool toll_core_of(int cpu, struct toll_set *set);
unsigned toll_online_cpus(void); /* 0: the system does not tell */
/* Reads from /proc the CPUs that this process may use, if a folder replaces the machine; otherwise the scheduler
 * reports them. */
unsigned toll_reported_cpus(int *cpus, unsigned room);
uint64_t toll_most_khz(int cpu); /* as cpufreq states it; 0: it does not */
/* Writes the element `topology` of the machine's record; null if the system does not report it. */
void toll_put_topology(void);

/* ---- caches.c, cpu_name.c: what the system reports of a CPU ------------------------------------------------------- */

enum { TOLL_MOST_CACHES = 16 };
/* A number is 0 if it is unknown. source: the source of the size; NULL if there is none. shared_cpus: a list. */
struct toll_cache {
  unsigned level;
  const char *kind, *source;
  uint64_t size_bytes, line_bytes, ways;
  char shared_cpus[1024];
};
unsigned toll_caches_of(int cpu, struct toll_cache *caches, unsigned room);
void toll_put_cpu_name(const char *architecture);         /* writes `cpu`; the architecture if there is no name */
bool toll_core_by_midr(int cpu, char *text, size_t room); /* the name of an Arm core; false if it is unknown */
void toll_cores_by_cpuinfo(void (*found)(int cpu, const char *name));

/* ---- request.c: the words of a visit -------------------------------------------------------------------------- */

/* The folder for files that outlast a restart of the system: on a disk, if there is one. */
#define TOLL_USUAL_FOLDER "/var/tmp"

struct toll_setting {
  uint64_t number; /* a size or count */
  unsigned choice; /* index of a choice */
};
enum toll_priority {
  TOLL_PRIORITY_NORMAL,
  TOLL_PRIORITY_REAL_TIME /* where it is permitted, each worker has its own CPU and none is switched out to wait */
};
struct toll_request {
  uint64_t visit, round, samples, sample_ns, seed, deadline_ms;
  uint64_t iterations, control_iterations; /* length of the shorter batch in an earlier visit; 0: not known */
  enum toll_priority priority;
  char target[160];
  char marks[128];                /* the line for marks, `-` for standard output; empty: no marks */
  char folder[TOLL_FOLDER_BYTES]; /* folder for files of a visit */
  char relation[32];              /* the host's name for the relation of the CPUs; only repeated in the record */
  char peer[64];                  /* address of a machine that serves; empty: none */
  int cpus[TOLL_MOST_CPUS];
  unsigned cpu_count;       /* 0: all CPUs that this process may use */
  uint64_t full_width;      /* independent additions of an uncontended core in 1,000 cycles; 0: not known */
  uint64_t wait_ms;         /* longest wait for an uncontended core */
  uint64_t left_ms;         /* remaining time of the run; 0: not known */
  int also[TOLL_MOST_CPUS]; /* CPUs that may stand in for the only one of `cpus` */
  unsigned also_count;
  bool counters_off; /* no events are counted beside samples */
  bool ahead;        /* only prepare, on the CPU below: the visits are requested later */
  int ahead_cpu;
  struct toll_setting settings[TOLL_MOST_PARAMETERS];
};

unsigned toll_parameter_count(const struct toll_probe *probe);
/* Fills request with the probe's defaults. */
void toll_request_defaults(const struct toll_probe *probe, struct toll_request *request);
/* Reads one word. False with a sentence in error if it is malformed; the request must then not be used. */
bool toll_request_word(const struct toll_probe *probe, struct toll_request *request, const char *word, char *error,
                       size_t room);
/* Whether both requests have the same point, CPUs and seed, so that one preparation serves both. */
bool toll_request_same_layout(const struct toll_request *one, const struct toll_request *other);
/* Reads all words of a line, which is changed in place. */
bool toll_request_line(const struct toll_probe *probe, struct toll_request *request, char *line, char *error,
                       size_t room);

/* ---- emit.c: records ------------------------------------------------------------------------------------------ */

uint32_t toll_crc32(uint32_t crc, const void *bytes, size_t count); /* IEEE 802.3; starts with 0 */

void toll_record_open(const char *kind);
void toll_record_close(void); /* seals the line with its number and checksum, and keeps it for the next flush */
/* A key of NULL stands for an element of an array. */
void toll_put_text(const char *key, const char *value); /* NULL value: null */
void toll_put_count(const char *key, uint64_t value);
void toll_put_integer(const char *key, int64_t value);
void toll_put_real(const char *key, double value); /* null if it is not finite */
void toll_put_bool(const char *key, bool value);
void toll_put_null(const char *key);
void toll_put_open(const char *key, char bracket); /* '{' or '[' */
void toll_put_close(char bracket);                 /* '}' or ']' */
/* Writes the `end` record, and flushes. stays: this process waits for another visit of the same point. served_share:
 * share of the timed batches in which a loader served calls; NULL without a loader. */
void toll_emit_end(bool stopped, bool stays, const double *served_share);
void toll_emit_flush(void); /* writes complete lines; safe in a handler that ends the process */

/* ---- clock_kind.c ------------------------------------------------------------------------------------------------ */

/* Reads from the environment which clock this target has. False with a sentence in error if it is not available. */
bool toll_clock_choose(char *error, size_t room);
const char *toll_clock_kind(void); /* hardware, virtual or instructions */
bool toll_counts_instructions(void);
void toll_counter_gate(bool open); /* whether the emulator counts for the profile */
uint64_t toll_counter_read(void);  /* instructions executed so far; only where they are counted */

/* ---- clock.c -------------------------------------------------------------------------------------------------- */

struct toll_clock {
  double resolution_ns, cost_ns;
};
struct toll_pace_reading {
  uint64_t adds, ns;
};

/* CLOCK_MONOTONIC_RAW, which is never stepped or slewed; or the number of instructions, if these are counted. */
uint64_t toll_now_ns(void);
struct toll_clock toll_clock_measure(void);
/* The time of a body or control for this number of iterations, without the parts that toll_timer_pause() excluded. */
uint64_t toll_timed(struct toll_run *r, void (*body)(struct toll_run *r), uint64_t iterations);
bool toll_timer_was_paused(void);                  /* whether the timer was paused so far */
void toll_timer_watch(void (*pause)(bool paused)); /* `pause` is called at each pause and resumption from now on */
/* The control loop: `turns` x TOLL_CONTROL_ADDS dependent additions, one core cycle each on every CPU known. */
enum { TOLL_CONTROL_ADDS = 64 };
void toll_control_loop(uint64_t turns);
/* Returns the rate of the fastest of `trials` control loops of about `ns` each. */
struct toll_pace_reading toll_control_measure(unsigned trials, uint64_t ns);
/* The width loop: independent additions, which use all integer units of the core. */
void toll_width_loop(uint64_t turns);
/* Measures the present state of the core in about 20 us: additions a second of the control loop and of the width
 * loop. Their ratio is the number of independent additions in a cycle, and falls if the sibling hyperthread is busy. */
struct toll_burst {
  double chain_hz, width_hz;
};
struct toll_burst toll_burst_measure(void);
double toll_width_measure(
    void); /* the half of it that a busy sibling hyperthread lowers; 0 where instructions are counted */
void toll_emit_clock(struct toll_clock clock);
void toll_emit_control(const char *when, struct toll_pace_reading reading);

/* ---- witness.c ------------------------------------------------------------------------------------------------ */

#define TOLL_UNSEEN UINT64_MAX

/* Values that the system does not report are TOLL_UNSEEN. delay_ns: time for which the thread was runnable without a
 * CPU (/proc/PID/schedstat, second number). */
struct toll_witness {
  uint64_t involuntary, voluntary, minor_faults, major_faults, steal_ticks, frequency_khz, delay_ns;
  int cpu;
};
/* Opens the files that a witness reads, once for a process. */
void toll_witness_open(const int *cpus, unsigned cpu_count);
struct toll_witness toll_witness_read(void);
/* The evidence that is read between two samples. */
struct toll_look {
  struct toll_witness witness;
  struct toll_burst burst;
};
/* first, last: before and after the sample; width_between_hz: in its middle. */
void toll_emit_witness(uint64_t index, const struct toll_look *first, const struct toll_look *last,
                       double width_between_hz);

/* ---- counters.c: events beside the batches of a sample ---------------------------------------------------------- */

enum { TOLL_MOST_COUNTED = 4 };
/* Opens the group of events of this visit; none if events are not requested, or would disturb the timing. */
void toll_counters_open(const struct toll_run *r);
void toll_counters_close(void);
unsigned toll_counters_many(void);
/* Reads this thread's counts so far, of all events of the group. */
void toll_counters_read(uint64_t counts[TOLL_MOST_COUNTED]);
/* Whether all events were counted for the whole time since the last call. */
bool toll_counters_were_whole(void);
void toll_counters_emit(void); /* writes which events they are, and how they are read */

/* ---- core.c: an uncontended core ------------------------------------------------------------------------------- */

/* Whether the core was uncontended; true if its full width is unknown. */
bool toll_core_is_whole(const struct toll_run *r, struct toll_burst seen);
/* At the begin of a visit: moves the worker to the first permitted CPU whose core is uncontended. Without one it
 * stays. */
void toll_core_choose(struct toll_run *r);
/* Waits until the core is uncontended; false if it was not within the visit's waiting time. seen: the last reading. */
bool toll_core_await(const struct toll_run *r, struct toll_burst seen);
uint64_t toll_core_waited_ns(void); /* in this visit */

/* ---- account.c: memory, faults and CPU time of this process --------------------------------------------------- */

extern const struct toll_metric toll_account_metrics[]; /* reported metrics; ends with {0} */
struct toll_account {
  uint64_t cpu_ns, minor_faults, major_faults;
};
/* CPU time is the calling thread's, and is read for each batch: between two batches the core's width is measured. Faults
 * are the process's. */
struct toll_account toll_account_read(void); /* faults alone */
void toll_account_begin(void);               /* once the program has run once */
uint64_t toll_account_cpu_ns(void);
void toll_account_batch(uint64_t before_ns); /* adds the CPU time of a batch */
/* Adds the page faults since `before`, of bodies with this number of iterations. */
void toll_account_body(const struct toll_account *before, uint64_t iterations);
/* Bytes of the heap and of anonymous mappings, from a file in the form of /proc/PID/maps; 0 if it cannot be read. */
void toll_account_maps(const char *path, double *heap, double *mapped);
/* Reports all accounts; operations: of one iteration. Under a user-mode emulator, reports only the executable's
 * size. */
void toll_account_report(struct toll_run *r, double operations);

/* ---- crew.c: companions ---------------------------------------------------------------------------------------- */

struct toll_lane {
  uint64_t iterations, ns;
};
/* Reads the CPUs that this process may use, in the system's order, at most `room`. Returns their number, 0 if the
 * system does not report them. */
unsigned toll_allowed_cpus(int *cpus, unsigned room);
/* Lets the calling thread run on these CPUs. False, with errno, if the system refuses. */
bool toll_allow(const int *cpus, unsigned count);
/* Starts every companion that the probe's roles ask for. */
enum toll_status toll_crew_start(struct toll_run *r);
/* Runs one batch of the body with all companions and returns the timed worker's ns. Lanes may be NULL. */
uint64_t toll_crew_batch(struct toll_run *r, uint64_t iterations, struct toll_lane *lanes);
/* TOLL_SKIPPED if a worker may run on another CPU than the visit requests; known once a batch has run. */
enum toll_status toll_crew_placed(struct toll_run *r);
/* Whether no two workers share a CPU; true of a worker without companions. */
bool toll_crew_is_spread(void);
unsigned toll_crew_lanes(void); /* how many companions have a time of their own */
unsigned toll_crew_turns(void); /* how many workers are timed one after another; 1: the timed worker alone */
void toll_crew_stop(struct toll_run *r);
void toll_crew_put_cpus(void); /* the element `workers` of a visit's record, where it has companions */

/* ---- mark.c: a clock at the other end of a line ----------------------------------------------------------------- */

/* Before a visit's first sample: opens the line, and counts marks from 0 again. TOLL_FAILED if the line is refused. */
enum toll_status toll_marks_open(struct toll_run *r);
bool toll_marks_are_on(void);
uint64_t toll_marks_made(void);
/* One byte, if the visit asked for marks. Returns this machine's own time right before it was written. */
uint64_t toll_mark(void);
/* Sleeps, so that a kernel worker can deliver the marks of a terminal although a real-time probe occupies its CPU. */
void toll_marks_let_pass(const struct toll_run *r);

/* ---- sample.c ------------------------------------------------------------------------------------------------- */

/* Calls batch(context, iterations) -> ns and finds the iterations that take about target_ns, judged by the shortest
 * of several trials, within deadline_ns. A multiple of quantum. */
typedef uint64_t toll_batch(void *context, uint64_t iterations);
uint64_t toll_calibrate(toll_batch *batch, void *context, uint64_t quantum, uint64_t target_ns, uint64_t deadline_ns);
void toll_sample_all(struct toll_run *r, struct toll_clock clock);

/* ---- visit.c --------------------------------------------------------------------------------------------------- */

enum { TOLL_MOST_STRETCHES = 4 };
struct toll_visit {
  const struct toll_probe *probe;
  struct toll_request request;
  enum toll_status status;
  char reason[TOLL_REASON_BYTES];
  bool pinned, real_time, proved;
  const char *chosen_parameter, *chosen; /* toll_chose(); NULL: nothing */
  uint64_t proof_ns;                     /* time of the first batch, of the fewest iterations */
  uint64_t buffer_bytes, chase_bytes;    /* bytes that the probe requested in all */
  uint64_t hugetlb_bytes;                /* bytes of buffers in explicit huge pages */
  double chase_in_order;                 /* share of a chase's first steps that lead to a neighbouring cell */
  uint64_t chase_stride, chase_pages;    /* pages: that its first 256 steps lead to */
  uint64_t counted_ns;                   /* time of counting the work of batches */
  uint64_t sampled;                      /* iterations of a sample's shorter batch */
  struct toll_stretch {
    char *start;
    size_t bytes;
  } buffers[TOLL_MOST_STRETCHES]; /* buffers of this process alone */
  unsigned buffer_count;          /* more buffers than are recorded: not all are known */
  unsigned gauge_count;
  struct toll_gauge {
    const char *metric;
    double value;
  } gauges[TOLL_MOST_GAUGES];
};
/* Makes one visit and emits its whole stream. */
void toll_visit_make(const struct toll_probe *probe, const struct toll_request *request);
/* Makes a visit and further visits with the same preparation, until next() returns false or a request that needs
 * another preparation. next: fills request, false at the end; NULL for a single visit. */
typedef bool toll_next_visit(const struct toll_probe *probe, struct toll_request *request);
void toll_visits_serve(const struct toll_probe *probe, const struct toll_request *first, toll_next_visit *next);

/* ---- probe_api.c ------------------------------------------------------------------------------------------------ */

void toll_ask_to_stop(void); /* safe in a handler */
bool toll_stop_asked(void);

/* ---- profile.c -------------------------------------------------------------------------------------------------- */

/* If the environment requests a profile, runs the body under a sampler instead of taking samples, and emits the
 * addresses. False if it does not. */
bool toll_profile_take(struct toll_run *r);
void toll_profile_run(bool on);

/* ---- count_work.c ---------------------------------------------------------------------------------------------------- */

/* Counts the work of batches, and emits the records. */
void toll_count(struct toll_run *r);

/* ---- touch.c ---------------------------------------------------------------------------------------------------- */

/* Counts how often batches of a body without system calls enter a page of its buffers, and emits the record. */
void toll_touch(struct toll_run *r);

/* ---- served.c --------------------------------------------------------------------------------------------------- */

/* Whether a loader serves the system calls; their number so far; the loader's resident memory. */
bool toll_is_served(void);
uint64_t toll_served_calls(void);
double toll_served_bytes(void);
/* Served calls so far. started: processes and threads. */
struct toll_served {
  uint64_t calls, started;
};
struct toll_served toll_served_read(void);
/* Records that a timed batch has ended. before: number of served calls when it began. */
void toll_served_add(struct toll_served before, uint64_t took_ns);
/* The share of the timed batches in which calls were served, since the last call of this function; 1 if they started
 * a process, whose calls are not counted. */
double toll_served_share(void);

/* ---- priority.c ------------------------------------------------------------------------------------------------- */

/* Gives this thread, the timed worker, the lowest real-time priority, if that is requested, permitted and safe; else
 * false. has_own_cpu: no companion shares its CPU. */
bool toll_priority_raise(const struct toll_probe *probe, const struct toll_request *request, bool has_own_cpu);
/* Gives that priority to a companion, if the timed worker has it. */
bool toll_priority_join(void);
void toll_priority_drop(void);
/* Gives timers the slack of an ordinary process, if a real-time process has started this one. */
void toll_priority_restore_slack(void);

/* ---- describe.c, machine.c -------------------------------------------------------------------------------------- */

/* The missing part of a probe's description, NULL if it is complete. An incomplete probe is not built. */
const char *toll_description_lacks(const struct toll_probe *probe);
void toll_describe(const struct toll_probe *probe);
void toll_machine(void);
void toll_put_memory_modules(void); /* memory_modules.c: facts of the modules that the firmware lists */

/* ---- main.c ------------------------------------------------------------------------------------------------------ */

/* The whole command line; returns the exit status. */
int toll_main(const struct toll_probe *probe, int count, char **words);

#endif
