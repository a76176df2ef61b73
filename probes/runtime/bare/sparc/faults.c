/* SPDX-License-Identifier: Apache-2.0
 *
 * What traps (7.4), and what a signal's handler finds.
 *
 * A load or store of an address that is no multiple of its width traps on every SPARC. The program gets SIGBUS, or has
 * asked by trap 6 that it is mended here (System V ABI, SPARC Processor Supplement, "fix alignment").
 */
#include <asm-generic/siginfo.h>

#include "frame.h"

enum {
  CODE_ACCESS = 1,
  ILLEGAL = 2,
  PRIVILEGED = 3,
  OVERFLOW = 5,
  UNDERFLOW = 6,
  ALIGNMENT = 7,
  FLOAT = 8,
  DATA_ACCESS = 9,
  INTERRUPT = 0x11,
  LAST_INTERRUPT = 0x1f,
  DIVISION = 0x2a,
  CALL = 0x90,
  BREAK = 0x81,
  FLUSH = 0x83,
  MEND = 0x86
};

static bool mends;
static uint32_t mended;

void faults_clear(void) {
  mends = false;
  mended = 0;
}

uint32_t faults_emulated(void) {
  return mended;
}

static void step(registers *core) {
  core->r[PROGRAM_COUNTER] = core->npc;
  core->npc += 4;
}

/* ---- windows ------------------------------------------------------------------------------------------------------ */

/* Writes a window's 16 registers to their stack. Without a valid stack the program ends. */
static void keep_window(const uint32_t *window, uintptr_t stack) {
  uint32_t *to = stack % 8 ? NULL : memory_of_program(stack, 64, MAY_WRITE);
  if (!to) bare_ended(SIGSEGV);
  for (int i = 0; i < 16; i++) to[i] = window[i];
}

static void keep_older(const registers *core) {
  uintptr_t stack = core->r[FRAME_POINTER];
  for (uint32_t i = 0; i < core->older; i++) {
    keep_window(core->window[i], stack);
    stack = core->window[i][FRAME_POINTER - 16];
  }
}

/* ---- an instruction's operands (5.1) -------------------------------------------------------------------------------- */

static uint32_t value_of(const registers *core, uint32_t number) {
  return number ? core->r[number] : 0;
}

static void set_value(registers *core, uint32_t number, uint32_t value) {
  if (number) core->r[number] = value;
}

static uint32_t sum_of(const registers *core, uint32_t code) {
  const uint32_t immediate = 1 << 13, first = value_of(core, code >> 14 & 31);
  return first + (code & immediate ? (uint32_t)((int32_t)(code << 19) >> 19) : value_of(core, code & 31));
}

static const uint32_t *code_of(const registers *core) {
  return memory_of_program(core->r[PROGRAM_COUNTER], 4, MAY_READ);
}

/* `restore` of a window that start.S found no memory for: the page may be one that is reserved and not yet zeroed. */
static void restore_window(registers *core) {
  const uint32_t code = *code_of(core), sum = sum_of(core, code);
  const uintptr_t stack = core->r[FRAME_POINTER];
  const uint32_t *from = stack % 8 ? NULL : memory_of_program(stack, 64, MAY_READ);
  if (!from) bare_ended(SIGSEGV);
  for (int i = 0; i < 8; i++) core->r[8 + i] = core->r[24 + i];
  for (int i = 0; i < 16; i++) core->r[16 + i] = from[i];
  set_value(core, code >> 25 & 31, sum);
  step(core);
}

/* ---- misaligned accesses ------------------------------------------------------------------------------------------- */

enum { LOAD_WORD = 0, LOAD_HALF = 2, LOAD_DOUBLE = 3, STORES = 4, LOAD_SIGNED_HALF = 10 };

/* Of a load or store of whole numbers, less the bit of STORES; 0: it is none. */
static uint32_t width_of(uint32_t operation) {
  if (operation == LOAD_WORD) return 4;
  if (operation == LOAD_DOUBLE) return 8;
  return operation == LOAD_HALF || operation == LOAD_SIGNED_HALF ? 2 : 0;
}

static void mend_load(registers *core, uint32_t target, uint32_t width, bool is_signed, const uint8_t *bytes) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < width; i++) {
    value = value << 8 | bytes[i];
    if (i % 4 == 3) set_value(core, target + i / 4, value);
  }
  if (width == 2) set_value(core, target, is_signed ? (uint32_t)(int16_t)value : value);
}

static void mend_store(const registers *core, uint32_t source, uint32_t width, uint8_t *bytes) {
  const uint32_t first = value_of(core, source);
  for (uint32_t i = 0; i < width; i++) {
    const uint32_t value = i < 4 ? first : value_of(core, source + 1);
    bytes[i] = (uint8_t)(value >> (width == 2 ? 8 - 8 * i : 24 - 8 * (i % 4)));
  }
}

static void misaligned(registers *core) {
  const uint32_t code = *code_of(core), operation = code >> 19 & 63, target = code >> 25 & 31;
  const uint32_t width = code >> 30 == 3 ? width_of(operation & ~(uint32_t)STORES) : 0;
  const bool is_store = operation & STORES;
  const uintptr_t address = sum_of(core, code);
  if (!mends || !width) {
    signals_force(core, SIGBUS, BUS_ADRALN, address);
    return;
  }
  uint8_t *bytes = memory_of_program(address, width, is_store ? MAY_WRITE : MAY_READ);
  if (!bytes) {
    signals_force(core, SIGSEGV, SEGV_MAPERR, address);
    return;
  }
  if (is_store)
    mend_store(core, target, width, bytes);
  else
    mend_load(core, target, width, operation == LOAD_SIGNED_HALF, bytes);
  mended++;
  step(core);
}

/* ---- traps --------------------------------------------------------------------------------------------------------- */

static uint32_t mmu_register(uint32_t number) {
  uint32_t value;
  __asm__ volatile("lda [%1] 0x19, %0" : "=r"(value) : "r"(number));
  return value;
}

static void fault(registers *core, uint32_t kind) {
  enum { STATUS = 0x300, ADDRESS = 0x400, WRITING = 4 << 5 };
  const uint32_t status = mmu_register(STATUS);
  const uintptr_t address = kind == CODE_ACCESS ? core->r[PROGRAM_COUNTER] : mmu_register(ADDRESS);
  const unsigned use = kind == CODE_ACCESS ? MAY_EXECUTE : status & WRITING ? MAY_WRITE : MAY_READ;
  if (memory_touch(address, use)) return;
  const bool there = address < PROGRAM_END && bare_page_table[address / PAGE_BYTES];
  signals_force(core, SIGSEGV, there ? SEGV_ACCERR : SEGV_MAPERR, address);
}

static void force(registers *core, uint32_t kind) {
  const uintptr_t at = core->r[PROGRAM_COUNTER];
  if (kind == FLOAT || kind == DIVISION)
    signals_force(core, SIGFPE, kind == FLOAT ? FPE_FLTINV : FPE_INTDIV, at);
  else if (kind == BREAK)
    signals_force(core, SIGTRAP, TRAP_BRKPT, at);
  else
    signals_force(core, SIGILL, kind == PRIVILEGED ? ILL_PRVOPC : ILL_ILLOPC, at);
}

void bare_trap(registers *core, uint32_t kind) {
  keep_older(core);
  if (kind == ALIGNMENT)
    misaligned(core);
  else if (kind == CALL)
    step(core), bare_call(core);
  else if (kind == CODE_ACCESS || kind == DATA_ACCESS)
    fault(core, kind);
  else if (kind >= INTERRUPT && kind <= LAST_INTERRUPT)
    bare_interrupt(core);
  else if (kind == UNDERFLOW)
    restore_window(core);
  else if (kind == FLUSH)
    keep_window(core->r + 16, core->r[STACK_POINTER]), step(core);
  else if (kind == MEND)
    mends = true, step(core);
  else if (kind != OVERFLOW)
    force(core, kind);
}

void bare_lose(uint32_t instruction, uint32_t kind) {
  board_write("\nthe supervisor failed\n", 23);
  board_say("instruction ");
  say_address(instruction);
  board_say(", trap ");
  say_address(kind);
  board_off();
}

/* ---- signals ------------------------------------------------------------------------------------------------------ */

void frame_keep(struct context *context, const registers *core, uintptr_t address) {
  (void)address;
  memcpy(context->r, core->r, sizeof core->r);
  context->r[0] = core->npc;
  context->pc = core->r[PROGRAM_COUNTER];
  context->psr = core->psr;
  context->y = core->y;
  bare_fpu_keep(context->fpu);
}

void frame_restore(const struct context *context, registers *core) {
  memcpy(core->r, context->r, sizeof core->r);
  core->npc = context->r[0];
  core->r[PROGRAM_COUNTER] = context->pc;
  core->psr = context->psr;
  core->y = context->y;
  bare_fpu_load(context->fpu);
}

bool frame_can_return(const struct action *action) {
  return action->flags & SA_RESTORER;
}

void frame_enter(registers *core, const struct action *action, struct frame *frame, int number) {
  ARGUMENT(core, 0) = (uintptr_t)number;
  ARGUMENT(core, 1) = (uintptr_t)&frame->info;
  ARGUMENT(core, 2) = (uintptr_t)&frame->context;
  core->r[LINK] = action->restorer - 8;
  core->r[STACK_POINTER] = (uintptr_t)frame;
  core->r[PROGRAM_COUNTER] = action->handler;
  core->npc = action->handler + 4;
}
