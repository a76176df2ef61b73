/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls by what they are about: files.c, timer.c, and all else in calls.c. core: the program's registers, which
 * hold the arguments. Each returns what the program finds as its result: an answer, or a negative errno.
 */
#ifndef TOLL_BARE_CALLS_H
#define TOLL_BARE_CALLS_H

#include "bare.h"

typedef intptr_t call(registers *core);

call call_open, call_openat, call_close, call_read, call_pread, call_lseek, call_llseek, call_write, call_writev;
call call_clock_gettime64, call_clock_gettime, call_gettimeofday, call_setitimer, call_nanosleep, call_clock_nanosleep,
    call_clock_nanosleep64;

/* The numbers above all others, which one CPU's Linux keeps for itself; NULL: none. */
call *call_of_arch(uintptr_t number);

void files_clear(struct bare_file program, struct bare_file archive);
void timer_clear(void);

#endif
