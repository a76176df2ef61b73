/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices: two serial lines (PL011, ARM DDI 0183), and of the Cortex-A9's own cluster (Cortex-A9 MPCore TRM, ARM DDI
 * 0407, chapters 3 and 4) the interrupt controller and the global timer.
 *
 * That timer is the clock: 64 bits, so that it never wraps, and it compares, so that it can wake. It counts the cluster's
 * PERIPHCLK, whose frequency nothing tells; QEMU's runs at 100 MHz, and a board's is told on the command line. The cycle
 * counter of the core would be finer, but goes with the core's frequency and has 32 bits; QEMU's Cortex-A9 has none.
 *
 * No device's interrupt number is known here, since each board has others: all are let through, each device speaks only
 * when it is told to, and what speaks nevertheless is cut off.
 */
#include "bare.h"

static volatile uint32_t *at(uint32_t address) {
  return (volatile uint32_t *)(uintptr_t)address;
}

/* ---- serial lines ------------------------------------------------------------------------------------------------ */

enum { FIRST_UART = 0x9000, DATA = 0x00, FLAGS = 0x18, LINE = 0x2c, CONTROL = 0x30, MASK = 0x38, CLEAR = 0x44 };
enum { SENDER_FULL = 1 << 5, RECEIVER_EMPTY = 1 << 4, RECEIVED = 1 << 4 | 1 << 6 /* and received long ago */ };

static uint32_t wire, console;

static uint32_t open_uart(uint32_t uart) {
  enum { EIGHT_BITS_WITH_FIFO = 3 << 5 | 1 << 4, ON = 1 | 1 << 8 | 1 << 9 };
  *at(uart + LINE) = EIGHT_BITS_WITH_FIFO;
  *at(uart + CONTROL) = ON;
  return uart;
}

static void send(uint32_t uart, char byte) {
  while (*at(uart + FLAGS) & SENDER_FULL) continue;
  *at(uart + DATA) = (uint8_t)byte;
}

void board_write(const char *bytes, size_t count) {
  while (count--) send(wire, *bytes++);
}

int board_read(void) {
  return *at(wire + FLAGS) & RECEIVER_EMPTY ? -1 : (int)(*at(wire + DATA) & 0xff);
}

void board_say(const char *text) {
  while (console && *text) send(console, *text++);
}

void board_say_number(uint32_t number) {
  char digits[TEXT_OF_NUMBER];
  board_say(text_of_number(digits, number));
}

void board_say_address(uint32_t address) {
  char text[11] = "0x";
  for (int i = 0; i < 8; i++) text[2 + i] = "0123456789abcdef"[address >> (28 - 4 * i) & 15];
  board_say(text);
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

enum { TIMER = 0x200, COUNT = TIMER, TIMER_CONTROL = TIMER + 8, TIMER_STATUS = TIMER + 12, COMPARE = TIMER + 16 };
enum { RUN = 1, COMPARING = 2, INTERRUPTING = 4 };
enum { SCALE_SHIFT = 20 };

static uint32_t cluster;
static uint64_t ns_scale, ticks_scale; /* of a tick, and of a ns: times 2^SCALE_SHIFT */
static uint64_t second_begins;         /* clock_ns() at the beginning of the second that clock_time() last saw */
static uint32_t second;
static bool by_instructions; /* the clock is an emulator's, which counts them */

static uint64_t ticks(void) {
  uint32_t high, low;
  do {
    high = *at(cluster + COUNT + 4);
    low = *at(cluster + COUNT);
  } while (*at(cluster + COUNT + 4) != high);
  return (uint64_t)high << 32 | low;
}

/* In an emulator's time an instruction takes a nanosecond and a tick ten. Readings that are eleven instructions apart are
 * a vernier: of ten steps nine are of one tick and one is of two, and there a tick has just begun. */
enum { TICK_NS = 10, READINGS = 11 };

static void read_apart(uint32_t seen[READINGS]) {
  uint32_t left = READINGS, count;
  __asm__ volatile("1: ldr %0, [%3]\n\tstr %0, [%2], #4\n\t.rept 7\n\tnop\n\t.endr\n\tsubs %1, #1\n\tbne 1b"
                   : "=&r"(count), "+r"(left), "+r"(seen)
                   : "r"(at(cluster + COUNT))
                   : "memory", "cc");
}

/* At the first of the readings. All of them are always made, so that this takes the same time whatever it finds. */
static uint64_t ns_by_vernier(void) {
  uint32_t seen[READINGS], high, since = 0;
  do {
    high = *at(cluster + COUNT + 4);
    read_apart(seen);
  } while (*at(cluster + COUNT + 4) != high);
  for (uint32_t step = 1; step < READINGS; step++)
    if (seen[step] - seen[step - 1] == 2) since = TICK_NS - step;
  return ((uint64_t)high << 32 | seen[0]) * TICK_NS + since;
}

void clock_restart(void) {
  *at(cluster + TIMER_CONTROL) = 0; /* it may be set only while it stands (4.4.1) */
  *at(cluster + COUNT) = 0;
  *at(cluster + COUNT + 4) = 0;
  *at(cluster + TIMER_STATUS) = 1;
  *at(cluster + TIMER_CONTROL) = RUN;
  second_begins = second = 0;
}

uint64_t clock_ns(void) {
  if (by_instructions) return ns_by_vernier();
  return ticks() * ns_scale >> SCALE_SHIFT;
}

/* A division of 64 bits would cost more than all the rest of a clock's reading. */
struct bare_time clock_time(void) {
  uint64_t now = clock_ns();
  for (; now - second_begins >= 1000000000; second_begins += 1000000000) second++;
  return (struct bare_time){second, (uint32_t)(now - second_begins)};
}

void clock_alarm(uint64_t ns) {
  const uint64_t longest = 3600ull * 1000000000;
  *at(cluster + TIMER_CONTROL) = RUN;
  if (ns > longest) return;
  uint64_t when = ns * ticks_scale >> SCALE_SHIFT;
  *at(cluster + COMPARE) = (uint32_t)when;
  *at(cluster + COMPARE + 4) = (uint32_t)(when >> 32);
  *at(cluster + TIMER_STATUS) = 1;
  *at(cluster + TIMER_CONTROL) = RUN | COMPARING | INTERRUPTING;
}

/* ---- interrupts -------------------------------------------------------------------------------------------------- */

enum { TO_CORE = 0x100, ACKNOWLEDGE = TO_CORE + 0xc, DONE = TO_CORE + 0x10, DISTRIBUTOR = 0x1000 };
enum { ALLOW = DISTRIBUTOR + 0x100, FORBID = DISTRIBUTOR + 0x180, CORE_OF = DISTRIBUTOR + 0x800 };
enum { TIMER_INTERRUPT = 27, FIRST_SHARED = 32, BEHIND_SHARED = 96, NONE = 1020 };

static void open_interrupts(void) {
  for (uint32_t number = FIRST_SHARED; number < BEHIND_SHARED; number += 4)
    *at(cluster + CORE_OF + number) = 0x01010101; /* the first core, a byte each */
  for (uint32_t number = FIRST_SHARED; number < BEHIND_SHARED; number += 32)
    *at(cluster + ALLOW + number / 8) = UINT32_MAX;
  *at(cluster + ALLOW) = 1u << TIMER_INTERRUPT;
  *at(cluster + DISTRIBUTOR) = 1;
  *at(cluster + TO_CORE + 4) = 0xff; /* every priority */
  *at(cluster + TO_CORE) = 1;
}

static void attend_interrupt(uint32_t number) {
  if (number == TIMER_INTERRUPT) {
    *at(cluster + TIMER_CONTROL) = RUN; /* once: it would go on, since the time stays behind (4.4.4) */
    *at(cluster + TIMER_STATUS) = 1;
  } else if (*at(wire + MASK + 8) & RECEIVED) {
    *at(wire + CLEAR) = RECEIVED;
    bare_hear();
  } else {
    *at(cluster + FORBID + number / 32 * 4) = 1u << number % 32;
  }
}

void board_attend_interrupts(void) {
  uint32_t taken;
  while (((taken = *at(cluster + ACKNOWLEDGE)) & 0x3ff) < NONE) {
    attend_interrupt(taken & 0x3ff);
    *at(cluster + DONE) = taken;
  }
}

/* An interrupt wakes the core though it is not taken (B1.8.14), so that none is lost between the look and the sleep. */
void board_wait(void) {
  __asm__ volatile("dsb\n\twfi" ::: "memory");
  board_attend_interrupts();
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

void board_open(uint32_t wire_address, uint32_t timer_hz, bool real) {
  uint32_t base;
  __asm__("mrc p15, 4, %0, c15, c0, 0" : "=r"(base));
  cluster = PRIVATE_AT + (base & 0xfffff);
  wire = open_uart(DEVICES_AT + (wire_address & 0xfffff));
  if (wire != DEVICES_AT + FIRST_UART) console = open_uart(DEVICES_AT + FIRST_UART);
  *at(wire + MASK) = RECEIVED;
  ns_scale = (1000000000ull << SCALE_SHIFT) / timer_hz;
  ticks_scale = ((uint64_t)timer_hz << SCALE_SHIFT) / 1000000000;
  by_instructions = !real && timer_hz == 1000000000 / TICK_NS;
  clock_restart();
  open_interrupts();
}

/* The Versatile Express's system controller turns the board off (ARM DUI 0447, 4.3.13); others have no such switch. */
void board_off(void) {
  const uint32_t configure = 0xa4, start = 1u << 31, write = 1u << 30, shut_down = 8u << 20;
  *at(DEVICES_AT + configure) = start | write | shut_down;
  for (;;) __asm__ volatile("wfi");
}
