/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts and times system calls in the kernel, by BPF programs at raw tracepoints.
 *
 * A thread that is followed has an entry in the map `threads`. Its window is the time from sys_enter to sys_exit, less
 * the time that it was switched out (sched_switch) and that timer interrupts took (local_timer_entry). A new process or
 * thread of a followed one is followed. Raw tracepoints have pointers where others have fields, so the offset of
 * task_struct.pid is read from the kernel's own BTF.
 *
 * No tracepoint ends a page fault. Its window is from page_fault_user to the software event page-faults-min or -maj, which
 * the kernel counts when it has handled the fault; where such events have no programs, faults are only counted.
 *
 * It needs CAP_BPF and CAP_PERFMON (or root), a kernel with BTF (CONFIG_DEBUG_INFO_BTF), and no lockdown.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include "../bpf.h"
#include "bill.h"

struct thread {
  uint64_t began_ns, away_ns, left_ns, came_ns, tick_ns, call, repeated, closed,
      first; /* began_ns: 0 outside of a call and of a fault; left_ns: 0 while it runs; came_ns: when it was switched to; call: its number, or FAULT plus
                the event that a fault's time is added to; closed: place of the last call's counts, plus 1; first: number
                of its ABI's first call, UNKNOWN after exec, ENDING from sched_process_exit on */
};
#define OF(field) ((int)offsetof(struct thread, field))

enum {
  MOST_THREADS = 65536,
  MOST_ASKED = 16384,
  OUT = 0,
  KEY = -4,
  WORD = -16,
  KEY_2 = -24,
  FRESH = -96,
  ASKED = -112, /* call, process, and hash of the path */
  HASH = ASKED + 8,
  MOST_PATH = 128,
  PATH = ASKED - MOST_PATH
};
/* Field and bit of thread_info that mark a call of the 32-bit ABI (arch/ARCH/include/asm/thread_info.h). */
#if defined __x86_64__
#define OF_ABI "status"
enum { COMPATIBLE = 1 << 1 }; /* TS_COMPAT */
#elif defined __aarch64__
#define OF_ABI "flags"
enum { COMPATIBLE = 1 << 22 }; /* TIF_32BIT */
#else
#define OF_ABI ""
enum { COMPATIBLE = 0 };
#endif
enum { UNKNOWN = -1, ENDING = -2, FAULT = CALLS };

static int threads, calls, events, paths, asked;
static struct {
  int pid, exit_state, status; /* offsets in bytes; below 0 where the kernel has no such field */
} offsets = {-1, -1, -1};
static bool times_faults;

/* ---- offsets ---- */

struct btf_header {
  uint16_t magic;
  uint8_t version, flags;
  uint32_t header_bytes, types_at, types_bytes, strings_at, strings_bytes;
};
struct btf_type {
  uint32_t name, info, size;
};
struct btf_field {
  uint32_t name, type, offset;
};

/* Bytes that follow a type, by its kind (Linux, Documentation/bpf/btf.rst). */
static size_t rest_of(unsigned kind, unsigned count) {
  enum { INT = 1, ARRAY = 3, STRUCT, UNION, ENUM, PROTO = 13, VAR, SECTION, TAG = 17, ENUM_64 = 19 };
  switch (kind) {
    case INT:
    case VAR:
    case TAG: return 4;
    case ARRAY: return 12;
    case STRUCT:
    case UNION:
    case SECTION:
    case ENUM_64: return (size_t)count * 12;
    case ENUM:
    case PROTO: return (size_t)count * 8;
    default: return 0;
  }
}

static void take_fields(const struct btf_type *type, const char *strings) {
  enum { OFFSET_BITS = 24 };
  const struct btf_field *field = (const void *)(type + 1);
  const bool is_task = strcmp(strings + type->name, "task_struct") == 0;
  const bool has_widths = type->info >> 31; /* the upper byte of an offset is the width of a bit field */
  for (unsigned i = 0; i < (type->info & 0xffff); i++) {
    const char *name = strings + field[i].name;
    const uint32_t bits = has_widths ? field[i].offset & ((1u << OFFSET_BITS) - 1) : field[i].offset;
    if (is_task && strcmp(name, "pid") == 0) offsets.pid = (int)bits / 8;
    if (is_task && strcmp(name, "exit_state") == 0) offsets.exit_state = (int)bits / 8;
    if (!is_task && strcmp(name, OF_ABI) == 0) offsets.status = (int)bits / 8;
  }
}

static void walk_types(const char *bytes, size_t size) {
  enum { STRUCT = 4 };
  const struct btf_header *header = (const void *)bytes;
  const char *types = bytes + header->header_bytes + header->types_at;
  const char *strings = bytes + header->header_bytes + header->strings_at;
  if (strings + header->strings_bytes > bytes + size || types + header->types_bytes > bytes + size) return;
  for (const char *at = types; at + sizeof(struct btf_type) <= types + header->types_bytes;) {
    const struct btf_type *type = (const void *)at;
    const unsigned kind = type->info >> 24 & 0x1f;
    if (kind == STRUCT &&
        (strcmp(strings + type->name, "task_struct") == 0 || strcmp(strings + type->name, "thread_info") == 0))
      take_fields(type, strings);
    at += sizeof *type + rest_of(kind, type->info & 0xffff);
  }
}

static bool find_offsets(void) {
  enum { MAGIC = 0xeb9f };
  struct stat about;
  const int file = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &about) < 0) return false;
  char *bytes = malloc((size_t)about.st_size + 1);
  size_t had = 0;
  for (ssize_t got; bytes && had < (size_t)about.st_size; had += (size_t)got)
    if ((got = read(file, bytes + had, (size_t)about.st_size - had)) <= 0) break;
  close(file);
  if (bytes && had > sizeof(struct btf_header) && *(uint16_t *)(void *)bytes == MAGIC) walk_types(bytes, had);
  free(bytes);
  return offsets.pid >= 0 && offsets.exit_state >= 0;
}

/* ---- programs ---- */

/* `of` = the entry of the thread whose number is at KEY on the stack; to OUT where it is not followed. */
static void look_up(struct code *c, unsigned of, int key, unsigned missing) {
  find(c, threads, key, missing);
  with(c, BPF_MOV, of, R0);
}

static void look_up_current(struct code *c, unsigned of, unsigned missing) {
  call(c, BPF_FUNC_get_current_pid_tgid);
  store_32(c, FRAME, KEY, R0);
  look_up(c, of, KEY, missing);
}

/* A field of 32 bits of the structure that `base` points to, onto the stack at `place`. */
static void read_field(struct code *c, unsigned base, int offset, int place) {
  with(c, BPF_MOV, R3, base);
  with_value(c, BPF_ADD, R3, offset);
  with_value(c, BPF_MOV, R2, 4);
  with(c, BPF_MOV, R1, FRAME);
  with_value(c, BPF_ADD, R1, place);
  call(c, BPF_FUNC_probe_read_kernel);
}

/* Adds `by` (a register that survives a call) to an event; changes R0 to R3. */
static void add_event(struct code *c, enum event which, unsigned by, unsigned label) {
  step(c, BPF_ST | BPF_MEM | BPF_W, FRAME, 0, KEY_2, which);
  find(c, events, KEY_2, label);
  load(c, R1, R0, 0);
  with(c, BPF_ADD, R1, by);
  store(c, R0, 0, R1);
  mark(c, label);
}

static void add_one(struct code *c, enum event which, unsigned label) {
  with_value(c, BPF_MOV, R9, 1);
  add_event(c, which, R9, label);
}

/* Calls that ask about a path and change nothing. The path is the first argument, or the second after the folder that it
 * is relative to. */
static const struct {
  const char *name;
  unsigned path;
} queries[] = {{"stat", 0},  {"lstat", 0},      {"access", 0},    {"readlink", 0},  {"stat64", 0},    {"lstat64", 0},
               {"statx", 1}, {"newfstatat", 1}, {"fstatat64", 1}, {"faccessat", 1}, {"readlinkat", 1}};

/* At sys_enter the arguments are in the thread's saved registers, whose upper halves are zero in a program of 32 bit. */
#if defined __x86_64__
static const int argument_at[ABIS][2] = {
    {offsetof(struct user_regs_struct, rdi), offsetof(struct user_regs_struct, rsi)},
    {offsetof(struct user_regs_struct, rbx), offsetof(struct user_regs_struct, rcx)}};
#elif defined __aarch64__
static const int argument_at[ABIS][2] = {{0, 8}, {0, 8}};
#else
static const int argument_at[ABIS][2] = {{-1, -1}, {-1, -1}}; /* unknown ABI: questions about paths are not counted */
#endif

/* Offsets of a call's path and folder in bytes, plus 1; 0 for none. */
struct query {
  uint32_t path_at, folder_at;
};

static void know_queries(void) {
  for (unsigned i = 0; i < CALLS; i++) {
    const int *at = argument_at[i / CALLS_OF_ABI];
    const char *name = call_name(i % CALLS_OF_ABI, i >= CALLS_OF_ABI);
    for (size_t j = 0; name && j < sizeof queries / sizeof queries[0]; j++) {
      if (strcmp(name, queries[j].name) != 0) continue;
      const struct query query = {(uint32_t)at[queries[j].path] + 1, queries[j].path ? (uint32_t)at[0] + 1 : 0};
      put(paths, i, &query);
    }
  }
}

/* The argument whose place plus 1 is in R1. */
static void read_argument(struct code *c) {
  load(c, R3, R6, 0);
  with(c, BPF_ADD, R3, R1);
  with_value(c, BPF_ADD, R3, -1);
  with_value(c, BPF_MOV, R2, 8);
  with(c, BPF_MOV, R1, FRAME);
  with_value(c, BPF_ADD, R1, WORD);
  call(c, BPF_FUNC_probe_read_kernel);
}

static void key_of_path(struct code *c, unsigned to) {
  with(c, BPF_MOV, to, FRAME);
  with_value(c, BPF_ADD, to, ASKED);
}

/* Puts a hash of the path on the stack, whose length is in R0 and which is followed by zeros, to HASH. */
static void hash_path(struct code *c, unsigned hashed) {
  enum { FACTOR = -0x61c8864f, SHIFT = 29 };
  with_value(c, BPF_MOV, R6, 0);
  with_value(c, BPF_MOV, R9, FACTOR);
  for (int at = PATH; at < PATH + MOST_PATH; at += 8) {
    load(c, R1, FRAME, at);
    with(c, BPF_XOR, R6, R1);
    with(c, BPF_MUL, R6, R9);
    with(c, BPF_MOV, R1, R6);
    with_value(c, BPF_RSH, R1, SHIFT);
    with(c, BPF_XOR, R6, R1);
    jump(c, BPF_JSLT, R0, at - PATH + 9, hashed);
  }
  mark(c, hashed);
  store(c, FRAME, HASH, R6);
}

/* Whether the process has asked the same about the same path before, for the call in R7 of the registers in R6. A path
 * that is relative to an open folder is left out, since the folder's number may be another one's by now; so is one that
 * is longer than the key. */
static void look_for_repeat(struct code *c, unsigned done, unsigned first_label) {
  const unsigned read = first_label, keyed = first_label + 1, fresh = first_label + 2, open_folder = first_label + 3;
  store_zero(c, R7, OF(repeated));
  store_32(c, FRAME, KEY_2, R1);
  find(c, paths, KEY_2, done);
  load_32(c, R9, R0, (int)offsetof(struct query, path_at));
  jump(c, BPF_JEQ, R9, 0, done);
  load_32(c, R1, R0, (int)offsetof(struct query, folder_at));
  with_value(c, BPF_MOV, R8, 0);
  jump(c, BPF_JEQ, R1, 0, read);
  read_argument(c);
  load(c, R8, FRAME, WORD);
  with_value(c, BPF_LSH, R8, 32);
  mark(c, read);
  with(c, BPF_MOV, R1, R9);
  read_argument(c);
  for (int at = PATH; at < PATH + MOST_PATH; at += 8) store_zero(c, FRAME, at);
  load(c, R3, FRAME, WORD);
  with_value(c, BPF_MOV, R2, MOST_PATH);
  with(c, BPF_MOV, R1, FRAME);
  with_value(c, BPF_ADD, R1, PATH);
  call(c, BPF_FUNC_probe_read_user_str);
  jump(c, BPF_JSLT, R0, 2, done);
  jump(c, BPF_JEQ, R0, MOST_PATH, done);
  jump(c, BPF_JSGT, R8, 0, open_folder);
  jump(c, BPF_JA, 0, 0, keyed);
  mark(c, open_folder);
  step(c, BPF_LDX | BPF_MEM | BPF_B, R1, FRAME, PATH, 0);
  jump(c, BPF_JNE, R1, '/', done);
  mark(c, keyed);
  hash_path(c, first_label + 4);
  load(c, R1, R7, OF(call));
  store_32(c, FRAME, ASKED, R1);
  call(c, BPF_FUNC_get_current_pid_tgid);
  with_value(c, BPF_RSH, R0, 32);
  store_32(c, FRAME, ASKED + 4, R0);
  key_of_path(c, R2);
  map_address(c, R1, asked);
  call(c, BPF_FUNC_map_lookup_elem);
  jump(c, BPF_JEQ, R0, 0, fresh);
  with_value(c, BPF_MOV, R1, 1);
  store(c, R7, OF(repeated), R1);
  jump(c, BPF_JA, 0, 0, done);
  mark(c, fresh);
  with(c, BPF_MOV, R3, FRAME);
  with_value(c, BPF_ADD, R3, WORD);
  key_of_path(c, R2);
  map_address(c, R1, asked);
  with_value(c, BPF_MOV, R4, BPF_ANY);
  call(c, BPF_FUNC_map_update_elem);
}

/* sys_enter(registers, number) */
static void write_enter(struct code *c) {
  enum { KNOWN = 1, NATIVE, PLACED, TIMED, REPEATS };
  with(c, BPF_MOV, R6, R1);
  look_up_current(c, R7, OUT);
  load(c, R8, R7, OF(first));
  jump(c, BPF_JSGE, R8, 0, KNOWN);
  with_value(c, BPF_MOV, R8, 0);
  if (offsets.status >= 0) {
    call(c, BPF_FUNC_get_current_task);
    read_field(c, R0, offsets.status, WORD);
    load_32(c, R1, FRAME, WORD);
    with_value(c, BPF_AND, R1, COMPATIBLE);
    jump(c, BPF_JEQ, R1, 0, NATIVE);
    with_value(c, BPF_MOV, R8, CALLS_OF_ABI);
    mark(c, NATIVE);
  }
  store(c, R7, OF(first), R8);
  mark(c, KNOWN);
  load(c, R1, R6, 8);
  with_value(c, BPF_AND, R1, NUMBER);
  jump(c, BPF_JSLT, R1, CALLS_OF_ABI, PLACED);
  with_value(c, BPF_MOV, R1, CALLS_OF_ABI - 1);
  mark(c, PLACED);
  with(c, BPF_ADD, R1, R8);
  store(c, R7, OF(call), R1);
  look_for_repeat(c, TIMED, REPEATS);
  mark(c, TIMED);
  call(c, BPF_FUNC_ktime_get_ns);
  store(c, R7, OF(began_ns), R0);
  store_zero(c, R7, OF(away_ns));
  mark(c, OUT);
  leave(c);
}

/* To the counts of a call at R0. */
static void add_switch(struct code *c) {
  load(c, R2, R0, (int)offsetof(struct call_count, switched));
  with_value(c, BPF_ADD, R2, 1);
  store(c, R0, (int)offsetof(struct call_count, switched), R2);
}

/* Closes the window of the thread in R7, at the time in R8, with the result in R9. */
static void close_window(struct code *c, unsigned first_label) {
  const unsigned sized = first_label, failed = first_label + 1, positive = first_label + 2, clamped = first_label + 3,
                 stayed = first_label + 4;
  static const int most[] = {63, 4095, 65535};
  load(c, R1, R7, OF(began_ns));
  jump(c, BPF_JEQ, R1, 0, OUT);
  store_zero(c, R7, OF(began_ns));
  with(c, BPF_SUB, R8, R1);
  load(c, R1, R7, OF(away_ns));
  with(c, BPF_SUB, R8, R1);
  jump(c, BPF_JSGE, R8, 0, positive);
  with_value(c, BPF_MOV, R8, 1);
  add_event(c, CLAMPED, R8, clamped);
  with_value(c, BPF_MOV, R8, 0);
  mark(c, positive);
  load(c, R1, R7, OF(call));
  with_value(c, BPF_MUL, R1, SIZES);
  jump(c, BPF_JSLT, R9, 1, sized);
  for (unsigned i = 0; i < sizeof most / sizeof most[0]; i++) {
    with_value(c, BPF_ADD, R1, 1);
    jump(c, BPF_JSLE, R9, most[i], sized);
  }
  with_value(c, BPF_ADD, R1, 1);
  mark(c, sized);
  store_32(c, FRAME, KEY, R1);
  with_value(c, BPF_ADD, R1, 1);
  store(c, R7, OF(closed), R1);
  find(c, calls, KEY, OUT);
  load(c, R1, R0, (int)offsetof(struct call_count, count));
  with_value(c, BPF_ADD, R1, 1);
  store(c, R0, (int)offsetof(struct call_count, count), R1);
  load(c, R2, R0, (int)offsetof(struct call_count, ns));
  with(c, BPF_ADD, R2, R8);
  store(c, R0, (int)offsetof(struct call_count, ns), R2);
  load(c, R1, R7, OF(repeated));
  load(c, R2, R0, (int)offsetof(struct call_count, repeats));
  with(c, BPF_ADD, R2, R1);
  store(c, R0, (int)offsetof(struct call_count, repeats), R2);
  load(c, R1, R7, OF(away_ns));
  jump(c, BPF_JEQ, R1, 0, stayed);
  add_switch(c);
  mark(c, stayed);
  jump(c, BPF_JSLT, R9, 0, failed);
  /* A result that is an address is no number of bytes. */
  with(c, BPF_MOV, R1, R9);
  with_value(c, BPF_RSH, R1, 30);
  jump(c, BPF_JNE, R1, 0, OUT);
  load(c, R2, R0, (int)offsetof(struct call_count, bytes));
  with(c, BPF_ADD, R2, R9);
  store(c, R0, (int)offsetof(struct call_count, bytes), R2);
  jump(c, BPF_JA, 0, 0, OUT);
  mark(c, failed);
  jump(c, BPF_JSLT, R9, -4095, OUT);
  load(c, R2, R0, (int)offsetof(struct call_count, errors));
  with_value(c, BPF_ADD, R2, 1);
  store(c, R0, (int)offsetof(struct call_count, errors), R2);
}

/* sys_exit(registers, result). The time is taken first, so that what follows is in no window. */
static void write_exit(struct code *c) {
  with(c, BPF_MOV, R6, R1);
  call(c, BPF_FUNC_ktime_get_ns);
  with(c, BPF_MOV, R8, R0);
  look_up_current(c, R7, OUT);
  load(c, R9, R6, 8);
  close_window(c, 1);
  mark(c, OUT);
  leave(c);
}

/* Removes the thread whose number is at KEY. */
static void forget(struct code *c) {
  with(c, BPF_MOV, R2, FRAME);
  with_value(c, BPF_ADD, R2, KEY);
  map_address(c, R1, threads);
  call(c, BPF_FUNC_map_delete_elem);
}

/* Adds the time since the thread in R7 was switched to, up to the time in R8. */
static void add_on_cpu(struct code *c, unsigned unknown) {
  load(c, R1, R7, OF(came_ns));
  jump(c, BPF_JEQ, R1, 0, unknown);
  with(c, BPF_MOV, R9, R8);
  with(c, BPF_SUB, R9, R1);
  add_event(c, ON_CPU_NS, R9, unknown);
}

/* Adds what the thread in R7 took since sched_process_exit, up to the time in R8, to the call that it ended by, which is
 * counted already; its memory is given back in that time. */
static void close_end(struct code *c, unsigned next, unsigned first_label) {
  const unsigned left = first_label, gone = first_label + 1;
  load(c, R1, R7, OF(first));
  jump(c, BPF_JNE, R1, ENDING, left);
  load(c, R9, R6, 8);
  read_field(c, R9, offsets.exit_state, WORD);
  load_32(c, R1, FRAME, WORD);
  jump(c, BPF_JEQ, R1, 0, left);
  with(c, BPF_MOV, R9, R8);
  load(c, R1, R7, OF(began_ns));
  with(c, BPF_SUB, R9, R1);
  load(c, R1, R7, OF(away_ns));
  with(c, BPF_SUB, R9, R1);
  jump(c, BPF_JSLT, R9, 0, gone);
  load(c, R1, R7, OF(call));
  with_value(c, BPF_MUL, R1, SIZES);
  store_32(c, FRAME, KEY_2, R1);
  find(c, calls, KEY_2, gone);
  load(c, R1, R0, (int)offsetof(struct call_count, ns));
  with(c, BPF_ADD, R1, R9);
  store(c, R0, (int)offsetof(struct call_count, ns), R1);
  mark(c, gone);
  forget(c);
  jump(c, BPF_JA, 0, 0, next);
  mark(c, left);
  store(c, R7, OF(left_ns), R8);
}

/* Counts a switch of the thread in R7 outside of a call, often on the way back to user mode, with the call before it. One
 * inside is counted when its window closes. */
static void count_outside(struct code *c, unsigned next) {
  load(c, R1, R7, OF(began_ns));
  jump(c, BPF_JNE, R1, 0, next);
  load(c, R1, R7, OF(closed));
  jump(c, BPF_JEQ, R1, 0, next);
  with_value(c, BPF_SUB, R1, 1);
  store_32(c, FRAME, KEY_2, R1);
  find(c, calls, KEY_2, next);
  add_switch(c);
}

/* sched_switch(preempted, from, to): runs on the stack of `from`. */
static void write_switch(struct code *c) {
  enum { NEXT = 1, COUNTED };
  with(c, BPF_MOV, R6, R1);
  call(c, BPF_FUNC_ktime_get_ns);
  with(c, BPF_MOV, R8, R0);
  look_up_current(c, R7, NEXT);
  add_on_cpu(c, COUNTED);
  close_end(c, NEXT, 3);
  count_outside(c, NEXT);
  mark(c, NEXT);
  load(c, R9, R6, 16);
  read_field(c, R9, offsets.pid, KEY);
  look_up(c, R7, KEY, OUT);
  store(c, R7, OF(came_ns), R8);
  load(c, R1, R7, OF(left_ns));
  jump(c, BPF_JEQ, R1, 0, OUT);
  with(c, BPF_SUB, R8, R1);
  load(c, R1, R7, OF(away_ns));
  with(c, BPF_ADD, R1, R8);
  store(c, R7, OF(away_ns), R1);
  store_zero(c, R7, OF(left_ns));
  mark(c, OUT);
  leave(c);
}

/* Enters the thread whose number is at KEY on the stack, outside of a call, with the first call of its ABI in R8. */
static void follow(struct code *c) {
  for (int at = 0; at < OF(first); at += 8) store_zero(c, FRAME, FRESH + at);
  store(c, FRAME, FRESH + OF(first), R8);
  with(c, BPF_MOV, R3, FRAME);
  with_value(c, BPF_ADD, R3, FRESH);
  with(c, BPF_MOV, R2, FRAME);
  with_value(c, BPF_ADD, R2, KEY);
  map_address(c, R1, threads);
  with_value(c, BPF_MOV, R4, BPF_ANY);
  call(c, BPF_FUNC_map_update_elem);
}

/* sched_process_fork(parent, child) */
static void write_fork(struct code *c) {
  with(c, BPF_MOV, R6, R1);
  look_up_current(c, R7, OUT);
  load(c, R8, R7, OF(first));
  load(c, R9, R6, 8);
  read_field(c, R9, offsets.pid, KEY);
  follow(c);
  add_one(c, FORKS, 1);
  mark(c, OUT);
  leave(c);
}

/* sched_process_exec(task, former number, program): a thread that is not its group's first takes the group's number.
 * The window of execve goes on, so a thread that keeps its number keeps its entry. */
static void write_exec(struct code *c) {
  enum { FOLLOWED = 2 };
  with(c, BPF_MOV, R6, R1);
  load(c, R1, R6, 8);
  store_32(c, FRAME, KEY, R1);
  look_up(c, R7, KEY, OUT);
  add_one(c, EXECS, 1);
  with_value(c, BPF_MOV, R8, UNKNOWN);
  call(c, BPF_FUNC_get_current_pid_tgid);
  store_32(c, FRAME, KEY, R0);
  look_up(c, R7, KEY, FOLLOWED);
  store(c, R7, OF(first), R8);
  jump(c, BPF_JA, 0, 0, OUT);
  mark(c, FOLLOWED);
  follow(c);
  mark(c, OUT);
  leave(c);
}

/* sched_process_exit(task): no sys_exit ends the window of exit_group. From Linux 6.16 on memory is given back after
 * it, which the last sched_switch ends. */
static void write_end(struct code *c) {
  enum { IN_CALL = 12, UNFOLLOWED, COUNTED };
  call(c, BPF_FUNC_ktime_get_ns);
  with(c, BPF_MOV, R8, R0);
  look_up_current(c, R7, UNFOLLOWED);
  add_one(c, EXITS, 1);
  load(c, R1, R7, OF(began_ns));
  jump(c, BPF_JNE, R1, 0, IN_CALL);
  add_on_cpu(c, COUNTED);
  forget(c);
  jump(c, BPF_JA, 0, 0, UNFOLLOWED);
  mark(c, IN_CALL);
  with_value(c, BPF_MOV, R9, 0);
  close_window(c, 2);
  mark(c, OUT);
  with_value(c, BPF_MOV, R1, ENDING);
  store(c, R7, OF(first), R1);
  call(c, BPF_FUNC_ktime_get_ns);
  store(c, R7, OF(began_ns), R0);
  store_zero(c, R7, OF(away_ns));
  mark(c, UNFOLLOWED);
  leave(c);
}

static void write_signal(struct code *c) {
  look_up_current(c, R7, OUT);
  add_one(c, SIGNALS, 1);
  mark(c, OUT);
  leave(c);
}

/* sched_waking(task): runs in the process that wakes another one, or in an interrupt of any process. */
static void write_wake(struct code *c) {
  look_up_current(c, R7, OUT);
  load(c, R1, R7, OF(tick_ns));
  jump(c, BPF_JNE, R1, 0, OUT);
  load(c, R1, R7, OF(began_ns));
  jump(c, BPF_JEQ, R1, 0, OUT);
  add_one(c, WAKES, 1);
  mark(c, OUT);
  leave(c);
}

/* sched_migrate_task(task, CPU) */
static void write_migration(struct code *c) {
  load(c, R6, R1, 0);
  read_field(c, R6, offsets.pid, KEY);
  look_up(c, R7, KEY, OUT);
  add_one(c, MIGRATIONS, 1);
  mark(c, OUT);
  leave(c);
}

/* The time of a fault is added to the event `time`, if it can be. */
static void begin_fault(struct code *c, enum event which, enum event time, unsigned label) {
  add_one(c, which, label);
  if (times_faults) {
    with_value(c, BPF_MOV, R1, FAULT + time);
    store(c, R7, OF(call), R1);
    store_zero(c, R7, OF(away_ns));
    store(c, R7, OF(began_ns), R8);
  }
  jump(c, BPF_JA, 0, 0, OUT);
}

/* page_fault_user(address, registers, error code) of x86 (Intel SDM 3A, 4.7): 1 present, 2 store, 16 fetch. */
static void write_user_fault(struct code *c) {
  enum { COPY = 1, STORE, FETCH, ONE = 4, PRESENT = 1, WRITE = 2, INSTRUCTION = 16 };
  load(c, R6, R1, 16);
  call(c, BPF_FUNC_ktime_get_ns);
  with(c, BPF_MOV, R8, R0);
  look_up_current(c, R7, OUT);
  with(c, BPF_MOV, R1, R6);
  with_value(c, BPF_AND, R1, INSTRUCTION);
  jump(c, BPF_JNE, R1, 0, FETCH);
  with(c, BPF_MOV, R1, R6);
  with_value(c, BPF_AND, R1, PRESENT | WRITE);
  jump(c, BPF_JEQ, R1, PRESENT | WRITE, COPY);
  jump(c, BPF_JEQ, R1, WRITE, STORE);
  begin_fault(c, LOAD_FAULTS, LOAD_FAULT_NS, ONE);
  mark(c, COPY);
  begin_fault(c, COPY_FAULTS, COPY_FAULT_NS, ONE + 1);
  mark(c, STORE);
  begin_fault(c, STORE_FAULTS, STORE_FAULT_NS, ONE + 2);
  mark(c, FETCH);
  begin_fault(c, FETCH_FAULTS, FETCH_FAULT_NS, ONE + 3);
  mark(c, OUT);
  leave(c);
}

/* page-faults-min, -maj: of a fault inside a call too. */
static void write_fault_end(struct code *c) {
  enum { POSITIVE = 1 };
  call(c, BPF_FUNC_ktime_get_ns);
  with(c, BPF_MOV, R9, R0);
  look_up_current(c, R7, OUT);
  load(c, R8, R7, OF(call));
  jump(c, BPF_JSLT, R8, FAULT, OUT);
  load(c, R1, R7, OF(began_ns));
  jump(c, BPF_JEQ, R1, 0, OUT);
  store_zero(c, R7, OF(began_ns));
  with(c, BPF_SUB, R9, R1);
  load(c, R1, R7, OF(away_ns));
  with(c, BPF_SUB, R9, R1);
  jump(c, BPF_JSGE, R9, 0, POSITIVE);
  with_value(c, BPF_MOV, R9, 0);
  mark(c, POSITIVE);
  with_value(c, BPF_SUB, R8, FAULT);
  store_32(c, FRAME, KEY_2, R8);
  find(c, events, KEY_2, OUT);
  load(c, R1, R0, 0);
  with(c, BPF_ADD, R1, R9);
  store(c, R0, 0, R1);
  mark(c, OUT);
  leave(c);
}

static void write_kernel_fault(struct code *c) {
  look_up_current(c, R7, OUT);
  add_one(c, KERNEL_FAULTS, 1);
  mark(c, OUT);
  leave(c);
}

static void write_tick(struct code *c) {
  look_up_current(c, R7, OUT);
  call(c, BPF_FUNC_ktime_get_ns);
  store(c, R7, OF(tick_ns), R0);
  mark(c, OUT);
  leave(c);
}

static void write_tick_end(struct code *c) {
  look_up_current(c, R7, OUT);
  call(c, BPF_FUNC_ktime_get_ns);
  load(c, R1, R7, OF(tick_ns));
  jump(c, BPF_JEQ, R1, 0, OUT);
  store_zero(c, R7, OF(tick_ns));
  with(c, BPF_MOV, R8, R0);
  with(c, BPF_SUB, R8, R1);
  load(c, R1, R7, OF(away_ns));
  with(c, BPF_ADD, R1, R8);
  store(c, R7, OF(away_ns), R1);
  add_event(c, TICK_NS, R8, 1);
  add_one(c, TICKS, 2);
  mark(c, OUT);
  leave(c);
}

/* needed: without it nothing is counted. Tracepoints of page faults and of the timer exist on x86 alone. The end of a
 * fault (NULL) is first, since a program that begins a window depends on one that ends it. */
static const struct {
  const char *tracepoint;
  void (*write)(struct code *c);
  bool needed;
} programs[] = {{NULL, write_fault_end, false},
                {"sys_enter", write_enter, true},
                {"sys_exit", write_exit, true},
                {"sched_switch", write_switch, true},
                {"sched_process_fork", write_fork, true},
                {"sched_process_exec", write_exec, true},
                {"sched_process_exit", write_end, true},
                {"signal_deliver", write_signal, false},
                {"sched_waking", write_wake, false},
                {"sched_migrate_task", write_migration, false},
                {"page_fault_user", write_user_fault, false},
                {"page_fault_kernel", write_kernel_fault, false},
                {"local_timer_entry", write_tick, false},
                {"local_timer_exit", write_tick_end, false}};

/* ---- maps and programs in the kernel ---- */

static bool is_verbose(void) {
  return getenv("TOLL_BILL_LOG") != NULL;
}

/* Runs the program at the ends of page faults on one CPU. */
static bool attach_to_faults(int program, unsigned cpu) {
  static const uint64_t ends[] = {PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ};
  for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = ends[i], .sample_period = 1, .disabled = 1};
    const int event = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0) return errno == ENODEV; /* a CPU that is offline */
    if (ioctl(event, PERF_EVENT_IOC_SET_BPF, program) < 0 || ioctl(event, PERF_EVENT_IOC_ENABLE, 0) < 0) return false;
  }
  return true;
}

static bool attach(const char *tracepoint, int program) {
  if (tracepoint) return attach_raw(tracepoint, program) >= 0;
  const unsigned cpus = possible_cpus();
  unsigned cpu = 0;
  while (cpu < cpus && attach_to_faults(program, cpu)) cpu++;
  return cpu == cpus;
}

static const char *open_program(unsigned i) {
  static char log[1 << 16];
  struct code *c = calloc(1, sizeof *c);
  if (!c) return "out of memory";
  programs[i].write(c);
  const char *tracepoint = programs[i].tracepoint, *name = tracepoint ? tracepoint : "ends of page faults";
  const unsigned type = tracepoint ? BPF_PROG_TYPE_RAW_TRACEPOINT : BPF_PROG_TYPE_PERF_EVENT;
  int program = load_program(c, type, NULL, 0);
  if (program < 0 && is_verbose()) {
    load_program(c, type, log, sizeof log);
    fprintf(stderr, "%s: %s\n", name, log);
  }
  free(c);
  return program < 0 || !attach(tracepoint, program) ? refused(name) : NULL;
}

const char *kernel_open(void) {
  threads = make_map(BPF_MAP_TYPE_HASH, 4, sizeof(struct thread), MOST_THREADS);
  if (threads < 0) return refused("BPF maps");
  calls = make_map(BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(struct call_count), CALLS * SIZES);
  events = make_map(BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(uint64_t), EVENTS);
  paths = make_map(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct query), CALLS);
  asked = make_map(BPF_MAP_TYPE_LRU_HASH, HASH + 8 - ASKED, sizeof(uint64_t), MOST_ASKED);
  if (calls < 0 || events < 0 || paths < 0 || asked < 0) return refused("BPF maps");
  know_queries();
  if (!find_offsets())
    return "this kernel has no BTF (/sys/kernel/btf/vmlinux), which the offsets of its fields are read from";
  for (unsigned i = 0; i < sizeof programs / sizeof programs[0]; i++) {
    const char *reason = open_program(i);
    if (reason && programs[i].needed) return reason;
    if (!programs[i].tracepoint) times_faults = !reason;
  }
  return NULL;
}

const char *kernel_follow(pid_t thread) {
  const struct thread fresh = {.first = (uint64_t)UNKNOWN};
  return put(threads, (uint32_t)thread, &fresh) ? NULL : refused("following the command");
}

/* ---- what was counted ---- */

static void add_call(struct call_count *to, const struct call_count *from) {
  to->count += from->count;
  to->ns += from->ns;
  to->bytes += from->bytes;
  to->errors += from->errors;
  to->repeats += from->repeats;
  to->switched += from->switched;
}

/* Waits for ended threads to be gone from their CPUs, since a process is reaped before; not for those that go on. */
static void await_ends(void) {
  enum { TRIES = 100, TRY_US = 500 };
  uint32_t key = 0;
  union bpf_attr attr = {0};
  attr.map_fd = (uint32_t)threads;
  attr.next_key = (uintptr_t)&key;
  for (unsigned i = 0; i < TRIES && bpf(BPF_MAP_GET_NEXT_KEY, &attr) == 0; i++) usleep(TRY_US);
}

bool kernel_read(struct counts *counts) {
  const unsigned cpus = possible_cpus();
  struct call_count *of_cpus = calloc(cpus, sizeof *of_cpus);
  uint64_t *numbers = calloc(cpus, sizeof *numbers);
  bool known = of_cpus && numbers;
  await_ends();
  for (uint32_t i = 0; known && i < CALLS * SIZES; i++) {
    known = read_element(calls, i, of_cpus);
    for (unsigned cpu = 0; known && cpu < cpus; cpu++) add_call(&counts->calls[i / SIZES][i % SIZES], &of_cpus[cpu]);
  }
  for (uint32_t i = 0; known && i < EVENTS; i++) {
    known = read_element(events, i, numbers);
    for (unsigned cpu = 0; known && cpu < cpus; cpu++) counts->events[i] += numbers[cpu];
  }
  free(of_cpus);
  free(numbers);
  counts->has_sizes = counts->has_times = counts->has_events = known;
  return known;
}
