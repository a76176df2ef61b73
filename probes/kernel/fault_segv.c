/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that the memory refuses, from the instruction to a handler in the same program and back past the
 * instruction: the absolute round trip of a fault, as garbage collectors, runtimes that test for null by trapping, and
 * pagers in user mode pay it.
 *
 * Never a difference of two noisy numbers: one iteration is one fault, entered by the kernel's fault path, delivered as
 * a signal, and returned from by sigreturn. The kinds differ in how far the kernel looks before it gives up: at an
 * address without a map, at a map that forbids the store, at an address that the CPU itself refuses (x86-64: a
 * general-protection fault without an address), at a map that the file does not fill, and, where the CPU can be told to
 * refuse that, off alignment: the last two are SIGBUS, for two reasons.
 */
#define _GNU_SOURCE 1
#include <sys/mman.h>
#include <unistd.h>

#include "toll.h"
#include "trap.h"

enum kind { NULL_STORE, PROTECTED_STORE, NON_CANONICAL, PAST_END, MISALIGNED };

struct refused {
  uintptr_t address;
  uint64_t expected;
};

static uintptr_t protected_page(void) {
  void *page = mmap(NULL, toll_page_bytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? 0 : (uintptr_t)page;
}

/* An empty file, mapped: there is a map, and no page past its end. */
static uintptr_t page_past_end(void) {
  int file = memfd_create("toll", MFD_CLOEXEC);
  void *page = mmap(NULL, toll_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  return page == MAP_FAILED ? 0 : (uintptr_t)page;
}

static uintptr_t non_canonical(void) {
#if defined(__x86_64__) && defined(__LP64__)
  return (uintptr_t)1 << 63;
#else
  return 0;
#endif
}

/* Inside a word of the program's own memory: the only fault is the misalignment. */
static uintptr_t misaligned(void) {
  static uint64_t words[2];
  return (uintptr_t)words + 1;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct refused *refused = r->state;
  const unsigned kind = toll_choice(r, "trap");
  if (TRAP_STORE == TRAP_UNKNOWN) return toll_skip(r, "the way past a trapped store is not known on this architecture");
  refused->address = kind == PROTECTED_STORE ? protected_page()
                     : kind == PAST_END      ? page_past_end()
                     : kind == NON_CANONICAL ? non_canonical()
                     : kind == MISALIGNED    ? misaligned()
                                             : 0;
  if (kind == NON_CANONICAL && !refused->address) return toll_skip(r, "this ABI has no address that its CPU refuses");
  if (kind == MISALIGNED && !trap_misaligned(false))
    return toll_skip(r, "a program cannot ask this architecture to refuse misaligned stores");
  if (kind != NULL_STORE && !refused->address) return toll_skip(r, "the system refused the map");
  trap_catch(SIGSEGV, TRAP_STORE);
  trap_catch(SIGBUS, TRAP_STORE);
  return TOLL_OK;
}

static void fault(struct toll_run *r) {
  struct refused *refused = r->state;
  const uintptr_t address = refused->address, count = (uintptr_t)r->iterations;
  const bool is_misaligned = toll_choice(r, "trap") == MISALIGNED;
  if (is_misaligned) trap_misaligned(true);
  for (uintptr_t i = count; i; i--) trap_store(address);
  if (is_misaligned) trap_misaligned(false);
  refused->expected += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct refused *refused = r->state;
  if (trap_handled.taken == refused->expected) return TOLL_OK;
  return toll_wrong(r, "%llu stores were refused, not %llu", (unsigned long long)trap_handled.taken,
                    (unsigned long long)refused->expected);
}

static const char *const traps[] = {"null_store",     "protected_store",  "non_canonical_store",
                                    "store_past_end", "misaligned_store", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "trap",
     .kind = TOLL_CHOICE,
     .summary = "where the store goes: nowhere, to a read-only page, to an impossible address, past a file's end, "
                "off alignment",
     .choices = traps},
    {0}};
static const struct toll_metric metrics[] = {{.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "a refused store, to a handler in the program and back",
                                              .means = "trap",
                                              .toll = "fault to a signal handler, {trap}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a refused memory access cost a program that handles it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct refused),
    .prepare = prepare,
    .body = fault,
    .check = check,
    .faults = true,
    .calls = 1,
    .revision = 1,
};
