/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes BPF instructions with labels (Linux, Documentation/bpf/standardization/instruction-set.rst). A field of
 * struct bpf_insn has the byte order of the machine, so one source serves both.
 */
#ifndef TOLL_ASSEMBLER_H
#define TOLL_ASSEMBLER_H

#include <linux/bpf.h>
#include <stdint.h>
#include <stdlib.h>

enum { MOST_STEPS = 256, MOST_JUMPS = 64, MOST_LABELS = 16 };
enum { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FRAME }; /* R6 to R9 survive a call; FRAME points past the stack */

struct code {
  struct bpf_insn steps[MOST_STEPS];
  unsigned count, jumps, jump_at[MOST_JUMPS], jump_to[MOST_JUMPS], labels[MOST_LABELS];
};

static inline void step(struct code *c, unsigned operation, unsigned to, unsigned from, int offset, int value) {
  if (c->count == MOST_STEPS) abort();
  c->steps[c->count++] = (struct bpf_insn){.code = (uint8_t)operation,
                                           .dst_reg = (uint8_t)(to & 0xf),
                                           .src_reg = (uint8_t)(from & 0xf),
                                           .off = (int16_t)offset,
                                           .imm = value};
}
/* operation: BPF_ADD, BPF_SUB, BPF_AND, BPF_LSH, BPF_MOV */
static inline void with(struct code *c, unsigned operation, unsigned to, unsigned from) {
  step(c, BPF_ALU64 | operation | BPF_X, to, from, 0, 0);
}
static inline void with_value(struct code *c, unsigned operation, unsigned to, int value) {
  step(c, BPF_ALU64 | operation | BPF_K, to, 0, 0, value);
}
static inline void load(struct code *c, unsigned to, unsigned base, int offset) {
  step(c, BPF_LDX | BPF_MEM | BPF_DW, to, base, offset, 0);
}
static inline void load_32(struct code *c, unsigned to, unsigned base, int offset) {
  step(c, BPF_LDX | BPF_MEM | BPF_W, to, base, offset, 0);
}
static inline void store(struct code *c, unsigned base, int offset, unsigned from) {
  step(c, BPF_STX | BPF_MEM | BPF_DW, base, from, offset, 0);
}
static inline void store_32(struct code *c, unsigned base, int offset, unsigned from) {
  step(c, BPF_STX | BPF_MEM | BPF_W, base, from, offset, 0);
}
static inline void store_zero(struct code *c, unsigned base, int offset) {
  step(c, BPF_ST | BPF_MEM | BPF_DW, base, 0, offset, 0);
}
static inline void call(struct code *c, int helper) {
  step(c, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}
static inline void map_address(struct code *c, unsigned to, int map) {
  step(c, BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map);
  step(c, 0, 0, 0, 0, 0);
}
static inline void mark(struct code *c, unsigned label) {
  c->labels[label] = c->count;
}
/* condition: BPF_JA, BPF_JEQ, BPF_JNE, BPF_JSGT, BPF_JSLT, ... with a value */
static inline void jump(struct code *c, unsigned condition, unsigned of, int value, unsigned label) {
  if (c->jumps == MOST_JUMPS) abort();
  c->jump_at[c->jumps] = c->count;
  c->jump_to[c->jumps++] = label;
  step(c, BPF_JMP | condition | BPF_K, of, 0, 0, value);
}
static inline void leave(struct code *c) {
  with_value(c, BPF_MOV, R0, 0);
  step(c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  for (unsigned i = 0; i < c->jumps; i++)
    c->steps[c->jump_at[i]].off = (int16_t)(c->labels[c->jump_to[i]] - c->jump_at[i] - 1);
}

#endif
