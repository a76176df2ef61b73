/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests of "Speed limits" (Willcocks 2013): vectors that return as early as can be, and an object in a map of its own.
 * A program asks for them around a loop (../../../custom_vectors.h), and nothing else is served meanwhile: every other call
 * returns at once, signals wait.
 */
#ifndef TOLL_BARE_LIMITS_H
#define TOLL_BARE_LIMITS_H

#include "calls.h"

/* The call that takes the vectors over. 0, -EINVAL or -EFAULT. */
call limits_call;
/* A store that vectors.S did not know. True where it was the one that gives the vectors back. */
bool limits_abort(registers *core, uint32_t address);

/* ---- vectors.S --------------------------------------------------------------------------------------------------- */

/* What the vectors of calls and data aborts jump to, in the page of vectors. */
extern uint32_t bare_vector_call, bare_vector_abort;
void on_call(void), on_data_abort(void); /* the supervisor's own, of ../start.S */
void limits_on_call(void), limits_on_abort(void), limits_on_abort_kept(void);
/* The maps as the core takes them: the table's address with how walks look it up. */
extern uint32_t limits_caller_table, limits_object_table, limits_object_entry;

#endif
