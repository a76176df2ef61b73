/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

enum { DATA = 0x00, FLAGS = 0x18, LINE = 0x2c, CONTROL = 0x30, MASK = 0x38, MASKED = 0x40, CLEAR = 0x44 };
enum { SENDER_FULL = 1 << 5, RECEIVER_EMPTY = 1 << 4, RECEIVED = 1 << 4 | 1 << 6 /* and received long ago */ };

void uart_open(uintptr_t uart) {
  enum { EIGHT_BITS_WITH_FIFO = 3 << 5 | 1 << 4, ON = 1 | 1 << 8 | 1 << 9 };
  *device(uart + LINE) = EIGHT_BITS_WITH_FIFO;
  *device(uart + CONTROL) = ON;
}

void uart_send(uintptr_t uart, char byte) {
  while (*device(uart + FLAGS) & SENDER_FULL) continue;
  *device(uart + DATA) = (uint8_t)byte;
}

int uart_read(uintptr_t uart) {
  return *device(uart + FLAGS) & RECEIVER_EMPTY ? -1 : (int)(*device(uart + DATA) & 0xff);
}

void uart_listen(uintptr_t uart) {
  *device(uart + MASK) = RECEIVED;
}

bool uart_called(uintptr_t uart) {
  if (!(*device(uart + MASKED) & RECEIVED)) return false;
  *device(uart + CLEAR) = RECEIVED;
  return true;
}
