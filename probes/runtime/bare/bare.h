/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor: what stands between a probe and a board of ARMv7 without an operating system. It runs the executables
 * that Linux runs, unchanged, one after the other and one at a time, in user mode with caches and FPU on, and talks to the
 * host over a serial line as emulator/init.c does in a guest (the words are told there).
 *
 * It is no Linux. It knows the system calls that a probe of one process needs, and answers all others with ENOSYS, so that
 * a probe which needs more says so in a sentence. Nothing is shared, nothing else runs, no interrupt comes unless the host
 * or the program's own timer sends it: two runs execute the same instructions.
 *
 * Instructions of the old ARM ABI's accelerator (FPA) trap into bare_undefined(), which emulates them by ../fpa.h. That is
 * what kernels of those days did, and what this supervisor is for.
 *
 * It is compiled for a core without an FPU: its own arithmetic is calls of the soft-float library, and the program's FPU
 * registers are never touched but to be kept during a signal's handler.
 */
#ifndef TOLL_BARE_H
#define TOLL_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "places.h"
#define FPA_MEMORY_END PROGRAM_END
#include "../fpa.h"

enum { PAGE_BYTES = 4096 };

/* ---- start.S ---------------------------------------------------------------------------------------------------- */

extern uint32_t bare_first_level[4096]; /* the translation table, which start.S begins and memory.c completes */
extern const char bare_vectors[], bare_zero_end[];
/* Starts the program with these registers. */
_Noreturn void bare_enter(const struct fpa_core *core);
/* Forgets what was going on, in whatever mode, and waits for the next command. */
_Noreturn void bare_again(void);
void bare_fpu_keep(uint32_t words[65]);
void bare_fpu_load(const uint32_t words[65]);

/* What start.S calls. core: the program's registers, which it goes on with. */
void bare_begin(uint32_t left, uint32_t behind); /* what the boot loader left; see memory_open() */
_Noreturn void bare_attend(void);
void bare_undefined(struct fpa_core *core);
void bare_call(struct fpa_core *core);
void bare_interrupt(struct fpa_core *core);
void bare_prefetch_abort(struct fpa_core *core, uint32_t address, uint32_t fault);
void bare_data_abort(struct fpa_core *core, uint32_t address, uint32_t fault);
/* A fault of the supervisor's own at a program's address. 0 where it may try again, else the signal for the program. */
int bare_own_abort(uint32_t address, uint32_t fault, uint32_t instruction);
void bare_signal_after_abort(struct fpa_core *core, int number);

/* ---- main.c ------------------------------------------------------------------------------------------------------ */

/* The program has ended with this status, as wait(2) encodes it. */
_Noreturn void bare_ended(int status);
/* Passes on what the host said. */
void bare_hear(void);

/* ---- told.c ------------------------------------------------------------------------------------------------------ */

struct told {
  uint32_t memory_bytes, archive_start, archive_end; /* addresses in memory */
  uint32_t wire, timer_hz;                           /* words of the command line */
  bool real;                                         /* the clock is the hardware's, and no emulator's */
};
/* Changes what the boot loader left word of. */
void told_read(struct told *told, const uint32_t *left);

/* ---- board.c ----------------------------------------------------------------------------------------------------- */

/* wire: the address of the UART on which the host talks. timer_hz: how fast the core's global timer counts. real: it is no
 * emulator's. */
void board_open(uint32_t wire, uint32_t timer_hz, bool real);
void board_write(const char *bytes, size_t count); /* on the wire */
void board_say(const char *text);                  /* on the console, the first UART; nowhere if that is the wire */
void board_say_number(uint32_t number);
void board_say_address(uint32_t address);
int board_read(void); /* a byte from the wire, -1 where there is none */
/* Sleeps until an interrupt, and attends to it. */
void board_wait(void);
/* Attends to all interrupts that wait: fetches from the wire, and quiets the timer. */
void board_attend_interrupts(void);
_Noreturn void board_off(void);

void clock_restart(void); /* the clock is 0 from now on, and no alarm is set */
uint64_t clock_ns(void);
/* seconds and the rest of clock_ns(). */
struct bare_time {
  uint32_t seconds, ns;
} clock_time(void);
void clock_alarm(uint64_t ns); /* an interrupt at that time; UINT64_MAX: never */

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

enum { MAY_READ = 1, MAY_WRITE = 2, MAY_EXECUTE = 4 }; /* PROT_ of mmap(2) */

/* first_free, end: of the board's memory, as the supervisor sees it. behind: from there to the address in memory. */
void memory_open(uint32_t first_free, uint32_t end, uint32_t behind);
/* Takes everything from the program. */
void memory_clear(void);
/* Promises zeroed pages, which come when they are touched. start and bytes are whole pages. */
void memory_promise(uint32_t start, uint32_t bytes, unsigned may);
void memory_release(uint32_t start, uint32_t bytes);
/* Promised zeroes again, whatever was there. */
void memory_forget(uint32_t start, uint32_t bytes);
bool memory_protect(uint32_t start, uint32_t bytes, unsigned may); /* false where a page is not promised */
/* The end of mappings' address space, looking down, where so many bytes are free; 0 where nowhere. */
uint32_t memory_find(uint32_t bytes);
/* Makes a promised page real where the program may use it so. False where it may not, or where memory is at its end. */
bool memory_touch(uint32_t address, unsigned use);
/* The program's memory, as the supervisor may use it; NULL where the program may not. */
void *memory_of_program(uint32_t address, uint32_t bytes, unsigned use);
/* Copies into a program's page whatever it may do itself; what is written there can be executed afterwards. */
bool memory_fill(uint32_t address, const void *bytes, uint32_t count);
/* What was written is what is executed from now on. */
void memory_publish(uint32_t start, uint32_t bytes);
/* Where in the board's memory something of the supervisor's lies; and the entry of a second-level table that maps a whole
 * page of its for a program (B3.5.1). */
uint32_t memory_in_board(const void *supervisors);
uint32_t memory_entry(const uint32_t *page, unsigned may);
uint32_t memory_total(void), memory_left(void); /* bytes */
uint32_t memory_faults(void);                   /* pages that came on a touch, since the last memory_clear() */
uint32_t memory_most_pages(void);               /* that the program had at once */

/* ---- load.c ------------------------------------------------------------------------------------------------------ */

struct bare_file {
  const uint8_t *bytes;
  uint32_t size;
};
/* A file of the first file system (a cpio archive), without its leading slash. */
bool archive_find(struct bare_file archive, const char *path, struct bare_file *file);
/* Puts an executable into memory with its words. 0, with the registers to start it with, or a positive errno. */
int load_program(struct bare_file file, char *const words[], struct fpa_core *core);
void load_for_real_time(bool real); /* what programs are told of the clock: the hardware's, or an emulator's */
uint32_t load_break(void);          /* where the program's heap begins */

/* ---- signals.c --------------------------------------------------------------------------------------------------- */

void signals_clear(void);
/* A signal from outside, delivered when the program goes on. */
void signals_raise(int number);
bool signals_wait(void); /* one is waiting that is not blocked */
void signals_deliver(struct fpa_core *core);
/* A signal for what the program has just done: it ends the program where it is not caught. */
void signals_force(struct fpa_core *core, int number, int code, uint32_t address);
uint32_t signals_handled(void); /* how often a handler was called */

int32_t signals_call_action(struct fpa_core *core), signals_call_mask(struct fpa_core *core),
    signals_call_pending(struct fpa_core *core), signals_call_stack(struct fpa_core *core),
    signals_call_return(struct fpa_core *core), signals_call_rt_return(struct fpa_core *core);

/* ---- calls.c, faults.c ------------------------------------------------------------------------------------------- */

void calls_clear(struct bare_file program, struct bare_file archive);
/* The program's own timer, where its time has come. */
void calls_attend_timer(void);
void faults_clear(void);
uint32_t faults_emulated(void); /* FPA instructions */

/* ---- text.c ------------------------------------------------------------------------------------------------------ */

/* memcpy, memset, memcmp and strlen besides, which a compiler calls of itself. */
bool text_begins(const char *text, const char *beginning);
bool text_equals(const char *a, const char *b);
/* Decimal, or hexadecimal after 0x. */
uint32_t text_number(const char *text);
/* A number in decimal; returns its first digit. */
enum { TEXT_OF_NUMBER = 11 };
char *text_of_number(char digits[TEXT_OF_NUMBER], uint32_t number);

#endif
