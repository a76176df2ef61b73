/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

/* Registers of a byte, side by side. */
enum { DATA = 0, INTERRUPTS = 1, FIFO = 2, LINE_STATUS = 5 };
enum { RECEIVED = 1, SENDER_EMPTY = 1 << 5, WITH_FIFO = 1 };

static volatile uint8_t *at(uintptr_t address) {
  return (volatile uint8_t *)address;
}

void uart_open(uintptr_t uart) {
  *at(uart + FIFO) = WITH_FIFO;
}

void uart_send(uintptr_t uart, char byte) {
  while (!(*at(uart + LINE_STATUS) & SENDER_EMPTY)) continue;
  *at(uart + DATA) = (uint8_t)byte;
}

int uart_read(uintptr_t uart) {
  return *at(uart + LINE_STATUS) & RECEIVED ? *at(uart + DATA) : -1;
}

void uart_listen(uintptr_t uart) {
  *at(uart + INTERRUPTS) = RECEIVED;
}

/* The interrupt lasts until all is read, which the handler does. */
bool uart_called(uintptr_t uart) {
  return *at(uart + LINE_STATUS) & RECEIVED;
}
