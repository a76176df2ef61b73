/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of boards with a 16550, a PLIC and an SBI, at the addresses that QEMU's `virt` has.
 */
#include "devices.h"

enum { PLIC = 0x0c000000, UART = 0x10000000, USUAL_HZ = 10000000 };

const struct boot board_usual = {.memory_bytes = 128 << 20, .wire = UART, .timer_hz = USUAL_HZ};

/* ---- the SBI (RISC-V Supervisor Binary Interface 1.0) -------------------------------------------------------------- */

enum { TIME = 0x54494d45, RESET = 0x53525354 };

static void ask_sbi(uint64_t extension, uint64_t first, uint64_t second) {
  register uint64_t a0 __asm__("a0") = first, a1 __asm__("a1") = second;
  register uint64_t a6 __asm__("a6") = 0, a7 __asm__("a7") = extension;
  __asm__ volatile("ecall" : "+r"(a0), "+r"(a1) : "r"(a6), "r"(a7) : "memory");
}

/* ---- the clock ---------------------------------------------------------------------------------------------------- */

static uint64_t zero, counted_zero;

static uint64_t count(void) {
  uint64_t ticks;
  __asm__ volatile("csrr %0, time" : "=r"(ticks)::"memory");
  return ticks;
}

/* QEMU's cycle counter is its virtual time in ns. */
static uint64_t cycles(void) {
  uint64_t now;
  __asm__ volatile("csrr %0, cycle" : "=r"(now)::"memory");
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

#define TIMERS_INTERRUPT "r"(1 << 5)

void timer_compare(uint64_t ticks) {
  ask_sbi(TIME, zero + ticks, 0);
  __asm__ volatile("csrs sie, %0" ::TIMERS_INTERRUPT : "memory");
}

/* It goes on waiting, and interrupts nothing. */
void timer_quiet(void) {
  __asm__ volatile("csrc sie, %0" ::TIMERS_INTERRUPT : "memory");
}

/* ---- interrupts (RISC-V Platform-Level Interrupt Controller 1.0.0) -------------------------------------------------- */

enum { WAITING = 0x1000, ALLOWED = 0x2000, ALLOWED_BYTES = 0x80, CORES = 0x200000, CORE_BYTES = 0x1000 };
enum { CLAIM = 4, SOURCES = 64 };

static uintptr_t own, allowed;

/* Each core has a place for machine mode and one for supervisor mode. No device's number is known here: all are let
 * through, and each speaks only when it is told to. */
static void open_interrupts(void) {
  const uint64_t place = 2 * bare_hart + 1;
  allowed = DEVICES_AT + PLIC + ALLOWED + place * ALLOWED_BYTES;
  own = DEVICES_AT + PLIC + CORES + place * CORE_BYTES;
  for (uint32_t source = 1; source < SOURCES; source++) *device(DEVICES_AT + PLIC + 4 * source) = 1;
  for (uint32_t word = 0; word < SOURCES / 32; word++) *device(allowed + 4 * word) = UINT32_MAX;
  *device(own) = 0; /* every priority */
}

/* A source that asks again at once, while the line has nothing, is a device that is not known here: it would ask for
 * ever. */
static void drop_if_unknown(uint32_t source) {
  const uint32_t word = source / 32 * 4, bit = 1u << source % 32;
  if (*device(DEVICES_AT + PLIC + WAITING + word) & bit && !lines_attend()) *device(allowed + word) &= ~bit;
}

/* One source at a time. The line's goes on asking while a whole command waits, which the caller takes. */
void board_attend_interrupts(void) {
  uint64_t pending;
  __asm__ volatile("csrr %0, sip" : "=r"(pending));
  if (pending & 1 << 5) timer_quiet();
  const uint32_t source = *device(own + CLAIM);
  if (!source) return;
  const bool ours = lines_attend(); /* or what came was read since */
  *device(own + CLAIM) = source;
  if (!ours) drop_if_unknown(source);
}

void board_wait(void) {
  __asm__ volatile("wfi" ::: "memory");
  board_attend_interrupts();
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

void board_open(const struct boot *boot) {
  lines_open(DEVICES_AT + boot->wire, 0);
  clock_open(boot->timer_hz, boot->counted);
  open_interrupts();
}

void board_off(void) {
  ask_sbi(RESET, 0, 0);
  for (;;) __asm__ volatile("wfi");
}
