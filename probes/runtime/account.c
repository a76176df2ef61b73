/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's accounts of this process: memory, page faults and CPU time, for probes that report them.
 *
 * They come from the kernel's accounts (proc(5)). The accounts of a guest's kernel are valid too. Under a user-mode
 * emulator the host's accounts are not valid, since they describe the emulator.
 */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "internal.h"

#define GAUGE(metric, of, text) \
  { .name = metric, .unit = of, .summary = text, .source = TOLL_GAUGE }
#define MEANING(metric, of, meaning, text) \
  { .name = metric, .unit = of, .summary = text, .source = TOLL_GAUGE, .means = meaning }

const struct toll_metric toll_account_metrics[] = {
    MEANING("cpu_time", "ns", "cpu-time", "CPU time of one operation, in user and kernel mode"),
    MEANING("resident_peak", "B", "resident-peak", "the most that was ever resident"),
    MEANING("resident", "B", "account", "resident at the end"),
    MEANING("proportional", "B", "account", "resident at the end, each page that others share counted in part"),
    MEANING("page_tables", "B", "account", "page tables of the process"),
    MEANING("heap", "B", "account", "taken from the system by the heap's end (brk)"),
    MEANING("mapped", "B", "account", "taken from the system by maps without a file"),
    MEANING("minor_faults", "fault", "account", "page faults until the program is laid out and has run once"),
    MEANING("major_faults", "fault", "account", "page faults that waited for a disk"),
    MEANING("faults_each", "fault", "faults-of-operation", "page faults of one operation, once it has run"),
    GAUGE("code", "B", "code of the executable"),
    GAUGE("data", "B", "data of the executable, those without initial values among them"),
    {0}};

static struct {
  struct toll_account begun;     /* when the program had run once */
  struct toll_account in_bodies; /* accounts of all timed bodies */
  uint64_t iterations;           /* their iterations */
  uint64_t read_ns;              /* time between two readings of the CPU clock */
} totals;

uint64_t toll_account_cpu_ns(void) {
  struct timespec cpu = {0, 0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec;
}

/* The least of several readings: 0.2 us, or about 4 us if a loader serves the call (served.c). */
static uint64_t least_apart(void) {
  enum { TRIALS = 20 };
  uint64_t least = UINT64_MAX;
  for (unsigned trial = 0; trial < TRIALS; trial++) {
    const uint64_t before = toll_account_cpu_ns(), took = toll_account_cpu_ns() - before;
    if (took < least) least = took;
  }
  return least;
}

struct toll_account toll_account_read(void) {
  struct rusage use;
  memset(&use, 0, sizeof use);
  getrusage(RUSAGE_SELF, &use);
  return (struct toll_account){.minor_faults = (uint64_t)use.ru_minflt, .major_faults = (uint64_t)use.ru_majflt};
}

void toll_account_begin(void) {
  totals.begun = toll_account_read();
  totals.read_ns = least_apart();
}

void toll_account_batch(uint64_t before_ns) {
  const uint64_t took = toll_account_cpu_ns() - before_ns;
  totals.in_bodies.cpu_ns += took > totals.read_ns ? took - totals.read_ns : 0;
}

void toll_account_body(const struct toll_account *before, uint64_t iterations) {
  const struct toll_account after = toll_account_read();
  totals.in_bodies.minor_faults += after.minor_faults - before->minor_faults;
  totals.iterations += iterations;
}

/* The value of a line `FIELD: N kB` in bytes; 0 if there is none. */
static double bytes_of(const char *path, const char *field) {
  char text[32];
  return toll_find_field(path, field, text, sizeof text) ? 1024 * strtod(text, NULL) : 0;
}

/* The heap and the private mappings of a process, from lines `start-end rwxp offset device inode path`. A mapping
 * without a file that lies within the executable's address range is its .bss, and is not counted. */
void toll_account_maps(const char *path, double *heap, double *mapped) {
  extern char __executable_start[], _end[];
  char line[512];
  FILE *file = fopen(path, "r");
  *heap = *mapped = 0;
  while (file && fgets(line, sizeof line, file)) {
    unsigned long long start, end, inode;
    char may[8], name[64] = "";
    if (sscanf(line, "%llx-%llx %7s %*s %*s %llu %63s", &start, &end, may, &inode, name) < 4) continue;
    if (strcmp(name, "[heap]") == 0)
      *heap += (double)(end - start);
    else if (toll_is_served() && start > UINT32_MAX)
      continue; /* the loader's */
    else if (inode == 0 && may[1] == 'w' && may[3] == 'p' && strncmp(name, "[stack", 6) != 0 &&
             !(start >= (uintptr_t)__executable_start && start < (uintptr_t)_end))
      *mapped += (double)(end - start);
  }
  if (file) fclose(file);
}

struct parts {
  double code, data;
};

static int add_part(struct dl_phdr_info *object, size_t size, void *context) {
  struct parts *parts = context;
  (void)size;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    if (object->dlpi_phdr[i].p_type != PT_LOAD) continue;
    if (object->dlpi_phdr[i].p_flags & PF_X) parts->code += (double)object->dlpi_phdr[i].p_memsz;
    if (object->dlpi_phdr[i].p_flags & PF_W) parts->data += (double)object->dlpi_phdr[i].p_memsz;
  }
  return 1; /* the executable's mappings come first; those that the kernel adds (vdso, vvar) are left out */
}

static void report(struct toll_run *r, const char *metric, double value) {
  if (value > 0) toll_report(r, metric, value);
}

/* Anonymous memory counts by its proportional share (PSS), file-backed memory in full (RSS). File-backed memory of a
 * static program is its code, which the resident processes of other layouts map too. Their number depends on the run,
 * so a proportional share of the code would differ by a third from run to run. Linux before 5.3 reports only the PSS of
 * both together. */
static double proportional(double resident) {
  const char *path = "/proc/self/smaps_rollup";
  char text[32];
  if (!toll_find_field(path, "Pss_Anon", text, sizeof text)) return bytes_of(path, "Pss");
  return resident - bytes_of(path, "Anonymous") + bytes_of(path, "Pss_Anon");
}

/* The high-water mark lags: kernels up to 6.1 add a task's pages to it in batches of 64, later kernels in batches per
 * CPU. smaps_rollup counts the resident pages exactly, so that its value is a lower bound of the peak. getrusage's
 * ru_maxrss is of no use: a process inherits it through exec from the program that started it. */
static void report_resident(struct toll_run *r) {
  const double loader = toll_served_bytes();
  const double marked = bytes_of("/proc/self/status", "VmHWM") - loader,
               now = bytes_of("/proc/self/smaps_rollup", "Rss") - loader;
  report(r, "resident_peak", marked > now ? marked : now);
  report(r, "resident", now);
  report(r, "proportional", proportional(now));
  if (!toll_is_served()) report(r, "page_tables", bytes_of("/proc/self/status", "VmPTE")); /* some are the loader's */
}

static void report_taken(struct toll_run *r) {
  double heap, mapped;
  toll_account_maps("/proc/self/maps", &heap, &mapped);
  toll_report(r, "heap", heap);
  toll_report(r, "mapped", mapped);
}

void toll_account_report(struct toll_run *r, double operations) {
  struct parts parts = {0, 0};
  dl_iterate_phdr(add_part, &parts);
  report(r, "code", parts.code);
  report(r, "data", parts.data);
  if (!toll_accounts_are_own()) return;
  report_resident(r);
  report_taken(r);
  toll_report(r, "minor_faults", (double)totals.begun.minor_faults);
  toll_report(r, "major_faults", (double)totals.begun.major_faults);
  if (!totals.iterations) return;
  toll_report(r, "cpu_time", (double)totals.in_bodies.cpu_ns / (double)totals.iterations / operations);
  toll_report(r, "faults_each", (double)totals.in_bodies.minor_faults / (double)totals.iterations / operations);
  totals.in_bodies = (struct toll_account){0, 0, 0}; /* a later visit of this process counts from zero */
  totals.iterations = 0;
}
