/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables above those of the program's pages (appendix H; on a LEON3 the MMU's registers are in space 0x19).
 */
#include "calls.h"

enum { LARGE_SHIFT = 24, TABLE_ENTRIES = 64, TABLES = PROGRAM_END >> 18 };
enum { CONTROL = 0, CONTEXTS = 0x100, CONTEXT = 0x200, TRANSLATE = 1 };

static page_entry root[256] __attribute__((aligned(1024)));
static page_entry contexts[1] __attribute__((aligned(1024)));
static page_entry program_table[TABLES] __attribute__((aligned(256)));

static void write_register(uint32_t number, uint32_t value) {
  __asm__ volatile("sta %0, [%1] 0x19" ::"r"(value), "r"(number) : "memory");
}

/* Memory and devices stand where they are in the board's addresses. */
void bare_translate(void) {
  for (uint32_t i = MEMORY_AT >> LARGE_SHIFT; i < 256; i++)
    root[i] = entry_of_large(i << LARGE_SHIFT, i < DEVICES_AT >> LARGE_SHIFT ? CACHED : 0);
  contexts[0] = entry_of_table((uintptr_t)root);
  write_register(CONTEXTS, (uintptr_t)contexts >> 4);
  write_register(CONTEXT, 0);
  pages_forget_all();
  write_register(CONTROL, TRANSLATE);
}

void pages_open(void) {
  for (uint32_t i = 0; i < TABLES; i++)
    program_table[i] = entry_of_table((uintptr_t)(bare_page_table + i * TABLE_ENTRIES));
  for (uint32_t i = 0; i < PROGRAM_END >> LARGE_SHIFT; i++)
    root[i] = entry_of_table((uintptr_t)(program_table + i * TABLE_ENTRIES));
}

void pages_publish(uintptr_t start, uintptr_t bytes) {
  for (uintptr_t at = start & ~(uintptr_t)7; at < start + bytes; at += 8)
    __asm__ volatile("flush %0" ::"r"(at) : "memory");
}

/* No call has a number that is out of Linux's table. */
call *call_of_arch(uintptr_t number) {
  (void)number;
  return NULL;
}
