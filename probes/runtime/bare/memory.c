/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's memory, in small pages (ARM ARM B3.5.1). The second-level tables lie side by side, one word for each page
 * of the program's address space, and are the only account of it:
 *
 *   0                       nothing there
 *   PROMISED, what it may   zeroes, as soon as it is touched; a word that ends in two zeroes is no page to the core
 *   a small page            real
 */
#include "bare.h"

enum { PAGES = PROGRAM_END / PAGE_BYTES, PROMISED = 4, MAY_SHIFT = 4 };

/* Normal memory, write-back and allocated on write; what user mode may do (B3.7.1). A page that the program may not touch
 * keeps its content. */
enum {
  SMALL = 2,
  NEVER_EXECUTED = 1,
  CACHED = 1 << 6 | 1 << 3 | 1 << 2,
  NOT_USERS = 1 << 4,
  USERS = 3 << 4,
  READ_ONLY = 1 << 9,
  OF_ONE_MAP = 1 << 11 /* not global: another map (limits/) has something else there */
};

uint32_t bare_first_level[4096] __attribute__((aligned(16384)));
static uint32_t page_table[PAGES] __attribute__((aligned(1024)));
static uint32_t vectors_table[256] __attribute__((aligned(1024)));

static uint32_t behind;                       /* from the supervisor's address to the one in memory */
static uint32_t first_free, next_free, limit; /* pages not handed out yet */
static uint32_t *returned;                    /* pages that were given back, each of which begins with the next */
static uint32_t pages_now, most_pages, faults;

/* ---- real pages -------------------------------------------------------------------------------------------------- */

static uint32_t *take_page(void) {
  uint32_t *page = returned;
  if (page) {
    returned = (uint32_t *)(uintptr_t)*page;
  } else {
    if (next_free == limit) return NULL;
    page = (uint32_t *)(uintptr_t)next_free;
    next_free += PAGE_BYTES;
  }
  memset(page, 0, PAGE_BYTES);
  if (++pages_now > most_pages) most_pages = pages_now;
  return page;
}

static void give_back(uint32_t *page) {
  *page = (uint32_t)(uintptr_t)returned;
  returned = page;
  pages_now--;
}

static uint32_t *page_of(uint32_t entry) {
  return (uint32_t *)(uintptr_t)((entry & ~(PAGE_BYTES - 1u)) - behind);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static uint32_t rights(unsigned may) {
  uint32_t rights = may & MAY_EXECUTE ? 0 : NEVER_EXECUTED;
  if (!may) return rights | NOT_USERS;
  return rights | USERS | (may & MAY_WRITE ? 0 : READ_ONLY);
}

static uint32_t may_of(uint32_t entry) {
  if ((entry & USERS) != USERS) return 0;
  return MAY_READ | (entry & READ_ONLY ? 0 : MAY_WRITE) | (entry & NEVER_EXECUTED ? 0 : MAY_EXECUTE);
}

uint32_t memory_in_board(const void *supervisors) {
  return (uint32_t)(uintptr_t)supervisors + behind;
}

uint32_t memory_entry(const uint32_t *page, unsigned may) {
  return memory_in_board(page) | OF_ONE_MAP | CACHED | SMALL | rights(may);
}

static bool is_real(uint32_t entry) {
  return entry & SMALL;
}

/* Whatever may be touched may be read: the core knows nothing less. */
static bool allows(unsigned may, unsigned use) {
  return may && !(use & ~(may | MAY_READ));
}

/* Walks look into the caches, so that a table's word needs no cleaning; but it must be there before the next access, and
 * an older one forgotten. */
static void set(uint32_t index, uint32_t entry) {
  const bool was_real = is_real(page_table[index]);
  page_table[index] = entry;
  __asm__ volatile("dsb" ::: "memory");
  if (!was_real) return;
  __asm__ volatile("mcr p15, 0, %0, c8, c7, 3\n\tdsb\n\tisb" ::"r"(index * PAGE_BYTES) : "memory"); /* TLBIMVAA */
}

/* ---- what is promised -------------------------------------------------------------------------------------------- */

void memory_release(uint32_t start, uint32_t bytes) {
  for (uint32_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++) {
    if (is_real(page_table[i])) give_back(page_of(page_table[i]));
    if (page_table[i]) set(i, 0);
  }
}

void memory_promise(uint32_t start, uint32_t bytes, unsigned may) {
  memory_release(start, bytes);
  for (uint32_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++)
    page_table[i] = PROMISED | may << MAY_SHIFT;
}

void memory_forget(uint32_t start, uint32_t bytes) {
  for (uint32_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++) {
    const uint32_t entry = page_table[i];
    if (!is_real(entry)) continue;
    give_back(page_of(entry));
    set(i, PROMISED | may_of(entry) << MAY_SHIFT);
  }
}

bool memory_protect(uint32_t start, uint32_t bytes, unsigned may) {
  for (uint32_t i = start / PAGE_BYTES; i < (start + bytes) / PAGE_BYTES; i++) {
    if (!page_table[i]) return false;
    set(i, is_real(page_table[i]) ? memory_entry(page_of(page_table[i]), may) : PROMISED | may << MAY_SHIFT);
  }
  return true;
}

uint32_t memory_find(uint32_t bytes) {
  uint32_t found = 0;
  for (uint32_t i = MAPPINGS_END / PAGE_BYTES; i-- > 0;) {
    found = page_table[i] ? 0 : found + PAGE_BYTES;
    if (found >= bytes) return i * PAGE_BYTES;
  }
  return 0;
}

/* ---- touching ---------------------------------------------------------------------------------------------------- */

static bool make_real(uint32_t index) {
  uint32_t *page = take_page();
  if (!page) return false;
  set(index, memory_entry(page, page_table[index] >> MAY_SHIFT));
  return true;
}

bool memory_touch(uint32_t address, unsigned use) {
  if (address >= PROGRAM_END) return false;
  const uint32_t index = address / PAGE_BYTES;
  if (is_real(page_table[index])) return allows(may_of(page_table[index]), use);
  if (!allows(page_table[index] >> MAY_SHIFT, use)) return false;
  if (!make_real(index)) bare_ended(9 /* SIGKILL, as of a system without memory */);
  faults++;
  return true;
}

void *memory_of_program(uint32_t address, uint32_t bytes, unsigned use) {
  if (address >= PROGRAM_END || bytes > PROGRAM_END - address) return NULL;
  for (uint32_t page = address & ~(PAGE_BYTES - 1u); page < address + bytes; page += PAGE_BYTES)
    if (!memory_touch(page, use)) return NULL;
  return (void *)(uintptr_t)address;
}

bool memory_fill(uint32_t address, const void *bytes, uint32_t count) {
  const uint8_t *from = bytes;
  while (count) {
    const uint32_t index = address / PAGE_BYTES, offset = address % PAGE_BYTES, rest = PAGE_BYTES - offset;
    const uint32_t part = count < rest ? count : rest;
    if (!is_real(page_table[index]) && !make_real(index)) return false;
    uint8_t *to = (uint8_t *)page_of(page_table[index]) + offset;
    memcpy(to, from, part);
    memory_publish((uint32_t)(uintptr_t)to, part);
    address += part, from += part, count -= part;
  }
  return true;
}

/* To the point where instruction fetches look as well, line by line; then the fetches forget what they had (A3.5.4). The
 * shortest line of any ARMv7 core is taken, which is 32 bytes on the Cortex-A9. */
void memory_publish(uint32_t start, uint32_t bytes) {
  enum { LINE = 32 };
  for (uint32_t line = start & ~(LINE - 1u); line < start + bytes; line += LINE)
    __asm__ volatile("mcr p15, 0, %0, c7, c11, 1" ::"r"(line) : "memory"); /* DCCMVAU */
  __asm__ volatile("dsb\n\tmcr p15, 0, %0, c7, c5, 0\n\tmcr p15, 0, %0, c7, c5, 6\n\tdsb\n\tisb" ::"r"(0) : "memory");
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

void memory_open(uint32_t free_address, uint32_t end, uint32_t offset) {
  const uint32_t table = 1, read_by_all = CACHED | SMALL | USERS | READ_ONLY;
  behind = offset;
  first_free = next_free = free_address;
  limit = end;
  for (uint32_t mib = 0; mib < PROGRAM_END >> 20; mib++)
    bare_first_level[mib] = memory_in_board(page_table + mib * 256) | table;
  vectors_table[VECTORS_AT >> 12 & 0xff] = memory_in_board(bare_vectors) | read_by_all;
  bare_first_level[VECTORS_AT >> 20] = memory_in_board(vectors_table) | table;
  __asm__ volatile("dsb\n\tmcr p15, 0, %0, c8, c7, 0\n\tdsb\n\tisb" ::"r"(0) : "memory"); /* TLBIALL */
}

void memory_clear(void) {
  memset(page_table, 0, sizeof page_table);
  __asm__ volatile("dsb\n\tmcr p15, 0, %0, c8, c7, 0\n\tdsb\n\tisb" ::"r"(0) : "memory");
  next_free = first_free;
  returned = NULL;
  pages_now = most_pages = faults = 0;
}

uint32_t memory_total(void) {
  return limit - first_free;
}
uint32_t memory_left(void) {
  return limit - first_free - pages_now * PAGE_BYTES;
}
uint32_t memory_faults(void) {
  return faults;
}
uint32_t memory_most_pages(void) {
  return most_pages;
}
