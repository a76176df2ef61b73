/* SPDX-License-Identifier: Apache-2.0 */
static inline uintptr_t __get_tp(void) {
  register uintptr_t tp __asm__("g7");
  __asm__("" : "=r"(tp));
  return tp;
}

#define MC_PC regs.pc
