/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the boundary crossings of one command, for `toll bill`: one process, linked with nothing of the runtime
 * (docs/bill.md).
 *
 * Three ways, from the most to the least that the system permits. KERNEL: BPF programs of our own at the kernel's
 * tracepoints count and time each system call. NOTIFIED: a seccomp filter passes each system call to this process, which
 * counts it and lets it go on; any user may. USAGE: what the kernel accounts to every process.
 */
#ifndef TOLL_BILL_H
#define TOLL_BILL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The numbers of one ABI, then those of the 32-bit ABI that the same kernel serves. x32 has the numbers of x86-64 with one
 * bit, and 512 to 547 of its own, which x86-64 leaves free. */
enum { CALLS_OF_ABI = 576, ABIS = 2, CALLS = CALLS_OF_ABI * ABIS, NUMBER = 0x3fffffff };

/* Classes of calls by the bytes that they returned, or requested if they are counted by notification. Kept apart
 * since only small transfers can be merged. */
enum { NO_BYTES, BELOW_64, BELOW_4K, BELOW_64K, LARGE, SIZES };

struct call_count {
  uint64_t count, ns, bytes, errors, repeats, switched; /* ns: from entry to return, less the time switched out;
                                                           repeats: the process had asked the same about that path;
                                                           switched: those in which the thread was switched out,
                                                           and switches after one, before the next */
};

enum event {
  FORKS, /* processes and threads */
  EXECS,
  EXITS,
  SIGNALS, /* delivered to a handler */
  WAKES,   /* wake-ups of other tasks */
  MIGRATIONS,
  LOAD_FAULTS,   /* user mode, first load of a page */
  STORE_FAULTS,  /* user mode, first store to a page that is not mapped */
  COPY_FAULTS,   /* user mode, store to a mapped page that is not writable: a copy, or a page that was shared */
  FETCH_FAULTS,  /* user mode, instructions */
  KERNEL_FAULTS, /* inside a system call, whose time contains them */
  LOAD_FAULT_NS, /* of all of the kind, as a call's; 0 if the kernel cannot time them */
  STORE_FAULT_NS,
  COPY_FAULT_NS,
  FETCH_FAULT_NS,
  TICKS, /* timer interrupts */
  TICK_NS,
  ON_CPU_NS, /* from switches to a thread to switches from it, of all threads */
  CLAMPED,   /* calls whose computed time was negative, and counts as zero */
  EVENTS
};

struct counts {
  struct call_count calls[CALLS][SIZES];
  uint64_t events[EVENTS];
  bool has_sizes, has_times, has_events;
};

/* Opens the maps and attaches the programs. Returns why it cannot be done, or NULL. */
const char *kernel_open(void);
/* Follows a thread, and all that it starts. Returns why not, or NULL. */
const char *kernel_follow(pid_t thread);
/* Adds up what was counted on all CPUs. */
bool kernel_read(struct counts *counts);

/* Starts `start`, which executes the command, and counts its calls. Returns the process, or -1 with the reason.
 * `counts` is updated until the command has ended and notified_end is called. */
pid_t notified_start(int (*start)(void *), void *argument, const char **reason);
/* Serves the system calls until the process `child` has ended. */
void notified_serve(pid_t child, struct counts *counts);

/* The place of a system call among those of its ABI, the last for a number beyond all. */
static inline unsigned call_place(unsigned number) {
  return (number & NUMBER) < CALLS_OF_ABI ? number & NUMBER : CALLS_OF_ABI - 1;
}

/* The name of a system call. is_32: of the kernel's 32-bit ABI. NULL if it is unknown. */
const char *call_name(unsigned number, bool is_32);

#endif
