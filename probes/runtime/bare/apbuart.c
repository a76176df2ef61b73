/* SPDX-License-Identifier: Apache-2.0
 *
 * The APBUART of GRLIB (GRLIB IP Core User's Manual).
 */
#include "devices.h"

enum { DATA = 0, STATUS = 4, CONTROL = 8 };
enum { RECEIVED = 1, SENDER_EMPTY = 4, RECEIVER_ON = 1, SENDER_ON = 2, RECEIVER_INTERRUPTS = 4 };

void uart_open(uintptr_t uart) {
  *device(uart + CONTROL) = RECEIVER_ON | SENDER_ON;
}

void uart_send(uintptr_t uart, char byte) {
  while (!(*device(uart + STATUS) & SENDER_EMPTY)) continue;
  *device(uart + DATA) = (uint8_t)byte;
}

int uart_read(uintptr_t uart) {
  return *device(uart + STATUS) & RECEIVED ? (int)(*device(uart + DATA) & 0xff) : -1;
}

void uart_listen(uintptr_t uart) {
  *device(uart + CONTROL) = RECEIVER_ON | SENDER_ON | RECEIVER_INTERRUPTS;
}

/* The byte that raised the interrupt may have been read since. */
bool uart_called(uintptr_t uart) {
  return *device(uart + STATUS) & RECEIVED;
}
