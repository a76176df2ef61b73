/* SPDX-License-Identifier: Apache-2.0
 *
 * The object's own map, and who has the vectors.
 *
 * The other map has the supervisor and the devices in common with the program's, and else one page: a copy of the page that
 * the object stands in, with the number of its own map in its last word. That word is the proof that an answer came from
 * there. Pages of programs belong to a map by its number (ASID), so that nothing is forgotten when maps change.
 */
#include <linux/errno.h>

#include "../../../custom_vectors.h"
#include "limits.h"

enum { TABLE_ENTRIES = 256, MIB_SHIFT = 20, WALKS_CACHED = 0x48, TABLE = 1 };

static uint32_t first_level[4096] __attribute__((aligned(16384)));
static uint32_t second_level[TABLE_ENTRIES] __attribute__((aligned(1024)));
static uint32_t copy[PAGE_BYTES / 4] __attribute__((aligned(PAGE_BYTES)));
static bool on;

bool core_is_taken(void) {
  return on;
}

static void make_map(uint32_t page) {
  memcpy(first_level, bare_first_level, sizeof first_level);
  for (uint32_t mib = 0; mib < PROGRAM_END >> MIB_SHIFT; mib++) first_level[mib] = 0;
  memset(second_level, 0, sizeof second_level);
  first_level[page >> MIB_SHIFT] = memory_in_board(second_level) | TABLE;
  memcpy(copy, (const void *)(uintptr_t)page, PAGE_BYTES);
  copy[VECTORS_MAP_WORD / 4] = VECTORS_OBJECT_MAP;
  pages_publish((uintptr_t)copy, PAGE_BYTES);
  second_level[page / PAGE_BYTES % TABLE_ENTRIES] = page_entry_of(memory_in_board(copy), MAY_READ | MAY_EXECUTE);
  limits_caller_table = memory_in_board(bare_first_level) | WALKS_CACHED;
  limits_object_table = memory_in_board(first_level) | WALKS_CACHED;
  limits_object_entry = page;
}

intptr_t limits_call(registers *core) {
  const bool kept = core->r[0];
  const uint32_t page = core->r[1];
  if (page % PAGE_BYTES) return -EINVAL;
  if (!memory_of_program(page, PAGE_BYTES, MAY_READ)) return -EFAULT;
  if (limits_object_entry != page) {
    make_map(page);
    pages_forget_all(); /* another object may have stood there before */
  }
  bare_vector_call = (uint32_t)(uintptr_t)limits_on_call;
  bare_vector_abort = (uint32_t)(uintptr_t)(kept ? limits_on_abort_kept : limits_on_abort);
  on = true;
  return 0;
}

bool limits_abort(registers *core, uint32_t address) {
  if (!on || address != VECTORS_LEAVE) return false;
  core_leave();
  core->r[15] += 4;
  return true;
}

/* A program may have been ended in the object's map. */
static void use_callers_map(void) {
  __asm__ volatile(
      "mcr p15, 0, %0, c13, c0, 1\n\tisb\n\tmcr p15, 0, %1, c2, c0, 0\n\tisb\n\t"
      "mcr p15, 0, %2, c13, c0, 1\n\tisb" ::"r"(0),
      "r"(limits_caller_table), "r"(VECTORS_CALLER_MAP)
      : "memory");
}

void core_leave(void) {
  if (on) use_callers_map();
  bare_vector_call = (uint32_t)(uintptr_t)on_call;
  bare_vector_abort = (uint32_t)(uintptr_t)on_data_abort;
  on = false;
}

void core_forget(void) {
  core_leave();
  limits_object_entry = 0;
}
