/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor: what stands between a probe and a board without an operating system. It runs the executables that Linux
 * runs, unchanged, one at a time, in user mode with caches and FPU on, and receives the host's commands on a serial line
 * as emulator/init.c does in a guest (that file describes them).
 *
 * It is no Linux. It knows the system calls that a probe of one process needs, and answers all others with ENOSYS, so that
 * a probe which needs more says so in a sentence. Nothing is shared, nothing else runs, no interrupt comes unless the host
 * or the program's own timer sends it: two runs execute the same instructions.
 *
 * The files of this folder are the same for every CPU. Those of a folder below it are one CPU's: `arch.h` and `places.h`
 * (registers, page-table entries, addresses), `start.S` (the first instruction, exceptions), `faults.c` (what traps),
 * `frame.c` (what a signal's handler finds) and `board.c` (UART, interrupts, clock).
 *
 * The supervisor is compiled without instructions of the FPU, so that the program's FPU registers are only touched to be
 * kept during a signal's handler.
 */
#ifndef TOLL_BARE_H
#define TOLL_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGE_BYTES = 4096 };
enum { MAY_READ = 1, MAY_WRITE = 2, MAY_EXECUTE = 4 }; /* PROT_ of mmap(2) */

/* `registers`: the program's, as start.S keeps them; `page_entry`: of the last level's table, 0 or two zero bits at its end
 * where no page is. */
#include "arch.h"

#define ARGUMENT(core, n) ((core)->r[FIRST_ARGUMENT + (n)])

/* ---- start.S ---------------------------------------------------------------------------------------------------- */

extern const char bare_zero_end[], bare_image_end[];
/* Starts the program with these registers. */
_Noreturn void bare_enter(const registers *core);
/* Forgets what was going on, in whatever mode, and waits for the next command. */
_Noreturn void bare_again(void);

/* What start.S calls. left: the address of what the boot loader left, or a count of words, which are then at `words`, as
 * U-Boot's `go` passes them. to_memory: from the supervisor's addresses to those in memory. */
void bare_begin(uintptr_t left, uintptr_t words, uintptr_t to_memory);
_Noreturn void bare_attend(void);
void bare_call(registers *core);
void bare_interrupt(registers *core);

/* ---- main.c ------------------------------------------------------------------------------------------------------ */

/* The program has ended with this status, as wait(2) encodes it. */
_Noreturn void bare_ended(int status);
/* Passes on what the host said. */
void bare_read_wire(void);

/* ---- boot.c ------------------------------------------------------------------------------------------------------ */

struct boot {
  uintptr_t memory_at, memory_bytes, archive_start, archive_end; /* addresses in memory */
  uintptr_t wire;                                                /* words of the command line */
  uint32_t timer_hz;
  bool real;    /* the clock is the hardware's, and no emulator's */
  bool counted; /* an emulator makes a ns of each instruction, and shows that in the cycle counter */
};
/* Changes what the boot loader left word of: tags or a device tree. */
void boot_read(struct boot *boot, const uint32_t *left);
void boot_read_words(struct boot *boot, const char *line);

/* ---- board.c ----------------------------------------------------------------------------------------------------- */

/* What holds for a board of which nothing is boot. */
extern const struct boot board_usual;
void board_open(const struct boot *boot);
void board_write(const char *bytes, size_t count); /* on the wire */
void board_say(const char *text);                  /* on the console, the first UART; nowhere if that is the wire */
int board_read(void);                              /* a byte from the wire, -1 where there is none */
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

/* The last level's tables, side by side, for start.S or pages_open() to point to. */
extern page_entry bare_page_table[];
/* first_free, end: of the board's memory, as the supervisor sees it. to_memory: from there to the address in memory. */
void memory_open(uintptr_t first_free, uintptr_t end, uintptr_t to_memory);
/* Takes everything from the program. */
void memory_clear(void);
/* Promises zeroed pages, which come when they are touched. start and bytes are whole pages. */
void memory_promise(uintptr_t start, uintptr_t bytes, unsigned may);
void memory_release(uintptr_t start, uintptr_t bytes);
/* Reserved and zero on demand again, whatever was there. */
void memory_forget(uintptr_t start, uintptr_t bytes);
bool memory_protect(uintptr_t start, uintptr_t bytes, unsigned may); /* false where a page is not reserved */
/* The end of mappings' address space, looking down, where so many bytes are free; 0 where nowhere. */
uintptr_t memory_find(uintptr_t bytes);
/* Zeroes a reserved page where the program may use it so. False where it may not, or where memory is at its end. */
bool memory_touch(uintptr_t address, unsigned use);
/* The program's memory, as the supervisor may use it; NULL where the program may not. */
void *memory_of_program(uintptr_t address, uintptr_t bytes, unsigned use);
/* Copies into a program's page whatever it may do itself; what is written there can be executed afterwards. */
bool memory_fill(uintptr_t address, const void *bytes, uintptr_t count);
/* Where in the board's memory something of the supervisor's lies. */
uintptr_t memory_in_board(const void *supervisors);
uintptr_t memory_total(void), memory_left(void); /* bytes */
uint32_t memory_faults(void);                    /* pages that came on a touch, since the last memory_clear() */
uint32_t memory_most_pages(void);                /* that the program had at once */

/* ---- a CPU's own: start.S, faults.c ------------------------------------------------------------------------------- */

/* Points the first level's table to the last level's. */
void pages_open(void);
/* What was written is what is executed from now on. */
void pages_publish(uintptr_t start, uintptr_t bytes);
void faults_clear(void);
uint32_t faults_emulated(void); /* instructions that were emulated here */

/* ---- load.c ------------------------------------------------------------------------------------------------------ */

struct bare_file {
  const uint8_t *bytes;
  uintptr_t size;
};
/* A file of the first file system (a cpio archive), without its leading slash. */
bool archive_find(struct bare_file archive, const char *path, struct bare_file *file);
/* How many bytes of an archive stand here. 0: none. */
uintptr_t archive_bytes(const uint8_t *bytes, uintptr_t limit);
/* Puts an executable into memory with its words. 0, with the registers to start it with, or a positive errno. */
int load_program(struct bare_file file, char *const words[], registers *core);
void load_for_real_time(bool real); /* what programs are boot of the clock: the hardware's, or an emulator's */
uintptr_t load_break(void);         /* where the program's heap begins */

/* ---- signals.c, and frame.c of a CPU ----------------------------------------------------------------------------- */

void signals_clear(void);
/* A signal from outside, delivered when the program goes on. */
void signals_raise(int number);
bool signals_wait(void); /* one is waiting that is not blocked */
void signals_deliver(registers *core);
/* A signal for what the program has just done: it ends the program where it is not caught. */
void signals_force(registers *core, int number, int code, uintptr_t address);
uint32_t signals_handled(void); /* how often a handler was called */

intptr_t signals_call_action(registers *core), signals_call_mask(registers *core),
    signals_call_pending(registers *core), signals_call_stack(registers *core), signals_call_rt_return(registers *core);

/* ---- calls.c ----------------------------------------------------------------------------------------------------- */

void calls_clear(struct bare_file program, struct bare_file archive);
/* The program's own timer, where its time has come. */
void calls_attend_timer(void);

/* ---- text.c ------------------------------------------------------------------------------------------------------ */

/* memcpy, memset, memcmp and strlen besides, which a compiler calls of itself. */
void *memcpy(void *to, const void *from, size_t count);
void *memset(void *to, int byte, size_t count);
int memcmp(const void *a, const void *b, size_t count);
size_t strlen(const char *text);
bool text_begins(const char *text, const char *beginning);
bool text_equals(const char *a, const char *b);
/* Decimal, or hexadecimal after 0x. */
uintptr_t text_number(const char *text);
/* A number in decimal; returns its first digit. */
enum { TEXT_OF_NUMBER = 11 };
char *text_of_number(char digits[TEXT_OF_NUMBER], uint32_t number);
/* On the console. */
void say_number(uint32_t number), say_address(uintptr_t address);

#endif
