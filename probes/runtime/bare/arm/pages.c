/* SPDX-License-Identifier: Apache-2.0
 *
 * The translation table above that of the program's pages, and the system calls that only ARM has.
 */
#include <asm/unistd.h>
#include <linux/errno.h>

#include "../../custom_vectors.h"
#include "calls.h"
#include "limits/limits.h"

uint32_t bare_first_level[4096] __attribute__((aligned(16384)));
static uint32_t vectors_table[256] __attribute__((aligned(1024)));

void pages_open(void) {
  const uint32_t table = 1, read_by_all = CACHED | SMALL | USERS | READ_ONLY;
  for (uint32_t mib = 0; mib < PROGRAM_END >> 20; mib++)
    bare_first_level[mib] = memory_in_board(bare_page_table + mib * 256) | table;
  vectors_table[VECTORS_AT >> 12 & 0xff] = memory_in_board(bare_vectors) | read_by_all;
  bare_first_level[VECTORS_AT >> 20] = memory_in_board(vectors_table) | table;
}

/* To the point where instruction fetches look as well, line by line; then the fetches forget what they had (A3.5.4). The
 * shortest line of any ARMv7 core is taken, which is 32 bytes on the Cortex-A9. */
void pages_publish(uintptr_t start, uintptr_t bytes) {
  enum { LINE = 32 };
  for (uintptr_t line = start & ~(LINE - 1u); line < start + bytes; line += LINE)
    __asm__ volatile("mcr p15, 0, %0, c7, c11, 1" ::"r"(line) : "memory"); /* DCCMVAU */
  __asm__ volatile("dsb\n\tmcr p15, 0, %0, c7, c5, 0\n\tmcr p15, 0, %0, c7, c5, 6\n\tdsb\n\tisb" ::"r"(0) : "memory");
}

static intptr_t call_cacheflush(registers *core) {
  const uintptr_t bytes = ARGUMENT(core, 1) - ARGUMENT(core, 0);
  if (!memory_of_program(ARGUMENT(core, 0), bytes, MAY_READ)) return -EFAULT;
  pages_publish(ARGUMENT(core, 0), bytes);
  return 0;
}

static intptr_t call_set_tls(registers *core) {
  core_set_thread(ARGUMENT(core, 0));
  return 0;
}

/* The numbers that ARM keeps for itself. */
call *call_of_arch(uintptr_t number) {
  if (number == VECTORS_CALL) return limits_call;
  return number == __ARM_NR_set_tls ? call_set_tls : number == __ARM_NR_cacheflush ? call_cacheflush : NULL;
}
