/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of boards with a PL011, a GICv2 and the architecture's timer (D11), at the addresses that QEMU's `virt` has.
 */
#include "devices.h"

enum { DISTRIBUTOR = 0x08000000, CORE_SIDE = 0x08010000, UART = 0x09000000, TIMER_INTERRUPT = 27 };

const struct boot board_usual = {.memory_bytes = 128 << 20, .wire = UART};

static uint64_t zero, counted_zero;

static uint64_t count(void) {
  uint64_t ticks;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks)::"memory");
  return ticks;
}

/* QEMU's cycle counter is its virtual time in ns. */
static uint64_t cycles(void) {
  uint64_t now;
  __asm__ volatile("isb\n\tmrs %0, pmccntr_el0" : "=r"(now)::"memory");
  return now;
}

void timer_zero(void) {
  timer_quiet();
  zero = count();
  counted_zero = cycles();
}

uint64_t timer_ticks(void) {
  return count() - zero;
}

uint64_t timer_counted_ns(void) {
  return cycles() - counted_zero;
}

void timer_compare(uint64_t ticks) {
  __asm__ volatile("msr cntv_cval_el0, %0\n\tmsr cntv_ctl_el0, %1\n\tisb" ::"r"(zero + ticks), "r"(1ull) : "memory");
}

void timer_quiet(void) {
  __asm__ volatile("msr cntv_ctl_el0, xzr\n\tisb" ::: "memory");
}

void board_open(const struct boot *boot) {
  uint64_t hz = boot->timer_hz;
  if (!hz) __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
  __asm__ volatile("msr pmcr_el0, %0\n\tmsr pmcntenset_el0, %1\n\tisb" ::"r"(0x41ull), "r"(1ull << 31));
  lines_open(DEVICES_AT + boot->wire, 0);
  clock_open((uint32_t)hz, boot->counted);
  gic_open(DEVICES_AT + DISTRIBUTOR, DEVICES_AT + CORE_SIDE, TIMER_INTERRUPT);
}

void board_attend_interrupts(void) {
  gic_attend();
}

void board_wait(void) {
  __asm__ volatile("dsb sy\n\twfi" ::: "memory");
  board_attend_interrupts();
}

/* PSCI (ARM DEN 0022) SYSTEM_OFF, of the firmware below: the hypervisor's, or the secure monitor's where this began as the
 * hypervisor. */
void board_off(void) {
  register uint64_t wanted __asm__("x0") = 0x84000008;
  if (bare_had_hypervisor)
    __asm__ volatile("smc #0" : "+r"(wanted)::"memory");
  else
    __asm__ volatile("hvc #0" : "+r"(wanted)::"memory");
  for (;;) __asm__ volatile("wfi");
}
