/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes BPF programs with labels, and brings them and their maps into the kernel: for `toll bill` (crossings/) and for
 * probes of tracing (Linux, Documentation/bpf/standardization/instruction-set.rst). A field of struct bpf_insn has the
 * byte order of the machine, so one source serves both.
 */
#ifndef TOLL_BPF_H
#define TOLL_BPF_H

#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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
/* R0 = the value in a map whose key is at `key` on the stack; jumps to `missing` if there is none. */
static inline void find(struct code *c, int map, int key, unsigned missing) {
  with(c, BPF_MOV, R2, FRAME);
  with_value(c, BPF_ADD, R2, key);
  map_address(c, R1, map);
  call(c, BPF_FUNC_map_lookup_elem);
  jump(c, BPF_JEQ, R0, 0, missing);
}
/* Ends the program with the value in a register, and sets the targets of all jumps. */
static inline void leave_with(struct code *c, unsigned value) {
  with(c, BPF_MOV, R0, value);
  step(c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  for (unsigned i = 0; i < c->jumps; i++)
    c->steps[c->jump_at[i]].off = (int16_t)(c->labels[c->jump_to[i]] - c->jump_at[i] - 1);
}
static inline void leave(struct code *c) {
  with_value(c, BPF_MOV, R0, 0);
  leave_with(c, R0);
}

/* ---- maps and programs in the kernel ---- */

static inline int bpf(int command, union bpf_attr *attr) {
  return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static inline int make_map(unsigned type, unsigned key_bytes, unsigned value_bytes, unsigned entries) {
  const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &all); /* maps count against it before Linux 5.11 */
  union bpf_attr attr = {0};
  attr.map_type = type;
  attr.key_size = key_bytes;
  attr.value_size = value_bytes;
  attr.max_entries = entries;
  return bpf(BPF_MAP_CREATE, &attr);
}

/* log: buffer for the verifier's log, or NULL. */
static inline int load_program(const struct code *c, unsigned type, char *log, size_t log_bytes) {
  union bpf_attr attr = {0};
  attr.prog_type = type;
  attr.insns = (uintptr_t)c->steps;
  attr.insn_cnt = c->count;
  attr.license = (uintptr_t) "GPL";
  attr.log_buf = (uintptr_t)log;
  attr.log_size = log ? (uint32_t)log_bytes : 0;
  attr.log_level = log ? 1 : 0;
  return bpf(BPF_PROG_LOAD, &attr);
}

/* Returns a file: the program runs at the raw tracepoint until it is closed. */
static inline int attach_raw(const char *tracepoint, int program) {
  union bpf_attr attr = {0};
  attr.raw_tracepoint.name = (uintptr_t)tracepoint;
  attr.raw_tracepoint.prog_fd = (uint32_t)program;
  return bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
}

/* Why the kernel refused, by errno. */
static inline const char *refused(const char *what) {
  static char reason[256];
  if (errno == EPERM || errno == EACCES)
    snprintf(reason, sizeof reason, "the system does not permit BPF: it takes root, or CAP_BPF and CAP_PERFMON");
  else
    snprintf(reason, sizeof reason, "%s: %s", what, strerror(errno));
  return reason;
}

static inline bool put(int map, uint32_t key, const void *value) {
  union bpf_attr attr = {0};
  attr.map_fd = (uint32_t)map;
  attr.key = (uintptr_t)&key;
  attr.value = (uintptr_t)value;
  return bpf(BPF_MAP_UPDATE_ELEM, &attr) == 0;
}

/* Reads a per-CPU map: a value of each possible CPU, in 8 bytes or a multiple. */
static inline bool read_element(int map, uint32_t key, void *values) {
  union bpf_attr attr = {0};
  attr.map_fd = (uint32_t)map;
  attr.key = (uintptr_t)&key;
  attr.value = (uintptr_t)values;
  return bpf(BPF_MAP_LOOKUP_ELEM, &attr) == 0;
}

static inline unsigned possible_cpus(void) {
  char line[256] = "";
  FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
  if (file && !fgets(line, sizeof line, file)) line[0] = 0;
  if (file) fclose(file);
  const char *last = strrchr(line, '-');
  if (!last) last = strrchr(line, ',');
  return (unsigned)atoi(last ? last + 1 : line) + 1;
}

#endif
