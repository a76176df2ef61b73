/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers: small or huge pages, misaligned by k bytes, several colours, private or shared. Their size is limited by the
 * available memory of the system and the control group, since a benchmark that triggers the out-of-memory killer
 * measures nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "internal.h"

enum { COLOUR_BYTES = 576 }; /* 9 lines of 64 B: no two of the first 64 colours share their low 12 bits */

size_t toll_page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* A test replaces this file. */
static const char *huge_page_file = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

size_t toll_huge_page_bytes(void) {
  uint64_t bytes;
  return toll_read_number(huge_page_file, &bytes) ? bytes : 2u << 20;
}

static uint64_t system_memory_left(void) {
  char text[64];
  struct sysinfo info;
  if (toll_find_field("/proc/meminfo", "MemAvailable", text, sizeof text)) return strtoull(text, NULL, 10) * 1024;
  return sysinfo(&info) == 0 ? (uint64_t)info.freeram * info.mem_unit : UINT64_MAX;
}

/* A test replaces these files. */
static const char *own_groups = "/proc/self/cgroup", *group_folder = "/sys/fs/cgroup";

/* The files of a control group's memory. mount: mount point of the hierarchy, below the common folder; cache: name
 * in the group's statistics of the file pages that the kernel reclaims before the group is out of memory. */
struct group_files {
  const char *mount, *limit, *used, *cache;
};

/* v2 alone, beside v1, and v1 (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). Beyond memory.high the
 * kernel slows a group down. */
static const struct group_files hierarchies[] = {
    {"", "memory.max", "memory.current", "inactive_file"},
    {"", "memory.high", "memory.current", "inactive_file"},
    {"/unified", "memory.max", "memory.current", "inactive_file"},
    {"/unified", "memory.high", "memory.current", "inactive_file"},
    {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};

enum { GROUP_BYTES = 1024 };

/* limit: the limit that leaves the least memory, 0 if the system leaves less; by: its origin, as part of a sentence. */
struct memory_left {
  uint64_t bytes, limit;
  char by[GROUP_BYTES + 32];
};

static bool read_of_group(const struct group_files *files, const char *group, const char *name, uint64_t *number) {
  char path[2 * GROUP_BYTES];
  snprintf(path, sizeof path, "%s%s%s/%s", group_folder, files->mount, group, name);
  return toll_read_number(path, number);
}

static uint64_t cache_of(const struct group_files *files, const char *group) {
  char path[2 * GROUP_BYTES], text[64];
  snprintf(path, sizeof path, "%s%s%s/memory.stat", group_folder, files->mount, group);
  return toll_find_field(path, files->cache, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

static bool leaves_less(struct memory_left *left, uint64_t limit, uint64_t used) {
  const uint64_t bytes = limit > used ? limit - used : 0;
  if (bytes >= left->bytes) return false;
  *left = (struct memory_left){.bytes = bytes, .limit = limit};
  return true;
}

/* The limit of each parent group applies too. In a container the parents are not mounted, and the process's own
 * group may be the root of the mount, whatever path the kernel reports. */
static void look_up(struct memory_left *left, const struct group_files *files, const char *path) {
  uint64_t limit, used;
  char group[GROUP_BYTES];
  snprintf(group, sizeof group, "%s", path);
  for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
    *end = '\0';
    if (!read_of_group(files, group, files->limit, &limit) || !read_of_group(files, group, files->used, &used))
      continue;
    const uint64_t cache = cache_of(files, group);
    if (leaves_less(left, limit, used > cache ? used - cache : 0))
      snprintf(left->by, sizeof left->by, "control group %s may use", *group ? group : "/");
  }
}

static void look_at(struct memory_left *left, int resource, uint64_t used, const char *by) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (leaves_less(left, limit.rlim_cur, used)) strcpy(left->by, by);
}

/* Lowers `left` to what RLIMIT_AS leaves beside the mapped memory, and RLIMIT_DATA beside its private writable part
 * (getrlimit(2), proc_pid_statm(5)). */
static void look_at_limits(struct memory_left *left) {
  unsigned long long mapped, data;
  char text[128];
  toll_read_text("/proc/self/statm", text, sizeof text);
  if (sscanf(text, "%llu %*u %*u %*u %*u %llu", &mapped, &data) != 2) return;
  look_at(left, RLIMIT_AS, mapped * toll_page_bytes(), "ulimit -v allows");
  look_at(left, RLIMIT_DATA, data * toll_page_bytes(), "ulimit -d allows");
}

/* The path of this process in a hierarchy: that of v2 is in a line `0::PATH`, that of v1 in `N:...memory...:PATH`. */
static const char *path_in(const struct group_files *files, const char *line) {
  const char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
  const bool is_v1 = strcmp(files->mount, "/memory") == 0;
  if (!path) return NULL;
  for (const char *name = controllers + 1; is_v1 && name < path; name += strcspn(name, ",:") + 1)
    if (strncmp(name, "memory", 6) == 0 && strcspn(name, ",:") == 6) return path + 1;
  return !is_v1 && path == controllers + 1 ? path + 1 : NULL;
}

static struct memory_left memory_left(void) {
  char lines[4096], *rest;
  struct memory_left left = {.bytes = system_memory_left()};
  look_at_limits(&left);
  toll_read_text(own_groups, lines, sizeof lines);
  for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) look_up(&left, &hierarchies[i], "");
  for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) {
      const char *path = path_in(&hierarchies[i], line);
      if (path) look_up(&left, &hierarchies[i], path);
    }
  return left;
}

/* The bytes in huge pages of the mapping that contains `address`, from /proc/self/smaps; -1 if it does not report
 * them. */
static int64_t bytes_in_huge_pages(const void *address) {
  char line[512];
  unsigned long start, end, kilobytes;
  bool inside = false;
  int64_t found = -1;
  FILE *maps = fopen("/proc/self/smaps", "re");
  if (!maps) return -1;
  while (found < 0 && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
      inside = (unsigned long)address >= start && (unsigned long)address < end;
    else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kilobytes) == 1)
      found = (int64_t)kilobytes * 1024;
  }
  fclose(maps);
  return found;
}

size_t toll_huge_bytes(const void *buffer) {
  int64_t bytes = bytes_in_huge_pages(buffer);
  return bytes < 0 ? 0 : (size_t)bytes;
}

static char *align_up(char *address, size_t alignment) {
  return (char *)(((uintptr_t)address + alignment - 1) & ~(uintptr_t)(alignment - 1));
}

/* A mapping of exactly `bytes` at a multiple of `alignment`. The surrounding part is unmapped, so that the kernel's
 * account of the mapping is the buffer's own. NULL if the system refuses. */
static char *map_aligned(size_t bytes, size_t alignment, bool shared) {
  int flags = MAP_ANONYMOUS | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE);
  if (bytes > SIZE_MAX - alignment) return NULL;
  char *mapped = mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) return NULL;
  char *start = align_up(mapped, alignment);
  size_t before = (size_t)(start - mapped), after = alignment - before;
  if (before) munmap(mapped, before);
  if (after) munmap(start + bytes, after);
  return start;
}

static unsigned long long mib(uint64_t bytes) {
  return (unsigned long long)(bytes >> 20);
}

static enum toll_status skip_memory(struct toll_run *r, const char *begins, uint64_t bytes,
                                    const struct memory_left *left) {
  if (left->limit)
    return toll_skip(r, "%s %llu MiB of memory, and %llu MiB are left of the %llu MiB that %s", begins, mib(bytes),
                     mib(left->bytes), mib(left->limit), left->by);
  return toll_skip(r, "%s %llu MiB of memory, and %llu MiB are left to take", begins, mib(bytes), mib(left->bytes));
}

enum toll_status toll_needs_memory(struct toll_run *r, uint64_t bytes) {
  const uint64_t addresses = SIZE_MAX - SIZE_MAX / 4;
  const struct memory_left left = memory_left();
  if (bytes > addresses)
    return toll_skip(r, "needs %llu MiB of memory, and a program of this ABI has %llu MiB of addresses for it",
                     mib(bytes), mib(addresses));
  return bytes <= left.bytes / 10 * 8 ? TOLL_OK : skip_memory(r, "needs", bytes, &left);
}

/* For a large buffer the available memory is read again: another layout may be set up at the same time, and the
 * kernel reserves memory for neither. */
static enum toll_status touch(struct toll_run *r, char *start, size_t bytes) {
  enum { STEP = 8 << 20 };
  for (size_t i = 0; i < bytes; i += toll_page_bytes()) {
    if (i && i % STEP == 0 && toll_needs_memory(r, bytes - i) != TOLL_OK) break;
    *(volatile char *)(start + i) = 0;
  }
  return toll_refused(r);
}

/* The kernel gives a process the pages that the last one left, so that all layouts of a run had the same, and the next run
 * others. In a guest whose huge pages are small ones of its host a walk through 512 KiB of a 1 MiB cache takes 4.75 to 6.1
 * ns by where it lies (48 places of 12 huge pages, each the same when it came again). So up to seven times as much is taken
 * as is wanted, as the layout's seed says, and given back but for the last; but no more than a huge page, which takes 0.17
 * ms, and 30 where the guest's host has to find it first. Beyond a huge page a buffer is a mean of many. */
static size_t passed_over(const struct toll_run *r, const struct toll_buffer_request *request, size_t bytes) {
  enum { MOST = 7 };
  if (!request->drawn || !bytes) return 0;
  uint64_t random = r->seed, fit = toll_huge_page_bytes() / bytes;
  return (size_t)toll_random_below(&random, (fit < MOST ? fit : MOST) + 1) * bytes;
}

/* Places some of the free pages of the buffer's huge page before the buffer. */
static size_t moved_in(const struct toll_run *r, const struct toll_buffer_request *request, size_t bytes) {
  uint64_t random = ~r->seed;
  if (!request->drawn) return 0;
  return (size_t)toll_random_below(&random, (bytes - request->bytes) / toll_page_bytes() + 1) * toll_page_bytes();
}

/* With base pages of 64 KiB a huge page has 512 MiB. What asks for huge pages only where there are some gets base pages
 * then, unless it fills a huge page: to clear one takes a fifth of a second, and base pages of 64 KiB need few
 * translations. */
static bool takes_huge_pages(const struct toll_buffer_request *request) {
  enum { USUAL = 32 << 20 };
  const size_t page = toll_huge_page_bytes();
  if (request->pages == TOLL_PAGES_HUGE) return true;
  return request->pages == TOLL_PAGES_LARGE && (page <= USUAL || request->bytes >= page);
}

static void touch_all(void *context) {
  const struct toll_stretch *whole = context;
  for (size_t i = 0; i < whole->bytes; i += toll_page_bytes()) *(volatile char *)(whole->start + i) = 0;
}

/* Pages of the pool that an administrator provides (admin-guide/mm/hugetlbpage.rst). If they are too few, the
 * mapping is refused, or, by a control group, the first access, with SIGBUS. */
static char *map_hugetlb(size_t bytes, bool shared) {
  const int size = __builtin_ctzll(toll_huge_page_bytes()) << MAP_HUGE_SHIFT;
  const int flags = MAP_ANONYMOUS | MAP_HUGETLB | size | (shared ? MAP_SHARED : MAP_PRIVATE);
  struct toll_stretch whole = {mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0), bytes};
  if (whole.start == MAP_FAILED) return NULL;
  if (!toll_guarded(touch_all, &whole)) return whole.start;
  munmap(whole.start, bytes);
  return NULL;
}

/* A buffer is taken from the pool unless the system reports that it is completely in transparent huge pages. */
static char *verified_huge(struct toll_run *r, char *start, size_t bytes, bool shared) {
  const int64_t transparent = bytes_in_huge_pages(start);
  if (transparent >= (int64_t)bytes) return start;
  munmap(start, bytes);
  char *other = map_hugetlb(bytes, shared);
  if (other)
    r->visit->hugetlb_bytes += bytes;
  else if (transparent < 0)
    toll_skip(
        r, "huge pages cannot be verified: /proc/self/smaps does not say, and the pool of hugetlb pages has too few");
  else
    toll_skip(r,
              "the system gave transparent huge pages for %lld of %zu KiB, and its pool of hugetlb pages has too few",
              (long long)transparent / 1024, bytes / 1024);
  return other;
}

/* Records the address of a buffer, for touch.c; except of a buffer that processes may share. */
static void keep(struct toll_visit *visit, const struct toll_buffer_request *request, char *start) {
  if (request->shared) visit->buffer_count = TOLL_MOST_STRETCHES;
  if (visit->buffer_count < TOLL_MOST_STRETCHES)
    visit->buffers[visit->buffer_count] = (struct toll_stretch){start, request->bytes};
  visit->buffer_count++;
}

void *toll_buffer(struct toll_run *r, struct toll_buffer_request request) {
  size_t page = toll_page_bytes(), shift = request.misalign + request.colour % 64 * COLOUR_BYTES;
  bool huge = request.pages == TOLL_PAGES_HUGE, large = takes_huge_pages(&request);
  size_t unit = large ? (size_t)toll_huge_page_bytes() : page;
  uint64_t bytes = ((uint64_t)request.bytes + shift + unit - 1) / unit * unit;
  if (toll_needs_memory(r, bytes) != TOLL_OK) return NULL;
  r->visit->buffer_bytes += request.bytes;
  const size_t over = passed_over(r, &request, (size_t)bytes), mapped = over + (size_t)bytes;
  char *start = map_aligned(mapped, unit, request.shared);
  if (!start) {
    const struct memory_left left = memory_left();
    skip_memory(r, "the system refused to map", mapped + unit, &left);
    return NULL;
  }
  if (huge) prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); /* which the program that started this one may have set */
  if (request.pages != TOLL_PAGES_ANY) madvise(start, mapped, large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (!request.untouched && touch(r, start, mapped) != TOLL_OK) return NULL;
  if (over) munmap(start, over);
  start += over;
  if (huge && !request.untouched && !(start = verified_huge(r, start, (size_t)bytes, request.shared))) return NULL;
  start += shift + moved_in(r, &request, (size_t)bytes - shift);
  keep(r->visit, &request, start);
  return start;
}
