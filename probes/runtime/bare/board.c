/* SPDX-License-Identifier: Apache-2.0
 *
 * The serial lines and the clock, of whichever devices a board has.
 */
#include "devices.h"

/* ---- serial lines ------------------------------------------------------------------------------------------------ */

static uintptr_t wire, console;

void lines_open(uintptr_t wire_at, uintptr_t console_at) {
  uart_open(wire_at);
  if (console_at) uart_open(console_at);
  wire = wire_at;
  console = console_at;
  uart_listen(wire);
}

void board_write(const char *bytes, size_t count) {
  while (count--) uart_send(wire, *bytes++);
}

int board_read(void) {
  return uart_read(wire);
}

void board_say(const char *text) {
  while (console && *text) uart_send(console, *text++);
}

bool lines_attend(void) {
  if (!uart_called(wire)) return false;
  bare_read_wire();
  return true;
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

enum { SCALE_SHIFT = 20 };

static uint64_t ns_scale, ticks_scale; /* of a tick, and of a ns: times 2^SCALE_SHIFT */
static uint64_t second_begins;         /* clock_ns() at the beginning of the second that clock_time() last saw */
static uint32_t second;
static bool by_instructions;

void clock_open(uint32_t timer_hz, bool counted) {
  ns_scale = (1000000000ull << SCALE_SHIFT) / timer_hz;
  ticks_scale = ((uint64_t)timer_hz << SCALE_SHIFT) / 1000000000;
  by_instructions = counted;
  clock_restart();
}

void clock_restart(void) {
  timer_zero();
  second_begins = second = 0;
}

uint64_t clock_ns(void) {
  if (by_instructions) return timer_counted_ns();
  return timer_ticks() * ns_scale >> SCALE_SHIFT;
}

/* A division of 64 bits would cost more than all the rest of a clock's reading. */
struct bare_time clock_time(void) {
  uint64_t now = clock_ns();
  for (; now - second_begins >= 1000000000; second_begins += 1000000000) second++;
  return (struct bare_time){second, (uint32_t)(now - second_begins)};
}

void clock_alarm(uint64_t ns) {
  const uint64_t longest = 3600ull * 1000000000;
  timer_quiet();
  if (ns <= longest) timer_compare(ns * ticks_scale >> SCALE_SHIFT);
}
