/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's addresses, all below 4 GiB. A kernel with x32 hands them out from the top downwards, at the first gap
 * that is large enough (mm/mmap.c, vm_unmapped_area); so does this, or neighbouring mappings would not join, and faults
 * and huge pages would differ.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "loader.h"

enum { LOWEST = 65536, MOST_RANGES = 4096 };

struct range {
  address32 start, end;
};

static struct {
  struct range ranges[MOST_RANGES]; /* ascending, of whole pages, and disjoint */
  unsigned count;
  uintptr_t break_start, break_end;
  bool is_break_native;
  _Atomic bool is_locked;
} space;

/* No handler of the program may run while the table is locked, since it could also allocate memory. */
uint64_t memory_lock(void) {
  uint64_t all = ~0ull, before = 0;
  NATIVE(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof all);
  while (__atomic_exchange_n(&space.is_locked, true, __ATOMIC_ACQUIRE)) NATIVE(SYS_sched_yield, 0);
  return before;
}

void memory_unlock(uint64_t before) {
  __atomic_store_n(&space.is_locked, false, __ATOMIC_RELEASE);
  NATIVE(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* The first range that ends above an address. */
static unsigned position(uintptr_t start) {
  unsigned low = 0, high = space.count;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (space.ranges[middle].end > start)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void move(unsigned from, int by) {
  if (by > 0)
    for (unsigned i = space.count; i > from; i--) space.ranges[i] = space.ranges[i - 1];
  else
    for (unsigned i = from; i + 1 < space.count; i++) space.ranges[i] = space.ranges[i + 1];
  space.count += (unsigned)by;
}

/* False where the table is full. */
static bool take_away(uintptr_t start, uintptr_t end) {
  unsigned i = position(start);
  while (i < space.count && space.ranges[i].start < end) {
    struct range *range = &space.ranges[i];
    const struct range whole = *range;
    if (whole.start < start && whole.end > end) {
      if (space.count == MOST_RANGES) return false;
      move(i, 1);
      space.ranges[i].end = (address32)start;
      space.ranges[i + 1] = (struct range){(address32)end, whole.end};
      return true;
    }
    if (whole.start >= start && whole.end <= end) {
      move(i, -1);
      continue;
    }
    if (whole.start < start)
      range->end = (address32)start;
    else
      range->start = (address32)end;
    i++;
  }
  return true;
}

static bool add(uintptr_t start, uintptr_t end) {
  if (!take_away(start, end)) return false;
  const unsigned i = position(start);
  const bool joins_below = i > 0 && space.ranges[i - 1].end == start;
  const bool joins_above = i < space.count && space.ranges[i].start == end;
  if (joins_below && joins_above) {
    space.ranges[i - 1].end = space.ranges[i].end;
    move(i, -1);
  } else if (joins_below) {
    space.ranges[i - 1].end = (address32)end;
  } else if (joins_above) {
    space.ranges[i].start = (address32)start;
  } else {
    if (space.count == MOST_RANGES) return false;
    move(i, 1);
    space.ranges[i] = (struct range){(address32)start, (address32)end};
  }
  return true;
}

/* The highest gap of that many bytes; 0 where there is none. */
static uintptr_t gap(size_t bytes) {
  uintptr_t end = STACK_TOP - STACK_BYTES - PAGE;
  for (unsigned i = space.count; i-- > 0;) {
    const struct range *range = &space.ranges[i];
    if (range->end <= end && end - range->end >= bytes) return end - bytes;
    if (range->start < end) end = range->start;
  }
  return end >= LOWEST + bytes ? end - bytes : 0;
}

static bool is_free(uintptr_t start, uintptr_t end) {
  const unsigned i = position(start);
  return end <= STACK_TOP && (i == space.count || space.ranges[i].start >= end);
}

void memory_reserve(uintptr_t start, uintptr_t bytes) {
  add(start, start + bytes);
}

void memory_set_break(uintptr_t start, bool is_native) {
  space.break_start = space.break_end = start;
  space.is_break_native = is_native;
}

static uintptr_t chosen(uintptr_t start, size_t bytes, long flags) {
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) return start;
  start = page_down(start);
  return start >= LOWEST && is_free(start, start + bytes) ? start : gap(bytes);
}

long memory_map(uintptr_t start, size_t bytes, long protection, long flags, long file, long offset) {
  bytes = page_up(bytes);
  if (bytes == 0) return -EINVAL;
  if (bytes >= STACK_TOP || start >= STACK_TOP) return -ENOMEM;
  const uint64_t before = memory_lock();
  const uintptr_t place = chosen(start, bytes, flags);
  const long fixed = (flags & ~MAP_32BIT) | (flags & MAP_FIXED ? 0 : MAP_FIXED_NOREPLACE);
  long result = place ? NATIVE(SYS_mmap, place, bytes, protection, fixed, file, offset) : -ENOMEM;
  if (result >= 0 && !add(place, place + bytes)) {
    NATIVE(SYS_munmap, place, bytes);
    result = -ENOMEM;
  }
  memory_unlock(before);
  return result;
}

long memory_unmap(uintptr_t start, size_t bytes) {
  const uint64_t before = memory_lock();
  const long result = NATIVE(SYS_munmap, start, bytes);
  if (result == 0) take_away(start, start + page_up(bytes));
  memory_unlock(before);
  return result;
}

static long moved(uintptr_t old, size_t old_bytes, size_t bytes, long flags, uintptr_t new) {
  long result = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)
                    ? -ENOMEM
                    : NATIVE(SYS_mremap, old, old_bytes, bytes, flags & ~MREMAP_MAYMOVE);
  if (result == -ENOMEM && flags & MREMAP_MAYMOVE) {
    const uintptr_t place = flags & MREMAP_FIXED ? new : gap(bytes);
    result = place ? NATIVE(SYS_mremap, old, old_bytes, bytes, flags | MREMAP_FIXED, place) : -ENOMEM;
  }
  return result;
}

long memory_remap(uintptr_t old, size_t old_bytes, size_t bytes, long flags, uintptr_t new) {
  old_bytes = page_up(old_bytes);
  bytes = page_up(bytes);
  const uint64_t before = memory_lock();
  const long result = moved(old, old_bytes, bytes, flags, new);
  if (result >= 0) {
    if (!(flags & MREMAP_DONTUNMAP)) take_away(old, old + old_bytes);
    add((uintptr_t)result, (uintptr_t)result + bytes);
  }
  memory_unlock(before);
  return result;
}

/* Moves the end of the heap from one page to another. The kernel does not know this memory as the heap. */
static bool resize_heap(uintptr_t old, uintptr_t new) {
  if (new < old) return NATIVE(SYS_munmap, new, old - new) == 0;
  return new == old || (is_free(old, new) && NATIVE(SYS_mmap, old, new - old, PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) >= 0);
}

/* brk(2): the end as it is afterwards. */
long memory_break(uintptr_t end) {
  const uint64_t before = memory_lock();
  const uintptr_t old = page_up(space.break_end), new = page_up(end);
  const bool is_sound = end >= space.break_start && end < STACK_TOP;
  if (is_sound && (space.is_break_native ? NATIVE(SYS_brk, end) == (long)end : resize_heap(old, new))) {
    space.break_end = end;
    if (new > old)
      add(old, new);
    else
      take_away(new, old);
  }
  const long result = (long)space.break_end;
  memory_unlock(before);
  return result;
}
