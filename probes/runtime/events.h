/* SPDX-License-Identifier: Apache-2.0
 *
 * The events that are counted by perf_event_open(2), by the names that perf(1) gives them. Shared by the runtime, which
 * counts beside its samples, and by the process that starts the commands of `toll time`.
 */
#ifndef TOLL_EVENTS_H
#define TOLL_EVENTS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct toll_event {
  const char *name;
  uint32_t type;
  uint64_t config;
};

#define TOLL_CACHE_EVENT(cache, result) \
  PERF_TYPE_HW_CACHE,                   \
      PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_##result << 16
/* x86's event of the dTLB is a miss of its last level, each of which starts a walk. ARM's is one of the first level, and
 * DTLB_WALK has a number of its own (PMUv3). */
#if defined(__aarch64__)
#define TOLL_PAGE_WALK PERF_TYPE_RAW, 0x34
#else
#define TOLL_PAGE_WALK TOLL_CACHE_EVENT(DTLB, MISS)
#endif

static const struct toll_event toll_events[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"L1-dcache-load-misses", TOLL_CACHE_EVENT(L1D, MISS)},
    {"LLC-load-misses", TOLL_CACHE_EVENT(LL, MISS)},
    {"dTLB-load-misses", TOLL_CACHE_EVENT(DTLB, MISS)},
    {"page-walks", TOLL_PAGE_WALK},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};

/* NULL for an event without a number here. length: of the name. */
static inline const struct toll_event *toll_event_named(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof toll_events / sizeof toll_events[0]; i++)
    if (strlen(toll_events[i].name) == length && memcmp(toll_events[i].name, name, length) == 0) return &toll_events[i];
  return NULL;
}

/* The kernel moves a thread in kernel mode: a counter that leaves the kernel out opens, and counts 0 for ever. */
static inline bool toll_event_is_of_kernel(const struct toll_event *event) {
  return event->type == PERF_TYPE_SOFTWARE;
}

/* Opens an event of the calling thread. how: all but the event; group: its leader, or -1. Below 0, with errno, where the
 * kernel or the machine refuses it. */
static inline int toll_event_open(const struct toll_event *event, struct perf_event_attr how, int group) {
  how.type = event->type;
  how.size = sizeof how;
  how.config |= event->config; /* the caller may have named a core's PMU in the upper half */
  how.exclude_hv = 1;
  return (int)syscall(SYS_perf_event_open, &how, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
}

#endif
