/* SPDX-License-Identifier: Apache-2.0
 *
 * The same shortest system call by every gate that this CPU has into the kernel.
 *
 * x86 has kept its old instructions: the software interrupt of 1978 goes through a descriptor table, and on some
 * machines through checks that the fast instruction avoids. A 32-bit program gets a page of kernel code that uses the
 * fastest instruction (sysenter or syscall), and calls it, so that this is its ordinary gate. POWER9 has a second
 * instruction. An ABI with only one gate has nothing to compare, and the probe is skipped.
 */
#define _GNU_SOURCE 1
#include "gate.h"

#include "entry.h"
#include "toll.h"

enum gate { ORDINARY, INT80, VDSO, SC };

struct gates {
  long answer;
  uintptr_t vdso;
};

static void enter_int80(void *answer) {
  *(volatile long *)answer = gate_int80();
}

/* A 64-bit kernel without its 32-bit half answers the old gate with a fault. */
static bool int80_is_open(void) {
  volatile long answer = 0;
  return toll_guarded(enter_int80, (void *)&answer) == 0 && answer == (long)getppid();
}

/* Whether the kernel offers scv besides sc. */
static bool has_two_instructions(void) {
#if defined(__powerpc64__)
  return kernel_has_scv;
#else
  return false;
#endif
}

static long enter_by_sc(void) {
#if defined(__powerpc64__)
  return kernel_enter_by_sc(SYS_getppid, 0, 0);
#else
  return -ENOSYS;
#endif
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct gates *gates = r->state;
  const unsigned gate = toll_choice(r, "gate");
  gates->vdso = gate_of_vdso();
  if (gate == INT80 && !GATE_INT80) return toll_skip(r, "this architecture has no interrupt gate for system calls");
  if (gate == INT80 && !int80_is_open()) return toll_skip(r, "this kernel keeps the int 0x80 gate shut");
  if (gate == VDSO && !gates->vdso) return toll_skip(r, "the kernel offers this ABI no gate of its own in the vDSO");
  if (gate == SC && !has_two_instructions())
    return toll_skip(r, "the C library's instruction for system calls is the only one here");
  return TOLL_OK;
}

static void enter(struct toll_run *r) {
  struct gates *gates = r->state;
  long answer = 0;
  uint64_t i = r->iterations;
  switch (toll_choice(r, "gate")) {
    case ORDINARY:
      for (; i; i--) answer = kernel_enter(SYS_getppid, 0, 0);
      break;
    case INT80:
      for (; i; i--) answer = gate_int80();
      break;
    case VDSO:
      for (; i; i--) answer = gate_vdso(gates->vdso);
      break;
    case SC:
      for (; i; i--) answer = enter_by_sc();
      break;
  }
  gates->answer = answer;
}

static void control(struct toll_run *r) {
  long answer = 0;
  for (uint64_t i = r->iterations; i; i--) TOLL_OPAQUE(answer);
}

static enum toll_status check(struct toll_run *r) {
  const struct gates *gates = r->state;
  if (gates->answer == (long)getppid()) return TOLL_OK;
  return toll_wrong(r, "the kernel answered %ld, not %ld", gates->answer, (long)getppid());
}

static const char *const names[] = {"ordinary", "int80", "vdso", "sc", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "gate",
     .kind = TOLL_CHOICE,
     .summary = "the one that the ABI's C library takes, the interrupt int 0x80, the kernel's own code in the vDSO, or "
                "POWER's sc",
     .choices = names},
    {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one entry into the kernel by this gate and the return",
                                              .toll = "system call, {gate} entry"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "Which gate into the kernel is cheap, and what do the others cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct gates),
    .prepare = prepare,
    .body = enter,
    .control = control,
    .check = check,
    .calls = 1,
    .revision = 3 + KERNEL_GATE_REVISION,
};
