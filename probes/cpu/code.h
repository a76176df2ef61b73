/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code that a probe writes for itself: where the number, the length and the places of instructions are the
 * parameters, no compiler can be asked for them.
 *
 * The memory is first writable and later executable, never both at once. If the system refuses this (SELinux's execmem,
 * a process that gave up such memory), the probe is skipped with a reason.
 *
 * Written code is made of blocks. A block counts itself, even blocks in one register and odd ones in another, so that the
 * count is exact and waits for at most every second block. The code is called with the number of passes and returns the
 * number of blocks that it executed.
 */
#ifndef CPU_CODE_H
#define CPU_CODE_H

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "toll.h"

typedef uint64_t (*code_entry)(uint64_t passes, void *argument);

struct code {
  uint8_t *base, *at;
  size_t bytes;
};

#if defined(__x86_64__)
enum { CODE_NOP = 1, CODE_JUMP = 5, CODE_COUNT = 4, CODE_LONGEST = 16 };
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { CODE_NOP = 4, CODE_JUMP = 4, CODE_COUNT = 4, CODE_LONGEST = 16 };
#else
#define CODE_UNSUPPORTED
enum { CODE_NOP = 4, CODE_JUMP = 4, CODE_COUNT = 4, CODE_LONGEST = 16 };
#endif

/* Instructions between two loads (cpu.window), each of which takes an entry of another structure. */
enum code_instruction { CODE_ADD, CODE_LOAD, CODE_STORE, CODE_GENERAL, CODE_VECTOR, CODE_BRANCH };

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static inline void code_bytes(struct code *c, const void *bytes, size_t count) {
  memcpy(c->at, bytes, count);
  c->at += count;
}

static inline void code_word(struct code *c, uint32_t word) {
  code_bytes(c, &word, sizeof word);
}

#if defined(__x86_64__)

#define CODE(c, ...) code_bytes(c, (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]){__VA_ARGS__})

/* The forms that AMD's and Intel's manuals recommend, up to 9 bytes; 15, the longest, has further prefixes. */
static inline void code_nop(struct code *c, unsigned length) {
  static const uint8_t forms[][9] = {{0x90},
                                     {0x66, 0x90},
                                     {0x0F, 0x1F, 0x00},
                                     {0x0F, 0x1F, 0x40},
                                     {0x0F, 0x1F, 0x44},
                                     {0x66, 0x0F, 0x1F, 0x44},
                                     {0x0F, 0x1F, 0x80},
                                     {0x0F, 0x1F, 0x84},
                                     {0x66, 0x0F, 0x1F, 0x84}};
  code_bytes(c, forms[length - 1], length);
}

static inline void code_jump(struct code *c, const uint8_t *to) {
  const int32_t distance = (int32_t)(to - (c->at + CODE_JUMP));
  CODE(c, 0xE9);
  code_bytes(c, &distance, sizeof distance);
}

/* add $1, %rax or %rdx */
static inline void code_count(struct code *c, uint64_t block) {
  CODE(c, 0x48, 0x83, block % 2 ? 0xC2 : 0xC0, 1);
}

/* xor %eax, %eax; xor %edx, %edx: rdi holds the passes, rsi the argument. */
static inline void code_begin(struct code *c) {
  CODE(c, 0x31, 0xC0, 0x31, 0xD2);
}

/* dec %rdi; jnz first; add %rdx, %rax; ret */
static inline void code_end(struct code *c, const uint8_t *first) {
  CODE(c, 0x48, 0xFF, 0xCF, 0x0F, 0x85);
  const int32_t distance = (int32_t)(first - (c->at + 4));
  code_bytes(c, &distance, sizeof distance);
  CODE(c, 0x48, 0x01, 0xD0, 0xC3);
}

/* mov %r8d, %r9d, with a prefix that means nothing for registers, so that 16 of them fill a line. */
static inline void code_move(struct code *c) {
  CODE(c, 0x3E, 0x45, 0x89, 0xC1);
}

/* Both cursors from the argument into r10 and r11; a pointer has the width of the ABI's. */
static inline void code_take_cursors(struct code *c) {
  const uint8_t wide = sizeof(void *) == 8 ? 0x4C : 0x44;
  CODE(c, wide, 0x8B, 0x16);
  CODE(c, wide, 0x8B, 0x5E, sizeof(void *));
}

static inline void code_leave_cursors(struct code *c) {
  const uint8_t wide = sizeof(void *) == 8 ? 0x4C : 0x44;
  CODE(c, wide, 0x89, 0x16);
  CODE(c, wide, 0x89, 0x5E, sizeof(void *));
}

/* mov (%r10), %r10, or of r11 */
static inline void code_follow(struct code *c, unsigned cursor) {
  CODE(c, sizeof(void *) == 8 ? 0x4D : 0x45, 0x8B, cursor ? 0x1B : 0x12);
}

/* general: lea 1(%rsi), %r8d; vector: pshufd $0, %xmm0, %xmm1; branch: jo to the next instruction, never taken; add:
 * lea 1(%r10), %r8d, which waits for the cursor's load; load: mov 16(%rsi), %r8d; store: mov %r8d, 16(%rsi) */
static inline void code_filler(struct code *c, enum code_instruction instruction, unsigned cursor) {
  const uint8_t word = 2 * sizeof(void *);
  if (instruction == CODE_GENERAL) CODE(c, 0x44, 0x8D, 0x46, 1);
  if (instruction == CODE_VECTOR) CODE(c, 0x66, 0x0F, 0x70, 0xC8, 0);
  if (instruction == CODE_BRANCH) CODE(c, 0x70, 0);
  if (instruction == CODE_ADD) CODE(c, 0x45, 0x8D, cursor ? 0x43 : 0x42, 1);
  if (instruction == CODE_LOAD) CODE(c, 0x44, 0x8B, 0x46, word);
  if (instruction == CODE_STORE) CODE(c, 0x44, 0x89, 0x46, word);
}

/* mov $value, %eax; ret */
static inline void code_return(struct code *c, uint16_t value) {
  CODE(c, 0xB8, (uint8_t)value, (uint8_t)(value >> 8), 0, 0, 0xC3);
}

/* The target of the jump at this place; NULL if there is none. */
static inline const uint8_t *code_target(const uint8_t *at) {
  int32_t distance;
  if (*at != 0xE9) return NULL;
  memcpy(&distance, at + 1, sizeof distance);
  return at + CODE_JUMP + distance;
}

#elif !defined(CODE_UNSUPPORTED)

static inline void code_nop(struct code *c, unsigned length) {
  (void)length;
  code_word(c, 0xD503201F);
}

static inline void code_jump(struct code *c, const uint8_t *to) {
  code_word(c, 0x14000000 | ((uint32_t)((to - c->at) / 4) & 0x03FFFFFF));
}

/* add x2, x2, #1 or x3 */
static inline void code_count(struct code *c, uint64_t block) {
  code_word(c, block % 2 ? 0x91000463 : 0x91000442);
}

/* mov x2, xzr; mov x3, xzr: x0 holds the passes, x1 the argument. */
static inline void code_begin(struct code *c) {
  code_word(c, 0xAA1F03E2);
  code_word(c, 0xAA1F03E3);
}

/* subs x0, x0, #1; b.eq over the next; b first; add x0, x2, x3; ret */
static inline void code_end(struct code *c, const uint8_t *first) {
  code_word(c, 0xF1000400);
  code_word(c, 0x54000040);
  code_jump(c, first);
  code_word(c, 0x8B030040);
  code_word(c, 0xD65F03C0);
}

/* ldp x10, x11, [x1], and stp */
static inline void code_take_cursors(struct code *c) {
  code_word(c, 0xA9402C2A);
}

static inline void code_leave_cursors(struct code *c) {
  code_word(c, 0xA9002C2A);
}

/* ldr x10, [x10], or of x11 */
static inline void code_follow(struct code *c, unsigned cursor) {
  code_word(c, cursor ? 0xF940016B : 0xF940014A);
}

/* general: add w8, w1, #1; vector: add v1.4s, v0.4s, v0.4s; branch: cbnz wzr to the next instruction, never taken; add:
 * add w8, w10, #1, which waits for the cursor's load; load: ldr w8, [x1, #16]; store: str w8, [x1, #16] */
static inline void code_filler(struct code *c, enum code_instruction instruction, unsigned cursor) {
  const uint32_t forms[] = {[CODE_ADD] = cursor ? 0x11000568 : 0x11000548,
                            [CODE_LOAD] = 0xB9401028,
                            [CODE_STORE] = 0xB9001028,
                            [CODE_GENERAL] = 0x11000428,
                            [CODE_VECTOR] = 0x4EA08401,
                            [CODE_BRANCH] = 0x3500003F};
  code_word(c, forms[instruction]);
}

/* mov w9, w8 */
static inline void code_move(struct code *c) {
  code_word(c, 0x2A0803E9);
}

static inline void code_return(struct code *c, uint16_t value) {
  code_word(c, 0x52800000 | (uint32_t)value << 5);
  code_word(c, 0xD65F03C0);
}

static inline const uint8_t *code_target(const uint8_t *at) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  if (word >> 26 != 5) return NULL;
  return at + ((int32_t)(word << 6) >> 6) * (ptrdiff_t)4;
}

#else

static inline void code_nop(struct code *c, unsigned length) {
  (void)c, (void)length;
}
static inline void code_jump(struct code *c, const uint8_t *to) {
  (void)c, (void)to;
}
static inline void code_count(struct code *c, uint64_t block) {
  (void)c, (void)block;
}
static inline void code_begin(struct code *c) {
  (void)c;
}
static inline void code_end(struct code *c, const uint8_t *first) {
  (void)c, (void)first;
}
static inline void code_move(struct code *c) {
  (void)c;
}
static inline void code_take_cursors(struct code *c) {
  (void)c;
}
static inline void code_leave_cursors(struct code *c) {
  (void)c;
}
static inline void code_follow(struct code *c, unsigned cursor) {
  (void)c, (void)cursor;
}
static inline void code_filler(struct code *c, enum code_instruction instruction, unsigned cursor) {
  (void)c, (void)instruction, (void)cursor;
}
static inline void code_return(struct code *c, uint16_t value) {
  (void)c, (void)value;
}
static inline const uint8_t *code_target(const uint8_t *at) {
  (void)at;
  return NULL;
}

#endif

/* Writes nops of this length up to `end`; the last ones are shorter if the length does not divide the rest. */
static inline void code_fill(struct code *c, const uint8_t *end, unsigned length) {
  while (c->at < end) {
    const size_t left = (size_t)(end - c->at);
    code_nop(c, left < length ? (unsigned)left : length);
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Returns zeroed memory for this many bytes of code. With `huge` its pages are huge if the system provides them, so
 * that translation does not affect the measured capacity of a cache; else small. */
static inline enum toll_status code_open(struct toll_run *r, struct code *c, size_t bytes, bool huge) {
#ifdef CODE_UNSUPPORTED
  (void)c, (void)bytes, (void)huge;
  return toll_skip(r, "unsupported here: the code of this probe is written for x86_64 and aarch64 alone");
#else
  const size_t page = huge ? toll_huge_page_bytes() : toll_page_bytes();
  c->bytes = (bytes + page - 1) / page * page;
  if (toll_needs_memory(r, c->bytes + page) != TOLL_OK) return TOLL_SKIPPED;
  uint8_t *memory = mmap(NULL, c->bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return toll_fail(r, "the system gave no %zu bytes for code: %s", c->bytes + page, strerror(errno));
  c->base = c->at = memory + (page - (uintptr_t)memory % page) % page;
  madvise(c->base, c->bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return TOLL_OK;
#endif
}

/* From here on the code can be executed, and no longer written. */
static inline enum toll_status code_seal(struct toll_run *r, struct code *c) {
  if (mprotect(c->base, c->bytes, PROT_READ | PROT_EXEC) < 0)
    return toll_skip(r, "the system refuses to execute memory that the program has written (%s)", strerror(errno));
  __builtin___clear_cache((char *)c->base, (char *)(c->base + c->bytes));
  return TOLL_OK;
}

/* ---- what the blocks counted ------------------------------------------------------------------------------------- */

struct code_blocks {
  code_entry entry;
  uint64_t blocks; /* blocks of one pass */
  uint64_t executed, expected;
};

static inline void code_run(struct code_blocks *b, uint64_t passes, void *argument) {
  b->executed += b->entry(passes, argument);
  b->expected += passes * b->blocks;
}

static inline enum toll_status code_check(struct toll_run *r, const struct code_blocks *b) {
  if (b->executed == b->expected) return TOLL_OK;
  return toll_wrong(r, "%llu blocks were executed, and not %llu", (unsigned long long)b->executed,
                    (unsigned long long)b->expected);
}

/* ---- chains of jumps --------------------------------------------------------------------------------------------- */

/* The first line contains the entry and the end of a pass, so that a chain over pages touches no further page. */
enum { CODE_LAST = 16, CODE_FIRST_BLOCK = 64 };

/* One jump in each block; the blocks are `spacing` bytes apart. */
struct code_chain {
  struct code code;
  struct code_blocks run;
  const uint8_t *first;
  size_t spacing, page, line;
};

/* The offset of block i after the first line. Blocks a page apart are shifted by a line each, and by one more line
 * after as many blocks as a page has lines. Otherwise page and line number would be equal modulo 64, the blocks
 * would share 64 sets of the branch predictor, and conflicts in these would look like the end of a buffer. */
static inline uint8_t *code_place(const struct code_chain *j, uint64_t i) {
  const size_t lines = j->page / j->line, line = i + 1 + i / lines;
  const size_t moved = j->spacing < j->page ? CODE_FIRST_BLOCK : line * j->line % j->page;
  return j->code.base + i * j->spacing + moved;
}

/* Writes the chain: forward, or in one random cycle (Sattolo 1986) that begins at block 0. */
static inline enum toll_status code_write_chain(struct toll_run *r, struct code_chain *j, uint64_t jumps,
                                                size_t spacing, bool is_random, bool huge) {
  j->spacing = spacing;
  j->page = toll_page_bytes();
  j->line = toll_line_bytes();
  j->run.blocks = jumps;
  if (code_open(r, &j->code, (size_t)jumps * spacing + CODE_FIRST_BLOCK, huge) != TOLL_OK) return toll_refused(r);
  const struct toll_shuffle shuffle = toll_chase_shuffle(r, (size_t)jumps, spacing);
  struct code *c = &j->code;
  uint8_t *last = c->base + CODE_LAST;
  uint64_t here = is_random ? toll_shuffle_at(&shuffle, 0) : 0;
  j->first = code_place(j, here);
  code_begin(c);
  code_jump(c, j->first);
  for (uint64_t i = 0; i < jumps; i++) {
    const uint64_t next = is_random ? toll_shuffle_at(&shuffle, (i + 1) % jumps) : (i + 1) % jumps;
    c->at = code_place(j, here);
    code_count(c, i);
    code_jump(c, i + 1 < jumps ? code_place(j, next) : last);
    here = next;
  }
  c->at = last;
  code_end(c, j->first);
  j->run.entry = (code_entry)(uintptr_t)c->base;
  return code_seal(r, c);
}

/* Checks the written chain: it must reach each block once, and then the end. */
static inline enum toll_status code_check_chain(struct toll_run *r, const struct code_chain *j) {
  const uint8_t *at = j->first, *end = j->code.base + CODE_LAST;
  uint64_t met = 0;
  for (; at && at != end && met <= j->run.blocks; met++) at = code_target(at + CODE_COUNT);
  if (at != end || met != j->run.blocks)
    return toll_wrong(r, "the written code leads through %llu blocks, and not %llu", (unsigned long long)met,
                      (unsigned long long)j->run.blocks);
  return code_check(r, &j->run);
}

#endif
