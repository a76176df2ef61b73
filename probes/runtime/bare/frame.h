/* SPDX-License-Identifier: Apache-2.0
 *
 * A CPU's part of signals: `struct action`, `struct context` and `struct frame` are in its arch.h, these in its frame.c.
 */
#ifndef TOLL_BARE_FRAME_H
#define TOLL_BARE_FRAME_H

#include "bare.h"

/* The registers of the core and of the FPU, into a context and back. A program may change what it returns to, but not into
 * another mode. */
void frame_keep(struct context *context, const registers *core, uintptr_t address);
void frame_restore(const struct context *context, registers *core);
/* The handler's registers, with a frame on its stack. */
void frame_enter(registers *core, const struct action *action, struct frame *frame, int number);
bool frame_can_return(const struct action *action);
/* Goes on where the context says, with the signals blocked that it says. */
intptr_t signals_return(registers *core, uintptr_t context_at);

#endif
