/* SPDX-License-Identifier: Apache-2.0
 *
 * A load that traps at a misaligned address and is made good by a handler in the program: what a kernel's alignment fix-up
 * does, and what an embedded program does that installs its own.
 *
 * x86 traps where the program sets the alignment-check flag. Everything then traps, the C library's own code included, so
 * the flag is set around the probe's loop only, and the handler's first act is to clear it for itself; the return from
 * the signal sets it again. The handler decodes the one instruction that it knows, and refuses any other.
 */
#ifndef TOLL_ALIGNMENT_ALIGN_TRAP_H
#define TOLL_ALIGNMENT_ALIGN_TRAP_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "toll.h"

static volatile uint64_t align_traps_taken;

#if defined(__x86_64__) || defined(__i386__)
#define ALIGN_TRAP_KNOWN 1
#ifdef __x86_64__
#define ALIGN_TRAP_REGISTER(name) REG_R##name
#define ALIGN_TRAP_READ           __builtin_ia32_readeflags_u64
#define ALIGN_TRAP_WRITE          __builtin_ia32_writeeflags_u64
#else
#define ALIGN_TRAP_REGISTER(name) REG_E##name
#define ALIGN_TRAP_READ           __builtin_ia32_readeflags_u32
#define ALIGN_TRAP_WRITE          __builtin_ia32_writeeflags_u32
#endif

enum { ALIGN_TRAP_FLAG = 1 << 18 };

static inline void align_trap_on(void) {
  ALIGN_TRAP_WRITE(ALIGN_TRAP_READ() | ALIGN_TRAP_FLAG);
}
static inline void align_trap_off(void) {
  ALIGN_TRAP_WRITE(ALIGN_TRAP_READ() & ~(uintptr_t)ALIGN_TRAP_FLAG);
}

/* movl (%ecx), %eax, by its bytes: the handler knows no other. */
static inline uint32_t align_trap_load(const void *address) {
  uint32_t value;
  __asm__ volatile(".byte 0x8b, 0x01" : "=a"(value) : "c"(address) : "memory");
  return value;
}

static void align_trap_handler(int signal_number, siginfo_t *info, void *context) {
  align_trap_off();
  (void)signal_number, (void)info;
  greg_t *saved = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *instruction = (const unsigned char *)(uintptr_t)saved[ALIGN_TRAP_REGISTER(IP)];
  uint32_t value;
  if (instruction[0] != 0x8b || instruction[1] != 0x01) abort();
  memcpy(&value, (const void *)(uintptr_t)saved[ALIGN_TRAP_REGISTER(CX)], sizeof value);
  saved[ALIGN_TRAP_REGISTER(AX)] = (greg_t)value;
  saved[ALIGN_TRAP_REGISTER(IP)] += 2;
  align_traps_taken++;
}

static inline void align_trap_catch(void) {
  struct sigaction action = {0};
  action.sa_sigaction = align_trap_handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, NULL);
}
#else
#define ALIGN_TRAP_KNOWN 0
static inline void align_trap_on(void) {}
static inline void align_trap_off(void) {}
static inline void align_trap_catch(void) {}
static inline uint32_t align_trap_load(const void *address) {
  return *(const uint32_t *)address;
}
#endif

#endif
