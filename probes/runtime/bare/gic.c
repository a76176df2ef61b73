/* SPDX-License-Identifier: Apache-2.0
 *
 * No device's interrupt number is known here, since each board has others: all are let through, each device speaks only
 * when it is told to, and what speaks nevertheless is cut off.
 */
#include "devices.h"

enum { CONTROL = 0, PRIORITIES = 4, ACKNOWLEDGE = 0xc, DONE = 0x10 }; /* the core's side */
enum { ALLOW = 0x100, FORBID = 0x180, CORE_OF = 0x800 };              /* the distributor */
enum { FIRST_SHARED = 32, BEHIND_SHARED = 96, NONE = 1020, NUMBER = 0x3ff };

static uintptr_t all, own;
static uint32_t timer_number;

void gic_open(uintptr_t distributor, uintptr_t core_side, uint32_t timer) {
  all = distributor, own = core_side, timer_number = timer;
  for (uint32_t number = FIRST_SHARED; number < BEHIND_SHARED; number += 4)
    *device(all + CORE_OF + number) = 0x01010101; /* the first core, a byte each */
  for (uint32_t number = FIRST_SHARED; number < BEHIND_SHARED; number += 32)
    *device(all + ALLOW + number / 8) = UINT32_MAX;
  *device(all + ALLOW) = 1u << timer;
  *device(all + CONTROL) = 1;
  *device(own + PRIORITIES) = 0xff; /* every priority */
  *device(own + CONTROL) = 1;
}

static void attend(uint32_t number) {
  if (number == timer_number)
    timer_quiet();
  else if (!lines_attend())
    *device(all + FORBID + number / 32 * 4) = 1u << number % 32;
}

void gic_attend(void) {
  uint32_t taken;
  while (((taken = *device(own + ACKNOWLEDGE)) & NUMBER) < NONE) {
    attend(taken & NUMBER);
    *device(own + DONE) = taken;
  }
}
