/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions that trap, each of a known length, and the way past them.
 *
 * A handler that only returned would execute the same instruction again: it has to advance the saved program counter,
 * by the length of the instruction if the CPU saved its address, or by nothing if it saved the next address (int3 on
 * x86, all but page faults on s390x). Instructions are given by their bytes where an assembler may choose among
 * encodings of different length.
 */
#ifndef TOLL_KERNEL_TRAP_H
#define TOLL_KERNEL_TRAP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "alignment_check.h"

/* TRAP_PC is where the kernel keeps the program counter in a signal's machine context, TRAP_STORE_TEXT a store to the
 * address in %0 (in the register class TRAP_ADDRESS). TRAP_name is how far the handler moves on, in bytes. */
#define TRAP_UNKNOWN (-1)
#define TRAP_NOTHING ""

#if defined(__x86_64__) || defined(__i386__)
#ifdef __x86_64__
#define TRAP_PC gregs[REG_RIP]
#else
#define TRAP_PC gregs[REG_EIP]
#endif
enum { TRAP_STORE = 2, TRAP_ILLEGAL = 2, TRAP_BREAKPOINT = 0, TRAP_DIVIDE = 2, TRAP_PRIVILEGED = 1 };
#define TRAP_ADDRESS         "c"
#define TRAP_STORE_TEXT      ".byte 0x89, 0x01" /* movl %eax, (%ecx) */
#define TRAP_ILLEGAL_TEXT    "ud2"
#define TRAP_BREAKPOINT_TEXT "int3"
#define TRAP_PRIVILEGED_TEXT "hlt"

#elif defined(__aarch64__)
#define TRAP_PC              pc
enum { TRAP_STORE = 4, TRAP_ILLEGAL = 4, TRAP_BREAKPOINT = 4, TRAP_DIVIDE = TRAP_UNKNOWN, TRAP_PRIVILEGED = 4 };
#define TRAP_ADDRESS         "r"
#define TRAP_STORE_TEXT      "str wzr, [%0]"
#define TRAP_ILLEGAL_TEXT    ".inst 0"
#define TRAP_BREAKPOINT_TEXT "brk #1"
#define TRAP_PRIVILEGED_TEXT "msr daifset, #2"

#elif defined(__arm__)
#define TRAP_PC      arm_pc
enum {
  TRAP_STORE = 4,
  TRAP_ILLEGAL = 4,
  TRAP_BREAKPOINT = 4,
  TRAP_DIVIDE = TRAP_UNKNOWN,
  TRAP_PRIVILEGED = TRAP_UNKNOWN /* from user mode they are without effect, and do not trap */
};
#define TRAP_ADDRESS "r"
#ifdef __thumb__
#define TRAP_STORE_TEXT      ".syntax unified\n\tstr.w %0, [%0]"
#define TRAP_ILLEGAL_TEXT    ".inst.w 0xf7f0a001"
#define TRAP_BREAKPOINT_TEXT ".inst.w 0xf7f0a000" /* the undefined instruction that Linux takes for a breakpoint */
#else
#define TRAP_STORE_TEXT      "str %0, [%0]"
#define TRAP_ILLEGAL_TEXT    ".inst 0xe7f000f0"
#define TRAP_BREAKPOINT_TEXT ".inst 0xe7f001f0"
#endif
#define TRAP_PRIVILEGED_TEXT TRAP_NOTHING

#elif defined(__riscv)
#define TRAP_PC              __gregs[REG_PC]
enum { TRAP_STORE = 4, TRAP_ILLEGAL = 4, TRAP_BREAKPOINT = 4, TRAP_DIVIDE = TRAP_UNKNOWN, TRAP_PRIVILEGED = 4 };
#define TRAP_ADDRESS         "r"
#define TRAP_STORE_TEXT      ".option push\n\t.option norvc\n\tsw zero, 0(%0)\n\t.option pop"
#define TRAP_ILLEGAL_TEXT    ".word 0xc0001073" /* writes a counter that can only be read */
#define TRAP_BREAKPOINT_TEXT ".word 0x00100073" /* ebreak, not compressed */
#define TRAP_PRIVILEGED_TEXT "csrw sscratch, zero"

#elif defined(__loongarch__)
#define TRAP_PC              __pc
enum { TRAP_STORE = 4, TRAP_ILLEGAL = 4, TRAP_BREAKPOINT = 4, TRAP_DIVIDE = TRAP_UNKNOWN, TRAP_PRIVILEGED = 4 };
#define TRAP_ADDRESS         "r"
#define TRAP_STORE_TEXT      "st.w $zero, %0, 0"
#define TRAP_ILLEGAL_TEXT    ".word 0"
#define TRAP_BREAKPOINT_TEXT "break 0"
#define TRAP_PRIVILEGED_TEXT "csrwr $zero, 0x30" /* a scratch register of the kernel */

#elif defined(__powerpc64__)
#define TRAP_PC              gp_regs[32] /* the next instruction pointer */
enum { TRAP_STORE = 4, TRAP_ILLEGAL = 4, TRAP_BREAKPOINT = 4, TRAP_DIVIDE = TRAP_UNKNOWN, TRAP_PRIVILEGED = 4 };
#define TRAP_ADDRESS         "b"
#define TRAP_STORE_TEXT      "stw %0, 0(%0)"
#define TRAP_ILLEGAL_TEXT    ".long 0"
#define TRAP_BREAKPOINT_TEXT "trap"
#define TRAP_PRIVILEGED_TEXT "mtmsrd 0"

#elif defined(__s390x__)
#define TRAP_PC              psw.addr
enum { TRAP_STORE = 4, TRAP_ILLEGAL = 0, TRAP_BREAKPOINT = 0, TRAP_DIVIDE = TRAP_UNKNOWN, TRAP_PRIVILEGED = 0 };
#define TRAP_ADDRESS         "a"
#define TRAP_STORE_TEXT      "st %0, 0(%0)"
#define TRAP_ILLEGAL_TEXT    ".short 0"
#define TRAP_BREAKPOINT_TEXT ".short 1"
#define TRAP_PRIVILEGED_TEXT ".long 0x83000044" /* diagnose */

#elif defined(__mips__)
#define TRAP_PC              pc
enum { TRAP_STORE = 4, TRAP_ILLEGAL = 4, TRAP_BREAKPOINT = 4, TRAP_DIVIDE = 4, TRAP_PRIVILEGED = TRAP_UNKNOWN };
#define TRAP_ADDRESS         "r"
#define TRAP_STORE_TEXT      "sw $0, 0(%0)"
#define TRAP_ILLEGAL_TEXT    ".word 0x0000003d"
#define TRAP_BREAKPOINT_TEXT "break"
#define TRAP_DIVIDE_TEXT     "teq $0, $0, 7" /* as compilers test for zero: the division itself does not trap */
#define TRAP_PRIVILEGED_TEXT TRAP_NOTHING

#else
enum {
  TRAP_STORE = TRAP_UNKNOWN,
  TRAP_ILLEGAL = TRAP_UNKNOWN,
  TRAP_BREAKPOINT = TRAP_UNKNOWN,
  TRAP_DIVIDE = TRAP_UNKNOWN,
  TRAP_PRIVILEGED = TRAP_UNKNOWN
};
#define TRAP_ADDRESS         "r"
#define TRAP_STORE_TEXT      TRAP_NOTHING
#define TRAP_ILLEGAL_TEXT    TRAP_NOTHING
#define TRAP_BREAKPOINT_TEXT TRAP_NOTHING
#define TRAP_PRIVILEGED_TEXT TRAP_NOTHING
#endif

#ifndef TRAP_DIVIDE_TEXT
#define TRAP_DIVIDE_TEXT TRAP_NOTHING
#endif

static inline void trap_store(uintptr_t address) {
  __asm__ volatile(TRAP_STORE_TEXT : : TRAP_ADDRESS(address) : "memory");
}
static inline void trap_illegal(void) {
  __asm__ volatile(TRAP_ILLEGAL_TEXT ::: "memory");
}
static inline void trap_breakpoint(void) {
  __asm__ volatile(TRAP_BREAKPOINT_TEXT ::: "memory");
}
static inline void trap_privileged(void) {
  __asm__ volatile(TRAP_PRIVILEGED_TEXT ::: "memory");
}
static inline void trap_divide(void) {
#if defined(__x86_64__) || defined(__i386__)
  int quotient = 1, remainder = 0;
  __asm__ volatile("idivl %%ecx" : "+a"(quotient), "+d"(remainder) : "c"(0) : "cc", "memory");
#else
  __asm__ volatile(TRAP_DIVIDE_TEXT ::: "memory");
#endif
}

/* Makes the CPU refuse misaligned accesses of this program, the handler's too: only around a loop whose own accesses are
 * aligned. False where the architecture has no such flag. */
static inline bool trap_misaligned(bool refused) {
#ifdef TOLL_ALIGNMENT_CHECK
  toll_check_alignment(refused);
  return true;
#else
  (void)refused;
  return false;
#endif
}

/* The handler's state: by how much it advances the program counter, and a count, by which a probe proves that each
 * trap arrived. */
static struct {
  volatile uint64_t taken;
  int bytes;
} trap_handled;

static void trap_handler(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number, (void)info, (void)context;
  trap_handled.taken++;
#ifdef TRAP_PC
  ((ucontext_t *)context)->uc_mcontext.TRAP_PC += (unsigned)trap_handled.bytes;
#endif
}

/* From now on, signals of this number are taken for traps whose instruction is that long. */
static inline void trap_catch(int signal_number, int bytes) {
  struct sigaction action = {0};
  action.sa_sigaction = trap_handler;
  action.sa_flags = SA_SIGINFO;
  trap_handled.bytes = bytes;
  sigaction(signal_number, &action, NULL);
}

#endif
