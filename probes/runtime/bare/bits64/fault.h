/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOLL_BARE_FAULT_H
#define TOLL_BARE_FAULT_H

#include "frame.h"

/* The program touched an address: its page comes, or the signal does. */
void fault_at(registers *core, uintptr_t address, unsigned use);
/* Where a handler returns to. */
uintptr_t trampoline(void);
enum { BYTES_OF_RETURN = 8 };
extern const char bare_signal_return[BYTES_OF_RETURN]; /* start.S: two instructions that call rt_sigreturn */

#endif
