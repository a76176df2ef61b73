/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a LEON3 (GRLIB IP Core User's Manual: APBUART, IRQMP, GPTIMER), at the addresses that QEMU's
 * `leon3_generic` has.
 */
#include "devices.h"

enum { UART_INTERRUPT = 3, ALARM_INTERRUPT = 7 };
#define UART       0x80000100
#define INTERRUPTS 0x80000200
#define TIMERS     0x80000300

/* QEMU's timers count 40 MHz, divided. */
enum { CORE_HZ = 40000000, DIVISOR = 4, USUAL_HZ = CORE_HZ / DIVISOR };

const struct boot board_usual = {.memory_bytes = 256 << 20, .wire = UART, .timer_hz = USUAL_HZ};

/* ---- the clock: the first timer counts down, and the second wakes ---------------------------------------------------- */

enum { SCALER_RELOAD = 4, FIRST = 0x10, SECOND = 0x20, COUNT = 0, RELOAD = 4, CONTROL = 8 };
enum { ENABLE = 1, RESTART = 2, LOAD = 4, INTERRUPTING = 8, PENDING = 16 };

/* In QEMU the count begins one above what is loaded, which is to have 32 bits. */
enum { TURN = UINT32_MAX };
static uint64_t turns; /* ticks of the counter's whole turns */
static uint32_t seen;  /* ticks of this turn, as of the last look */

/* Nothing is timed for the seven minutes of a turn without a look at the clock. */
uint64_t timer_ticks(void) {
  const uint32_t now = TURN - *device(TIMERS + FIRST + COUNT);
  if (now < seen) turns += TURN;
  seen = now;
  return turns + now;
}

uint64_t timer_counted_ns(void) {
  return timer_ticks() * (1000000000 / USUAL_HZ);
}

void timer_zero(void) {
  timer_quiet();
  *device(TIMERS + SCALER_RELOAD) = DIVISOR - 1;
  *device(TIMERS + FIRST + RELOAD) = TURN - 1;
  *device(TIMERS + FIRST + CONTROL) = ENABLE | RESTART | LOAD;
  turns = seen = 0;
}

void timer_quiet(void) {
  *device(TIMERS + SECOND + CONTROL) = PENDING;
}

void timer_compare(uint64_t ticks) {
  const uint64_t now = timer_ticks();
  const uint64_t left = ticks > now ? ticks - now : 1;
  *device(TIMERS + SECOND + RELOAD) = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX; /* it may wake too early */
  *device(TIMERS + SECOND + CONTROL) = ENABLE | LOAD | INTERRUPTING;
}

/* ---- interrupts ---------------------------------------------------------------------------------------------------- */

enum { WAITING = 4, CLEAR = 12, MASK = 0x40 };

void board_attend_interrupts(void) {
  const uint32_t waiting = *device(INTERRUPTS + WAITING);
  *device(INTERRUPTS + CLEAR) = waiting;
  if (waiting & 1u << ALARM_INTERRUPT) timer_quiet();
  lines_attend();
}

/* It wakes at an interrupt though the core takes none here. */
void board_wait(void) {
  __asm__ volatile("wr %%g0, %%asr19" ::: "memory");
  board_attend_interrupts();
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

void board_open(const struct boot *boot) {
  lines_open(boot->wire, 0);
  clock_open(boot->timer_hz, false);
  *device(INTERRUPTS + MASK) = 1u << UART_INTERRUPT | 1u << ALARM_INTERRUPT;
}

/* A trap 0 while traps are off stops a LEON3, and ends QEMU. */
void board_off(void) {
  __asm__ volatile("wr %%g0, 0x80, %%psr\n\tnop\n\tnop\n\tnop\n\tta 0" ::: "memory");
  for (;;) continue;
}
