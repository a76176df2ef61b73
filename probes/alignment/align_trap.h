/* SPDX-License-Identifier: Apache-2.0
 *
 * A load that traps at a misaligned address and is emulated by a handler in the program, like a kernel's alignment
 * fix-up, or that of an embedded program with its own handler.
 *
 * x86 traps where the program sets the alignment-check flag. All code then traps, the C library's included, so the flag
 * is set around the probe's loop only. The handler first clears it for itself; the return from the signal sets it
 * again. SPARC always traps and signals the program. MIPS always traps, and its kernel emulates the access silently
 * unless the program requests the signal.
 *
 * Each load is one instruction of a form listed here: the handler decodes these forms, and refuses all others.
 */
#ifndef TOLL_ALIGNMENT_ALIGN_TRAP_H
#define TOLL_ALIGNMENT_ALIGN_TRAP_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "alignment_check.h"
#include "mend.h"
#include "toll.h"

static volatile uint64_t align_traps_taken;

/* The value at a misaligned address, loaded byte by byte. */
static inline uint64_t align_trap_bytes(uintptr_t address, unsigned width) {
  const unsigned char *bytes = (const unsigned char *)address;
  uint64_t value = 0;
  for (unsigned i = 0; i < width; i++)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value |= (uint64_t)bytes[i] << (8 * i);
#else
    value = value << 8 | bytes[i];
#endif
  return value;
}

#if defined(__x86_64__) || defined(__i386__)
#define ALIGN_TRAP_KNOWN 1
#ifdef __x86_64__
#define ALIGN_TRAP_REGISTER(name) REG_R##name
#else
#define ALIGN_TRAP_REGISTER(name) REG_E##name
#endif

static inline void align_trap_on(void) {
  toll_check_alignment(true);
}
static inline void align_trap_off(void) {
  toll_check_alignment(false);
}

/* From (%ecx) or (%rcx) into %eax or %rax, by their bytes. */
#define ALIGN_TRAP_LOAD(bytes, value, address) __asm__ volatile(bytes : "=a"(value) : "c"(address) : "memory")

static inline uint64_t align_trap_load(uintptr_t address, unsigned width) {
  uintptr_t value;
  switch (width) {
    case 2: ALIGN_TRAP_LOAD(".byte 0x0f, 0xb7, 0x01", value, address); break; /* movzwl (%ecx), %eax */
#ifdef __x86_64__
    case 8: ALIGN_TRAP_LOAD(".byte 0x48, 0x8b, 0x01", value, address); break; /* movq (%rcx), %rax */
#endif
    default: ALIGN_TRAP_LOAD(".byte 0x8b, 0x01", value, address); /* movl (%ecx), %eax */
  }
  return value;
}

static void align_trap_handler(int signal_number, siginfo_t *info, void *context) {
  align_trap_off();
  (void)signal_number, (void)info;
  greg_t *saved = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *code = (const unsigned char *)(uintptr_t)saved[ALIGN_TRAP_REGISTER(IP)];
  const bool half = code[0] == 0x0f && code[1] == 0xb7, quad = code[0] == 0x48 && code[1] == 0x8b;
  const unsigned length = half || quad ? 3 : 2, width = half ? 2 : quad ? 8 : 4;
  if (code[length - 1] != 0x01 || (!half && !quad && code[0] != 0x8b)) abort();
  saved[ALIGN_TRAP_REGISTER(AX)] = (greg_t)align_trap_bytes((uintptr_t)saved[ALIGN_TRAP_REGISTER(CX)], width);
  saved[ALIGN_TRAP_REGISTER(IP)] += length;
  align_traps_taken++;
}

#elif defined(__mips__) && !defined(__mips64)
#define ALIGN_TRAP_KNOWN 1
static inline void align_trap_on(void) {}
static inline void align_trap_off(void) {}

/* From 0($5) into $4, never in a branch's delay slot: there the saved address would be the branch's. */
#define ALIGN_TRAP_LOAD(name, value, address) \
  __asm__ volatile(".set push\n.set noreorder\n" name " %0, 0(%1)\n.set pop" : "=r"(value) : "r"(address) : "memory")

static inline uint64_t align_trap_load(uintptr_t address, unsigned width) {
  uintptr_t value;
  if (width == 2)
    ALIGN_TRAP_LOAD("lhu", value, address);
  else
    ALIGN_TRAP_LOAD("lw", value, address);
  return value;
}

static void align_trap_handler(int signal_number, siginfo_t *info, void *context) {
  enum { LHU = 0x25, LW = 0x23 };
  (void)signal_number, (void)info;
  mcontext_t *saved = &((ucontext_t *)context)->uc_mcontext;
  const uint32_t code = *(const uint32_t *)(uintptr_t)saved->pc;
  const uint32_t operation = code >> 26, base = code >> 21 & 31, target = code >> 16 & 31;
  if ((operation != LHU && operation != LW) || (code & 0xffff) != 0) abort();
  saved->gregs[target] = align_trap_bytes((uintptr_t)saved->gregs[base], operation == LHU ? 2 : 4);
  saved->pc += 4;
  align_traps_taken++;
}

#elif defined(__sparc__) && defined(__arch64__)
#define ALIGN_TRAP_KNOWN      1
static inline void align_trap_on(void) {}
static inline void align_trap_off(void) {}

/* From [%o1] into %o0: globals and outs are what a signal saves, other registers lie on the stack. */
#define ALIGN_TRAP_LOAD(name) __asm__ volatile(name " [%1], %0" : "=r"(value) : "r"(at) : "memory")

static inline uint64_t align_trap_load(uintptr_t address, unsigned width) {
  register uint64_t value __asm__("o0");
  register uintptr_t at __asm__("o1") = address;
  switch (width) {
    case 2: ALIGN_TRAP_LOAD("lduh"); break;
    case 8: ALIGN_TRAP_LOAD("ldx"); break;
    default: ALIGN_TRAP_LOAD("lduw");
  }
  return value;
}

/* The third argument is, by the kernel's interface, the sigcontext that the siginfo begins. */
static void align_trap_handler(int signal_number, siginfo_t *info, void *context) {
  enum { LDUW = 0, LDUH = 2, LDX = 11, O0 = 8, O1 = 9 };
  (void)signal_number, (void)info;
  struct sigcontext *saved = context;
  const uint32_t code = *(const uint32_t *)saved->sigc_regs.tpc, operation = code >> 19 & 63;
  const unsigned width = operation == LDUH ? 2 : operation == LDX ? 8 : 4;
  if (code >> 30 != 3 || (code >> 25 & 31) != O0 || (code >> 14 & 31) != O1) abort();
  if (operation != LDUW && operation != LDUH && operation != LDX) abort();
  saved->sigc_regs.u_regs[O0] = align_trap_bytes(saved->sigc_regs.u_regs[O1], width);
  saved->sigc_regs.tpc = saved->sigc_regs.tnpc;
  saved->sigc_regs.tnpc += 4;
  align_traps_taken++;
}

#elif defined(__sparc__)
#define ALIGN_TRAP_KNOWN      1
static inline void align_trap_on(void) {}
static inline void align_trap_off(void) {}

/* From [%o1] into %o0, as above. */
#define ALIGN_TRAP_LOAD(name) __asm__ volatile(name " [%1], %0" : "=r"(value) : "r"(at) : "memory")

static inline uint64_t align_trap_load(uintptr_t address, unsigned width) {
  register uintptr_t value __asm__("o0");
  register uintptr_t at __asm__("o1") = address;
  if (width == 2)
    ALIGN_TRAP_LOAD("lduh");
  else
    ALIGN_TRAP_LOAD("ld");
  return value;
}

/* The registers are as musl has them (emulator/musl_sparc): in place of %g0 the next program counter. */
static void align_trap_handler(int signal_number, siginfo_t *info, void *context) {
  enum { LD = 0, LDUH = 2, NEXT = 0, O0 = 8, O1 = 9 };
  (void)signal_number, (void)info;
  mcontext_t *saved = &((ucontext_t *)context)->uc_mcontext;
  const uint32_t code = *(const uint32_t *)saved->regs.pc, operation = code >> 19 & 63;
  if (code >> 30 != 3 || (code >> 25 & 31) != O0 || (code >> 14 & 31) != O1) abort();
  if (operation != LD && operation != LDUH) abort();
  saved->regs.gpr[O0] = align_trap_bytes(saved->regs.gpr[O1], operation == LDUH ? 2 : 4);
  saved->regs.pc = saved->regs.gpr[NEXT];
  saved->regs.gpr[NEXT] += 4;
  align_traps_taken++;
}

#else
#define ALIGN_TRAP_KNOWN 0
static inline void align_trap_on(void) {}
static inline void align_trap_off(void) {}
static inline uint64_t align_trap_load(uintptr_t address, unsigned width) {
  return align_trap_bytes(address, width);
}
#endif

#if ALIGN_TRAP_KNOWN
static inline void align_trap_catch(void) {
  struct sigaction action = {0};
  align_mend(false);
  action.sa_sigaction = align_trap_handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, NULL);
}
#else
static inline void align_trap_catch(void) {}
#endif

#endif
