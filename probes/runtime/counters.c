/* SPDX-License-Identifier: Apache-2.0
 *
 * Events beside the batches of a sample: those of the CPU's own counters (PMU) where the system permits them, and page
 * faults and context switches as the kernel accounts them to this thread.
 *
 * A visit counts one group, which every PMU in use holds at once, and the next visit of a point the next one. So no event
 * takes turns with another within a visit. Counters are read in user mode where the kernel permits it: a system call
 * between the warm-up and a batch leaves other entries in the branch predictors.
 *
 * The kernel's software events are not used: an event of the scheduler opens for every user and counts 0 for most, and a
 * counter lengthens the context switch or the fault that it counts. For that reason a probe that switches or sleeps has
 * no group of the PMU either, which is saved and loaded at each switch.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "events.h"
#include "internal.h"

#ifndef RUSAGE_THREAD
#define RUSAGE_THREAD 1
#endif

/* Four events: Intel's PMU has four counters for a hyperthread beside those of cycles and instructions, of which the
 * kernel's watchdog may hold one; ARM's and AMD's have six. */
static const char *const groups[][TOLL_MOST_COUNTED] = {
    {"cycles", "instructions", "branch-misses", "stalled-cycles-backend"},
    {"cycles", "instructions", "L1-dcache-load-misses", "LLC-load-misses"},
#if defined(__aarch64__) || defined(__arm__)
    {"cycles", "instructions", "dTLB-load-misses", "page-walks"},
#else /* there both are one event */
    {"cycles", "instructions", "page-walks", "stalled-cycles-frontend"},
#endif
};
enum { GROUPS = sizeof groups / sizeof groups[0] };
static const char *const accounted[TOLL_MOST_COUNTED] = {"page-faults", "context-switches"};

static struct {
  const char *names[TOLL_MOST_COUNTED];
  int files[TOLL_MOST_COUNTED];
  volatile struct perf_event_mmap_page *pages[TOLL_MOST_COUNTED];
  unsigned many;
  bool by_kernel;   /* accounted, not counted */
  bool in_user;     /* read there */
  bool user_only;   /* the kernel's part is not counted */
  bool missed;      /* a counter was not running at some reading of this sample */
  uint64_t lost_ns; /* time in which the group did not count, so far */
  int error;        /* why there is no PMU */
} now;

/* ---- reading in user mode ---- */

#if defined(__x86_64__) || defined(__i386__)
static uint64_t counter_value(uint32_t index) {
  uint32_t low, high;
  __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
  return low | (uint64_t)high << 32;
}
#elif defined(__aarch64__)
/* The number of a counter is part of the instruction. The cycle counter is the 32nd. */
#define READ(register)                                           \
  __asm__ volatile("mrs %0, " register : "=r"(value)::"memory"); \
  break
#define COUNTER(number) \
  case number + 1:      \
    READ("pmevcntr" #number "_el0")
static uint64_t counter_value(uint32_t index) {
  uint64_t value = 0;
  switch (index) {
    COUNTER(0);
    COUNTER(1);
    COUNTER(2);
    COUNTER(3);
    COUNTER(4);
    COUNTER(5);
    COUNTER(6);
    COUNTER(7);
    case 32: READ("pmccntr_el0");
    default: now.missed = true;
  }
  return value;
}
#else
static uint64_t counter_value(uint32_t index) {
  (void)index;
  now.missed = true;
  return 0;
}
#endif

/* Returns a count from the page that the kernel shares (perf_event_open(2)): its sum so far and the counter since.
 * `lock` changes while the kernel writes. */
static uint64_t read_page(volatile struct perf_event_mmap_page *page) {
  enum { BITS = 64 };
  uint32_t before;
  uint64_t count;
  do {
    before = page->lock;
    TOLL_MEMORY();
    const uint32_t index = page->index;
    count = (uint64_t)page->offset;
    if (index) {
      const unsigned unused = BITS - page->pmc_width;
      count += (uint64_t)((int64_t)(counter_value(index) << unused) >> unused);
    } else {
      now.missed = true;
    }
    TOLL_MEMORY();
  } while (page->lock != before);
  return count;
}

/* ---- the group of a visit ---- */

/* The type of the PMU of this CPU's cores where there are several kinds (a big.LITTLE ARM, an x86 hybrid): an event of
 * another kind's would not count here. 0: one kind. */
static uint64_t pmu_of(int cpu) {
  static struct toll_set cpus;
  static const char folder[] = "/sys/bus/event_source/devices";
  char path[sizeof folder + 300];
  uint64_t type = 0, found = 0, kinds = 0;
  DIR *devices = opendir(folder);
  for (struct dirent *device; devices && (device = readdir(devices));) {
    snprintf(path, sizeof path, "%s/%.200s/cpus", folder, device->d_name);
    if (!toll_read_set(path, &cpus)) continue;
    kinds++;
    snprintf(path, sizeof path, "%s/%.200s/type", folder, device->d_name);
    if (toll_set_has(&cpus, cpu) && toll_read_number(path, &type)) found = type;
  }
  if (devices) closedir(devices);
  return kinds > 1 ? found : 0;
}

#if defined(__aarch64__)
/* Bits of config1 that request user access: to a 64-bit counter, which few cores have for all events; to a 32-bit
 * counter, whose overflows the kernel adds up; and none. */
static const uint64_t accesses[] = {3, 2, 0};
#else
static const uint64_t accesses[] = {0}; /* on x86 the permission is a setting of the system, not of the event */
#endif

static int open_event(const struct toll_event *event, uint64_t pmu) {
  enum { PMU_SHIFT = 32 };
  struct perf_event_attr how = {
      .config = pmu << PMU_SHIFT,
      .exclude_kernel = now.user_only,
      .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING};
  int file = -1;
  if (pmu && event->type == PERF_TYPE_RAW) return -1;
  for (size_t i = 0; file < 0 && i < sizeof accesses / sizeof accesses[0]; i++) {
    how.config1 = accesses[i];
    file = toll_event_open(event, how, now.many ? now.files[0] : -1);
    if (file < 0 && (errno == EACCES || errno == EPERM)) break;
  }
  return file;
}

static void add_event(const char *name, uint64_t pmu) {
  const struct toll_event *event = toll_event_named(name, strlen(name));
  int file = event ? open_event(event, pmu) : -1;
  if (file < 0 && !now.many && (errno == EACCES || errno == EPERM)) {
    now.user_only = true;
    file = open_event(event, pmu);
  }
  if (file < 0) {
    if (!now.many) now.error = errno;
    return;
  }
  void *page = mmap(NULL, toll_page_bytes(), PROT_READ, MAP_SHARED, file, 0);
  now.names[now.many] = name;
  now.files[now.many] = file;
  now.pages[now.many++] = page == MAP_FAILED ? NULL : page;
}

/* The kernel keeps the bit in a page of each event, and permits or refuses user access for all. */
static bool reads_in_user(void) {
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
  for (unsigned i = 0; i < now.many; i++)
    if (!now.pages[i] || !now.pages[i]->cap_user_rdpmc || !now.pages[i]->index) return false;
  return now.many > 0;
#else
  return false;
#endif
}

struct group_reading {
  uint64_t many, enabled_ns, running_ns, counts[TOLL_MOST_COUNTED];
};

static bool read_group(struct group_reading *read_now) {
  return read(now.files[0], read_now, sizeof *read_now) > 0 && read_now->many == now.many;
}

static void open_group(const char *const *names, int cpu) {
  struct group_reading first;
  const uint64_t pmu = pmu_of(cpu);
  for (unsigned i = 0; i < TOLL_MOST_COUNTED; i++) add_event(names[i], pmu);
  now.in_user = reads_in_user();
  if (now.many && read_group(&first)) now.lost_ns = first.enabled_ns - first.running_ns;
}

static void account(void) {
  now.by_kernel = true;
  while (now.many < TOLL_MOST_COUNTED && accounted[now.many]) {
    now.names[now.many] = accounted[now.many];
    now.many++;
  }
}

void toll_counters_open(const struct toll_run *r) {
  const struct toll_request *request = &r->visit->request;
  const struct toll_probe *probe = r->visit->probe;
  now.many = 0;
  now.by_kernel = now.in_user = now.user_only = now.missed = false;
  now.error = 0;
  if (request->counters_off || probe->pauses || toll_counts_instructions() || toll_is_served()) return;
  const uint64_t turn = request->round % (GROUPS + 1);
  const bool has_pmu_turn = turn < GROUPS && !probe->switches && !probe->sleeps;
  if (has_pmu_turn) open_group(groups[turn], r->cpus[0]);
  if (!now.many) account();
}

void toll_counters_close(void) {
  for (unsigned i = 0; i < now.many && !now.by_kernel; i++) {
    if (now.pages[i]) munmap((void *)(uintptr_t)now.pages[i], toll_page_bytes());
    close(now.files[i]);
  }
  now.many = 0;
}

unsigned toll_counters_many(void) {
  return now.many;
}

/* ---- around a batch ---- */

static void read_account(uint64_t *counts) {
  struct rusage use;
  if (getrusage(RUSAGE_THREAD, &use) != 0) now.missed = true;
  counts[0] = (uint64_t)(use.ru_minflt + use.ru_majflt);
  counts[1] = (uint64_t)(use.ru_nvcsw + use.ru_nivcsw);
}

void toll_counters_read(uint64_t counts[TOLL_MOST_COUNTED]) {
  struct group_reading seen;
  if (now.many && now.by_kernel) {
    read_account(counts);
  } else if (now.in_user) {
    for (unsigned i = 0; i < now.many; i++) counts[i] = read_page(now.pages[i]);
  } else if (now.many) {
    if (!read_group(&seen)) now.missed = true;
    memcpy(counts, seen.counts, now.many * sizeof *counts);
  }
}

/* Two groups that take turns on the PMU leave no other trace than the time that one did not run. */
bool toll_counters_were_whole(void) {
  struct group_reading seen;
  bool whole = !now.missed;
  if (now.many && !now.by_kernel) {
    const bool known = read_group(&seen);
    const uint64_t lost_ns = known ? seen.enabled_ns - seen.running_ns : now.lost_ns + 1;
    whole = whole && lost_ns == now.lost_ns;
    now.lost_ns = lost_ns;
  }
  now.missed = false;
  return whole;
}

void toll_counters_emit(void) {
  if (!now.many) return;
  toll_record_open("counters");
  toll_put_open("events", '[');
  for (unsigned i = 0; i < now.many; i++) toll_put_text(NULL, now.names[i]);
  toll_put_close(']');
  toll_put_text("by", now.by_kernel ? "account" : now.in_user ? "user" : "read");
  toll_put_bool("kernel", now.by_kernel || !now.user_only);
  if (now.error) toll_put_text("refused", strerror(now.error));
  toll_record_close();
}
