/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking rights away from pages that are in use: munmap, mprotect and the copy at a store, by the threads of the process
 * that run meanwhile, each on a CPU of its own.
 *
 * Each must throw translations away, on every CPU that may hold them: where another thread of the process runs, by an
 * interrupt that is waited for, or by an instruction that reaches all CPUs (ARM's TLBI, AMD's INVLPGB). The other threads
 * count in a register and take no lock, so that what a CPU adds is the interrupt to it. Pages are mapped and touched
 * while the clock is stopped.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "toll.h"

enum act { UNMAP, PROTECT, COPY };
enum { MARK = 0x5a };

struct release {
  unsigned act;
  size_t bytes, page;
  int file;
  uint64_t failed;
};

static unsigned other_threads(const struct toll_run *r) {
  return (unsigned)toll_number(r, "threads") - 1;
}

static enum toll_status make_file(struct toll_run *r, struct release *release) {
  release->file = memfd_create("toll", MFD_CLOEXEC);
  if (release->file < 0) return toll_skip(r, "the system gave no file in memory: %s", strerror(errno));
  const char mark = MARK;
  for (size_t i = 0; i < release->bytes; i += release->page)
    if (pwrite(release->file, &mark, 1, (off_t)i) != 1) return toll_skip(r, "no file in memory: %s", strerror(errno));
  if (ftruncate(release->file, (off_t)release->bytes)) return toll_skip(r, "no such file: %s", strerror(errno));
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct release *release = r->state;
  release->act = toll_choice(r, "act");
  release->page = toll_page_bytes();
  release->bytes = ((size_t)toll_number(r, "size") + release->page - 1) / release->page * release->page;
  if (!release->bytes) return toll_skip(r, "nothing cannot be mapped");
  const uint64_t threads = toll_number(r, "threads");
  if (threads < 1) return toll_fail(r, "threads are 1 or more");
  if (threads > r->cpu_count)
    return toll_skip(r, "%llu threads need as many CPUs, and this run may use %u", (unsigned long long)threads,
                     r->cpu_count);
  return release->act == COPY ? make_file(r, release) : TOLL_OK;
}

/* Maps pages into the process's tables; for COPY they are not writable yet. */
static volatile char *touched(struct release *release) {
  const bool copied = release->act == COPY;
  void *start = mmap(NULL, release->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | (copied ? 0 : MAP_ANONYMOUS),
                     copied ? release->file : -1, 0);
  if (start == MAP_FAILED) return NULL;
  madvise(start, release->bytes, MADV_NOHUGEPAGE);
  volatile char *page = start;
  for (size_t i = 0; i < release->bytes; i += release->page) {
    if (copied)
      release->failed += page[i] != MARK;
    else
      page[i] = MARK;
  }
  return page;
}

static void act_on(struct release *release, volatile char *start) {
  void *const memory = (void *)(uintptr_t)start;
  switch ((enum act)release->act) {
    case UNMAP: release->failed += munmap(memory, release->bytes) != 0; break;
    case PROTECT: release->failed += mprotect(memory, release->bytes, PROT_READ) != 0; break;
    case COPY:
      for (size_t i = 0; i < release->bytes; i += release->page) start[i] = 1;
  }
}

static void take_away(struct toll_run *r) {
  struct release *release = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    toll_timer_pause();
    volatile char *start = touched(release);
    toll_timer_resume();
    if (!start) {
      release->failed++;
      return;
    }
    act_on(release, start);
    if (release->act == UNMAP) continue;
    toll_timer_pause();
    munmap((void *)(uintptr_t)start, release->bytes);
    toll_timer_resume();
  }
}

static void control(struct toll_run *r) {
  const struct release *release = r->state;
  for (uint64_t i = r->iterations * (release->act == UNMAP ? 1 : 2); i; i--) {
    toll_timer_pause();
    toll_timer_resume();
  }
}

static void spin(struct toll_run *r) {
  for (uint64_t i = r->iterations; i; i--) TOLL_OPAQUE(i);
}

/* Checks the effect of an act: whether the pages are unmapped, and whether the file is unchanged. */
static enum toll_status check(struct toll_run *r) {
  struct release *release = r->state;
  if (release->failed) return toll_wrong(r, "%llu calls failed", (unsigned long long)release->failed);
  unsigned char resident;
  char byte = MARK;
  volatile char *start = touched(release);
  if (!start) return toll_wrong(r, "no memory: %s", strerror(errno));
  act_on(release, start);
  const bool is_mapped = mincore((void *)(uintptr_t)start, release->page, &resident) == 0;
  const char seen = is_mapped ? start[0] : 0;
  if (is_mapped) munmap((void *)(uintptr_t)start, release->bytes);
  if (is_mapped == (release->act == UNMAP)) return toll_wrong(r, "munmap left the pages, or another act took them");
  if (release->act == COPY && (pread(release->file, &byte, 1, 0) != 1 || byte != MARK || seen != 1))
    return toll_wrong(r, "a store to a private page was lost, or reached the file");
  return TOLL_OK;
}

static const char *const acts[] = {"unmap", "protect", "copy", NULL};
static const uint64_t sizes[] = {65536, 1 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "act", .kind = TOLL_CHOICE, .summary = "call that takes the rights away", .choices = acts},
    {.name = "size", .kind = TOLL_SIZE, .summary = "size of the map", .values = sizes, .typical = "65536"},
    {.name = "threads",
     .kind = TOLL_COUNT,
     .summary = "threads of the process that run, each on a CPU of its own",
     .from = 1,
     .to = 1,
     .to_scale = TOLL_TIMES_CPUS,
     .per_octave = 1},
    {0}};
static const struct toll_metric metrics[] = {{.name = "release",
                                              .unit = "ns",
                                              .summary = "one act on a map whose pages are in use",
                                              .source = TOLL_DIFFERENCE,
                                              .means = "release-of-threads",
                                              .toll = "{act} 64 KiB in use, threads: {threads}"},
                                             {0}};
static const struct toll_role roles[] = {{.name = "thread",
                                          .body = spin,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_BACKGROUND,
                                          .count = other_threads,
                                          .background_iterations = 1000},
                                         {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to take pages away that are in use, by the threads that run?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct release),
    .prepare = prepare,
    .body = take_away,
    .control = control,
    .check = check,
    .roles = roles,
    .faults = true,
    .pauses = true,
    .enters = true,
    .revision = 2,
};
