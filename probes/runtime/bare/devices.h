/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that boards have in common. uart: an address of the supervisor's.
 */
#ifndef TOLL_BARE_DEVICES_H
#define TOLL_BARE_DEVICES_H

#include "bare.h"

static inline volatile uint32_t *device(uintptr_t address) {
  return (volatile uint32_t *)address;
}

/* ---- pl011.c (ARM DDI 0183), ns16550.c (TI SLLS177), apbuart.c ------------------------------------------------------------- */

/* Speed and pins are as the boot loader left them. */
void uart_open(uintptr_t uart);
void uart_send(uintptr_t uart, char byte);
int uart_read(uintptr_t uart);    /* -1: nothing there */
void uart_listen(uintptr_t uart); /* an interrupt for what comes from now on */
/* Whether that interrupt waits; it is quieted. */
bool uart_called(uintptr_t uart);

/* ---- gic.c (ARM IHI 0048, and the Cortex-A9's, ARM DDI 0407) ------------------------------------------------------ */

/* distributor, core_side: of the interrupt controller. timer: the number of the timer's interrupt. */
void gic_open(uintptr_t distributor, uintptr_t core_side, uint32_t timer);
void gic_attend(void);

/* ---- board.c, shared ---------------------------------------------------------------------------------------------- */

/* Both lines; console: 0 where there is none. counted: the clock is an emulator's count of instructions, a ns each. */
void lines_open(uintptr_t wire, uintptr_t console);
void clock_open(uint32_t timer_hz, bool counted);
/* An interrupt that is not the timer's. False where no device of ours sent it. */
bool lines_attend(void);

/* ---- a CPU's timer ------------------------------------------------------------------------------------------------ */

void timer_zero(void);              /* it counts from 0, and no alarm is set */
uint64_t timer_ticks(void);         /* since then */
uint64_t timer_counted_ns(void);    /* of an emulator's time, in which an instruction takes a ns */
void timer_compare(uint64_t ticks); /* an interrupt then */
void timer_quiet(void);             /* none, and none waits */

#endif
