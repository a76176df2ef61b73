/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner of a bundle (docs/bundle.md): reads the plan that the host wrote, starts the probes on a machine without
 * Python, and writes an ordinary journal. It needs fork, execve, pipes and wait; every other call may be missing.
 */
#ifndef TOLL_BUNDLE_H
#define TOLL_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  MOST_PROBES = 256,
  MOST_METRICS = 1024,
  MOST_AXES = 16,
  MOST_VALUES = 512,
  MOST_POINTS = 4096,
  MOST_CPUS = 256,
  MOST_NODES = 64,
  FIRST_PAIRS = 28, /* pairs of CPUs in the first round of a matrix; each round visits all pairs if there are no more */
  PASSES = 2,
  SETS = 3, /* kinds of sets of CPUs: cores, last-level caches, packages */
  SET_CPUS = 1024,
  KEPT_VISITS = 24,
  LONGEST_LINE = 65536,
  WORDS_BYTES = 256,
  EXIT_ANSWERED = 0,
  EXIT_USAGE = 2,
  EXIT_WRITING = 5,
  EXIT_INTERRUPTED = 130
};

enum placement { ONE_CPU, ALL_CPUS, PAIRS };

struct metric {
  unsigned probe;
  char name[48], unit[16], source[16], means[40], toll[160];
};

struct probe {
  char name[64];
  enum placement placement;
  unsigned revision, first_metric, metrics;
};

/* One probe under one ABI at one value of each parameter, with the results of its visits. */
struct point {
  uint16_t probe, abi;
  char words[WORDS_BYTES]; /* NAME=VALUE ... in the order of the probe's parameters */
  uint64_t bytes;          /* bytes that its sizes state */
  uint64_t iterations, control_iterations;
  bool is_typical, is_final; /* is_final: no further visit changes its row */
  unsigned failures, visits, layouts;
  unsigned pairs_seen; /* visited pairs of a matrix, in all passes */
  double seconds;      /* duration of the last visit; before the first one an estimate */
  float *values;       /* KEPT_VISITS for each metric of the probe */
};

struct node {
  unsigned number;
  bool has_cpus, has_memory;
};

/* The size that a buffer beyond the last-level cache exceeds, which is also the assumed last cache of a machine that
 * reports none. */
enum { LEAST_LAST_BYTES = 32 << 20 };

struct machine {
  char architecture[32], host[80], cpu[128], kernel[96];
  uint64_t cache_bytes[10], last_bytes, memory_bytes;
  unsigned cpus; /* number of online CPUs */
  int allowed[MOST_CPUS];
  unsigned allowed_count;
  struct node nodes[MOST_NODES];
  unsigned node_count;
  double core_hz;
  short sets[SETS][SET_CPUS]; /* for each CPU: the set that contains it; -1: none */
};

struct plan {
  char suite[80];
  double budget_s, precision;
  struct probe probes[MOST_PROBES];
  unsigned probe_count;
  struct metric metrics[MOST_METRICS];
  unsigned metric_count;
  char abis[16][32]; /* ABIs that run here */
  unsigned abi_count;
  struct point points[MOST_POINTS];
  unsigned point_count;
  unsigned left_out; /* points that a short budget leaves out */
};

/* ---- words.c ---- */
/* Returns the beginning of a key's value in a JSON object of one line; NULL if the object lacks the key. */
const char *value_of(const char *line, const char *key);
double number_of(const char *line, const char *key, double otherwise);
bool text_of(const char *line, const char *key, char *text, size_t room);
double now_s(void);
bool is_there(const char *path); /* a file that can be read */

/* ---- machine.c ---- */
/* line: a record `machine`, and a record `control` after it. */
void machine_read(struct machine *machine, const char *line);
unsigned nodes_with_memory(const struct machine *machine);

/* ---- pairs.c ---- */
struct pair {
  int one, two;
};
uint64_t mixed(uint64_t value);
unsigned pairs_of(const struct machine *machine);
/* At most FIRST_PAIRS. */
unsigned pairs_of_each_relation(const struct machine *machine, uint64_t seed, struct pair *pairs);
/* The pairs after the `seen` ones of all passes. */
unsigned pairs_next(const struct machine *machine, uint64_t seed, unsigned seen, unsigned most, struct pair *pairs);

/* ---- plan.c ---- */
/* False with a sentence in error if the file is no plan. */
bool plan_read(struct plan *plan, const char *folder, const struct machine *machine, double budget_s, char *error,
               size_t room);

/* ---- journal.c ---- */
bool journal_open(const char *folder); /* NULL: records go to standard output */
bool journal_write(const char *bytes, size_t count);
/* Adds a line `{"k":...` without its last brace, sealed with its number. */
size_t sealed(char *into, size_t room, const char *record, uint64_t number);
/* Whether a line, without its newline, is a record whose checksum holds; its number is then set. */
bool is_record(const char *line, size_t length, uint64_t *number);
void journal_note(const char *status, double seconds, const char *reason, unsigned visits);

/* ---- visit.c ---- */
struct answer {
  char *text; /* one whole stream; the next visit reuses its memory */
  size_t length;
  char status[24], reason[200];
  double seconds;
};
extern volatile int stop_asked;
/* The unchanged output of a command: for --machine. */
size_t output_of(char *const *words, char *text, size_t room, double limit_s);
/* Makes visits of one layout by one process, which reads `lines`, and returns the first one's answer. seconds: of
 * all visits. visit_record: replaces the output of a first visit that printed nothing. */
struct answer visits_make(char *const *words, const char *lines, const char *visit_record, double limit_s);
/* The answer of the next visit. False if there is none. */
bool visits_next(struct answer *answer);

/* ---- report.c ---- */
/* The values of an answer's metrics, kept with the point. */
void values_keep(const struct plan *plan, struct point *point, const struct answer *answer);
struct interval {
  double value, half; /* half: of the 95 % interval; infinite of fewer than three visits */
  unsigned visits;
};
/* Relative half-width of the 95 % interval of a point's widest metric; 1 where it has fewer than three visits. */
double half_width(const struct plan *plan, const struct point *point);
/* Prints the rows that represent their probes, without inferences. */
void report_print(const struct plan *plan, const struct machine *machine);

#endif
