/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's memory, in pages of 4 KiB. The last level's tables lie side by side, one entry for each page of the
 * program's address space, and are the only account of it:
 *
 *   0                       nothing there
 *   RESERVED, what it may   zeroes, as soon as it is touched; an entry that ends in two zero bits is no page to the core
 *   a page (arch.h)         real
 */
#include "bare.h"

enum { PAGES = PROGRAM_END / PAGE_BYTES, RESERVED = 4, MAY_SHIFT = 4 };

page_entry bare_page_table[PAGES] __attribute__((aligned(PAGE_BYTES)));

static uintptr_t to_memory;                    /* from the supervisor's address to the one in memory */
static uintptr_t first_free, next_free, limit; /* pages not handed out yet */
static uintptr_t *returned;                    /* pages that were given back, each of which begins with the next */
static uint32_t pages_now, most_pages, faults;

/* ---- real pages -------------------------------------------------------------------------------------------------- */

static uintptr_t *take_page(void) {
  uintptr_t *page = returned;
  if (page) {
    returned = (uintptr_t *)*page;
  } else {
    if (next_free == limit) return NULL;
    page = (uintptr_t *)next_free;
    next_free += PAGE_BYTES;
  }
  memset(page, 0, PAGE_BYTES);
  if (++pages_now > most_pages) most_pages = pages_now;
  return page;
}

static void give_back(uintptr_t *page) {
  *page = (uintptr_t)returned;
  returned = page;
  pages_now--;
}

static uintptr_t *page_of(page_entry entry) {
  return (uintptr_t *)(page_in_board(entry) - to_memory);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

uintptr_t memory_in_board(const void *supervisors) {
  return (uintptr_t)supervisors + to_memory;
}

/* Whatever may be touched may be read: the core knows nothing less. */
static bool allows(unsigned may, unsigned use) {
  return may && !(use & ~(may | MAY_READ));
}

static void set(uintptr_t index, page_entry entry) {
  const bool was_real = page_is_real(bare_page_table[index]);
  bare_page_table[index] = entry;
  page_written(index * PAGE_BYTES);
  if (was_real) pages_forget(index * PAGE_BYTES);
}

/* ---- what is reserved -------------------------------------------------------------------------------------------- */

void memory_release(uintptr_t start, uintptr_t bytes) {
  for (uintptr_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++) {
    if (page_is_real(bare_page_table[i])) give_back(page_of(bare_page_table[i]));
    if (bare_page_table[i]) set(i, 0);
  }
}

void memory_promise(uintptr_t start, uintptr_t bytes, unsigned may) {
  memory_release(start, bytes);
  for (uintptr_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++)
    bare_page_table[i] = RESERVED | may << MAY_SHIFT;
}

void memory_forget(uintptr_t start, uintptr_t bytes) {
  for (uintptr_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++) {
    const page_entry entry = bare_page_table[i];
    if (!page_is_real(entry)) continue;
    give_back(page_of(entry));
    set(i, RESERVED | page_may(entry) << MAY_SHIFT);
  }
}

bool memory_protect(uintptr_t start, uintptr_t bytes, unsigned may) {
  for (uintptr_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++) {
    if (!bare_page_table[i]) return false;
    set(i, page_is_real(bare_page_table[i]) ? page_entry_of(memory_in_board(page_of(bare_page_table[i])), may)
                                            : RESERVED | may << MAY_SHIFT);
  }
  return true;
}

uintptr_t memory_find(uintptr_t bytes) {
  uintptr_t found = 0;
  for (uintptr_t i = MAPPINGS_END / PAGE_BYTES; i-- > 0;) {
    found = bare_page_table[i] ? 0 : found + PAGE_BYTES;
    if (found >= bytes) return i * PAGE_BYTES;
  }
  return 0;
}

/* ---- touching ---------------------------------------------------------------------------------------------------- */

static bool make_real(uintptr_t index) {
  uintptr_t *page = take_page();
  if (!page) return false;
  set(index, page_entry_of(memory_in_board(page), bare_page_table[index] >> MAY_SHIFT));
  return true;
}

bool memory_touch(uintptr_t address, unsigned use) {
  if (address >= PROGRAM_END) return false;
  const uintptr_t index = address / PAGE_BYTES;
  if (page_is_real(bare_page_table[index])) return allows(page_may(bare_page_table[index]), use);
  if (!allows(bare_page_table[index] >> MAY_SHIFT, use)) return false;
  if (!make_real(index)) bare_ended(9 /* SIGKILL, as of a system without memory */);
  faults++;
  return true;
}

void *memory_of_program(uintptr_t address, uintptr_t bytes, unsigned use) {
  if (address >= PROGRAM_END || bytes > PROGRAM_END - address) return NULL;
  for (uintptr_t page = address & ~(uintptr_t)(PAGE_BYTES - 1); page < address + bytes; page += PAGE_BYTES)
    if (!memory_touch(page, use)) return NULL;
  return (void *)address;
}

bool memory_fill(uintptr_t address, const void *bytes, uintptr_t count) {
  const uint8_t *from = bytes;
  while (count) {
    const uintptr_t index = address / PAGE_BYTES, offset = address % PAGE_BYTES, rest = PAGE_BYTES - offset;
    const uintptr_t part = count < rest ? count : rest;
    if (!page_is_real(bare_page_table[index]) && !make_real(index)) return false;
    uint8_t *to = (uint8_t *)page_of(bare_page_table[index]) + offset;
    memcpy(to, from, part);
    pages_publish((uintptr_t)to, part);
    address += part, from += part, count -= part;
  }
  return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

void memory_open(uintptr_t free_address, uintptr_t end, uintptr_t offset) {
  to_memory = offset;
  first_free = next_free = free_address;
  limit = end;
  pages_open();
  pages_forget_all();
}

void memory_clear(void) {
  memset(bare_page_table, 0, sizeof bare_page_table);
  pages_forget_all();
  next_free = first_free;
  returned = NULL;
  pages_now = most_pages = faults = 0;
}

uintptr_t memory_total(void) {
  return limit - first_free;
}
uintptr_t memory_left(void) {
  return limit - first_free - (uintptr_t)pages_now * PAGE_BYTES;
}
uint32_t memory_faults(void) {
  return faults;
}
uint32_t memory_most_pages(void) {
  return most_pages;
}
