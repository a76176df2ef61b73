/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices: two serial lines (PL011), and of the Cortex-A9's own cluster (Cortex-A9 MPCore TRM, ARM DDI 0407, chapters 3
 * and 4) the interrupt controller and the global timer.
 *
 * That timer is the clock: 64 bits, so that it never wraps, and it compares, so that it can wake. It counts the cluster's
 * PERIPHCLK, whose frequency nothing reports; QEMU's runs at 100 MHz, and a board's is on the command line. The cycle
 * counter of the core would be finer, but goes with the core's frequency and has 32 bits; QEMU's Cortex-A9 has none.
 */
#include "devices.h"

enum { FIRST_UART = 0x9000 };

const struct boot board_usual = {.memory_bytes = 64 << 20, .wire = DEVICES + FIRST_UART, .timer_hz = 100000000};

static uintptr_t cluster;

/* ---- the clock --------------------------------------------------------------------------------------------------- */

enum { TIMER = 0x200, COUNT = TIMER, CONTROL = TIMER + 8, STATUS = TIMER + 12, COMPARE = TIMER + 16 };
enum { RUN = 1, COMPARING = 2, INTERRUPTING = 4 };

uint64_t timer_ticks(void) {
  uint32_t high, low;
  do {
    high = *device(cluster + COUNT + 4);
    low = *device(cluster + COUNT);
  } while (*device(cluster + COUNT + 4) != high);
  return (uint64_t)high << 32 | low;
}

/* In an emulator's time an instruction takes a nanosecond and a tick ten. Readings that are eleven instructions apart are
 * a vernier: of ten steps nine are of one tick and one is of two, and there a tick has just begun. */
enum { TICK_NS = 10, READINGS = 11 };

static void read_apart(uint32_t seen[READINGS]) {
  uint32_t left = READINGS, count;
  __asm__ volatile("1: ldr %0, [%3]\n\tstr %0, [%2], #4\n\t.rept 7\n\tnop\n\t.endr\n\tsubs %1, #1\n\tbne 1b"
                   : "=&r"(count), "+r"(left), "+r"(seen)
                   : "r"(device(cluster + COUNT))
                   : "memory", "cc");
}

/* At the first of the readings. All of them are always made, so that this takes the same time whatever it finds. */
uint64_t timer_counted_ns(void) {
  uint32_t seen[READINGS], high, since = 0;
  do {
    high = *device(cluster + COUNT + 4);
    read_apart(seen);
  } while (*device(cluster + COUNT + 4) != high);
  for (uint32_t step = 1; step < READINGS; step++)
    if (seen[step] - seen[step - 1] == 2) since = TICK_NS - step;
  return ((uint64_t)high << 32 | seen[0]) * TICK_NS + since;
}

void timer_zero(void) {
  *device(cluster + CONTROL) = 0; /* it may be set only while it stands (4.4.1) */
  *device(cluster + COUNT) = 0;
  *device(cluster + COUNT + 4) = 0;
  timer_quiet();
}

/* The status stays set as long as the time is past the comparison, unless that is off (4.4.4). */
void timer_quiet(void) {
  *device(cluster + CONTROL) = RUN;
  *device(cluster + STATUS) = 1;
}

void timer_compare(uint64_t ticks) {
  *device(cluster + COMPARE) = (uint32_t)ticks;
  *device(cluster + COMPARE + 4) = (uint32_t)(ticks >> 32);
  *device(cluster + STATUS) = 1;
  *device(cluster + CONTROL) = RUN | COMPARING | INTERRUPTING;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

void board_open(const struct boot *boot) {
  enum { CORE_SIDE = 0x100, DISTRIBUTOR = 0x1000, TIMER_INTERRUPT = 27 };
  const uintptr_t first = DEVICES_AT + FIRST_UART, wire = DEVICES_AT + (boot->wire & 0xfffff);
  uint32_t base;
  __asm__("mrc p15, 4, %0, c15, c0, 0" : "=r"(base));
  cluster = PRIVATE_AT + (base & 0xfffff);
  lines_open(wire, wire == first ? 0 : first);
  clock_open(boot->timer_hz, !boot->real && boot->timer_hz == 1000000000 / TICK_NS);
  gic_open(cluster + DISTRIBUTOR, cluster + CORE_SIDE, TIMER_INTERRUPT);
}

void board_attend_interrupts(void) {
  gic_attend();
}

/* An interrupt wakes the core though it is not taken (B1.8.14), so that none is lost between the look and the sleep. */
void board_wait(void) {
  __asm__ volatile("dsb\n\twfi" ::: "memory");
  board_attend_interrupts();
}

/* The Versatile Express's system controller turns the board off (ARM DUI 0447, 4.3.13); others have no such switch. */
void board_off(void) {
  const uint32_t configure = 0xa4, start = 1u << 31, write = 1u << 30, shut_down = 8u << 20;
  *device(DEVICES_AT + configure) = start | write | shut_down;
  for (;;) __asm__ volatile("wfi");
}
