/* SPDX-License-Identifier: Apache-2.0
 *
 * One lookup or update of a BPF map, by a BPF program or by a system call of an ordinary program.
 *
 * A program runs in the kernel's own loop (BPF_PROG_TEST_RUN), as `bpftool prog run ... repeat N` has it run. It works on
 * sixteen keys one after the other, since a turn of that loop takes longer than most operations; the control puts the
 * same keys on its stack and leaves the map alone. An ordinary program makes a system call for each. The keys are few and
 * the same each time, so the map's memory is in the caches and what is priced is the operation. Of a lookup the value is
 * read.
 *
 * The kernel writes a lookup in an array into the program itself, and a hash's is a call. An update of a hash takes a
 * lock and a fresh element, and gives the former one back; that of an array is a copy.
 */
#define _GNU_SOURCE 1
#include "bpf.h"
#include "toll.h"

enum map { ARRAY, HASH };
enum op { LOOKUP, UPDATE };
enum from { PROGRAM, CALL };
enum { KEYS = 16, ENTRIES = 1024, STRIDE = 61, KEY = -8, VALUE = -16, MISSING = 0, FRAME_BYTES = 64 };

struct maps {
  unsigned op, from;
  int map, program, control;
  uint64_t refused; /* calls */
  uint32_t answer;  /* sum of the values that were read, or what updates returned */
};

static uint32_t key_of(unsigned place) {
  return place * STRIDE % ENTRIES;
}
static uint32_t value_of(uint32_t key) {
  return 3 * key + 7;
}

/* ---- the kernel's side ---- */

/* R7 = the sum of what the operations gave. */
static void write_operation(struct code *c, const struct maps *maps, bool uses_map, unsigned place) {
  step(c, BPF_ST | BPF_MEM | BPF_W, FRAME, 0, KEY, (int)key_of(place));
  step(c, BPF_ST | BPF_MEM | BPF_DW, FRAME, 0, VALUE, (int)value_of(key_of(place)));
  if (!uses_map) return;
  if (maps->op == LOOKUP) {
    find(c, maps->map, KEY, MISSING);
    load(c, R0, R0, 0);
  } else {
    with(c, BPF_MOV, R3, FRAME);
    with_value(c, BPF_ADD, R3, VALUE);
    with(c, BPF_MOV, R2, FRAME);
    with_value(c, BPF_ADD, R2, KEY);
    map_address(c, R1, maps->map);
    with_value(c, BPF_MOV, R4, BPF_ANY);
    call(c, BPF_FUNC_map_update_elem);
  }
  with(c, BPF_ADD, R7, R0);
}

static int load_operations(const struct maps *maps, bool uses_map) {
  struct code *c = calloc(1, sizeof *c);
  if (!c) return -1;
  with_value(c, BPF_MOV, R7, 0);
  for (unsigned place = 0; place < KEYS; place++) write_operation(c, maps, uses_map, place);
  mark(c, MISSING);
  leave_with(c, R7);
  const int program = load_program(c, BPF_PROG_TYPE_SOCKET_FILTER, NULL, 0);
  free(c);
  return program;
}

/* The sum that the program's last turn gave. */
static uint32_t run_program(struct maps *maps, int program, uint64_t turns) {
  char frame[FRAME_BYTES] = {0};
  union bpf_attr attr = {0};
  attr.test.prog_fd = (uint32_t)program;
  attr.test.repeat = (uint32_t)turns;
  attr.test.data_in = (uintptr_t)frame;
  attr.test.data_size_in = sizeof frame;
  while (bpf(BPF_PROG_TEST_RUN, &attr) < 0)
    if (errno != EINTR) { /* EINTR: a signal to this process */
      maps->refused++;
      return 0;
    }
  return attr.test.retval;
}

static bool put_values(const struct maps *maps, bool are_zero) {
  for (uint32_t key = 0; key < ENTRIES; key++) {
    const uint64_t value = are_zero ? 0 : value_of(key);
    if (!put(maps->map, key, &value)) return false;
  }
  return true;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct maps *maps = r->state;
  maps->op = toll_choice(r, "op");
  maps->from = toll_choice(r, "from");
  const unsigned type = toll_choice(r, "map") == ARRAY ? BPF_MAP_TYPE_ARRAY : BPF_MAP_TYPE_HASH;
  maps->map = make_map(type, sizeof(uint32_t), sizeof(uint64_t), ENTRIES);
  if (maps->map < 0 || !put_values(maps, false)) return toll_skip(r, "%s", refused("BPF maps"));
  if (maps->from == CALL) return TOLL_OK;
  maps->program = load_operations(maps, true);
  maps->control = load_operations(maps, false);
  if (maps->program < 0 || maps->control < 0) return toll_skip(r, "%s", refused("a BPF program"));
  run_program(maps, maps->program, 1);
  return maps->refused ? toll_skip(r, "%s", refused("running a BPF program (BPF_PROG_TEST_RUN)")) : TOLL_OK;
}

/* ---- the program's side ---- */

static uint32_t operate_by_calls(struct maps *maps) {
  uint32_t sum = 0;
  for (unsigned place = 0; place < KEYS; place++) {
    const uint32_t key = key_of(place);
    uint64_t value = value_of(key);
    const bool done = maps->op == LOOKUP ? read_element(maps->map, key, &value) : put(maps->map, key, &value);
    maps->refused += !done;
    sum += maps->op == LOOKUP ? (uint32_t)value : 0;
  }
  return sum;
}

static void operate(struct toll_run *r) {
  struct maps *maps = r->state;
  if (maps->from == PROGRAM)
    maps->answer = run_program(maps, maps->program, r->iterations);
  else
    for (uint64_t i = r->iterations; i; i--) maps->answer = operate_by_calls(maps);
}

static void control(struct toll_run *r) {
  struct maps *maps = r->state;
  uint64_t value = 0;
  if (maps->from == PROGRAM)
    run_program(maps, maps->control, r->iterations);
  else
    for (uint64_t i = r->iterations * KEYS; i; i--) TOLL_OPAQUE(value);
}

/* A lookup must return the value in the map; updates are checked by reading a map that held zeros. */
static enum toll_status check(struct toll_run *r) {
  struct maps *maps = r->state;
  uint32_t expected = 0;
  struct toll_run once = *r;
  once.iterations = 1;
  if (maps->op == UPDATE && !put_values(maps, true)) return toll_fail(r, "%s", refused("BPF maps"));
  if (maps->op == UPDATE) operate(&once);
  for (unsigned place = 0; place < KEYS; place++) {
    uint64_t value = 0;
    const bool known = read_element(maps->map, key_of(place), &value);
    if (!known || value != value_of(key_of(place)))
      return toll_wrong(r, "a value in the map is not what was put there");
    expected += maps->op == LOOKUP ? (uint32_t)value : 0;
  }
  if (maps->refused) return toll_wrong(r, "%llu operations were refused", (unsigned long long)maps->refused);
  if (maps->answer != expected) return toll_wrong(r, "the operations gave %u, not %u", maps->answer, expected);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->operations = KEYS;
}

static const char *const maps_of[] = {"array", "hash", NULL};
static const char *const ops[] = {"lookup", "update", NULL};
static const char *const from[] = {"program", "call", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "map", .kind = TOLL_CHOICE, .summary = "the kind of map, of 1024 values of 8 bytes", .choices = maps_of},
    {.name = "op", .kind = TOLL_CHOICE, .summary = "operation on a value", .choices = ops},
    {.name = "from",
     .kind = TOLL_CHOICE,
     .summary = "by a BPF program, or by a system call of an ordinary one",
     .choices = from},
    {0}};
static const struct toll_metric metrics[] = {{.name = "operation",
                                              .unit = "ns",
                                              .summary = "one operation on a value of the map",
                                              .source = TOLL_DIFFERENCE,
                                              .means = "kernel-operation",
                                              .toll = "BPF map, {op} in {map} by {from}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a lookup in a BPF map cost, and an update?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct maps),
    .prepare = prepare,
    .body = operate,
    .control = control,
    .check = check,
    .work = work,
    .enters = true,
    .revision = 1,
};
