/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of requesting protection from speculation (prctl(2), PR_SET_SPECULATION_CTRL), for each entry into the
 * kernel and for each switch to another process, compared with a program without a request.
 *
 * store_bypass_disabled: the CPU lets no load pass an older store whose address is unknown (SSBD). The kernel sets a
 * register at each switch between a process with it and one without; while it is set, all code of the process waits, and
 * the kernel's code in its calls too. indirect_branch_disabled: the kernel has the predictor of indirect branches emptied
 * (IBPB) at switches to and from the process, and keeps the sibling hyperthread from training it (STIBP). l1d_flushed: the
 * first data cache is written back and emptied at each switch away from the process.
 *
 * Both processes of a ring have asked, as those of a sandbox have: the second inherits it. A hop is a write to a pipe, the
 * switch and the read, as in kernel.switch without a footprint; so the caches refilled are those of the kernel's own work
 * and of little more. The entry is that of kernel.enter_syscall, in the same sample.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <sys/prctl.h>

#include "entry.h"
#include "ring.h"

#ifndef PR_SET_SPECULATION_CTRL
#define PR_GET_SPECULATION_CTRL 52
#define PR_SET_SPECULATION_CTRL 53
#define PR_SPEC_STORE_BYPASS    0
#define PR_SPEC_ENABLE          (1UL << 1)
#define PR_SPEC_DISABLE         (1UL << 2)
#endif
#ifndef PR_SPEC_INDIRECT_BRANCH
#define PR_SPEC_INDIRECT_BRANCH 1
#endif
#ifndef PR_SPEC_L1D_FLUSH
#define PR_SPEC_L1D_FLUSH 2
#endif

enum { DEFAULT, STORE_BYPASS, INDIRECT_BRANCH, L1D_FLUSH };
enum { PROCESSES = 2 };

struct hops {
  struct rings rings;
  long answer;
};

/* The requested protection, and the boot parameter that permits the request. */
static const struct {
  unsigned long feature, wanted;
  const char *name, *option;
} requests[] = {
    [STORE_BYPASS] = {PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, "store bypass", "spec_store_bypass_disable=prctl"},
    [INDIRECT_BRANCH] = {PR_SPEC_INDIRECT_BRANCH, PR_SPEC_DISABLE, "indirect branches", "spectre_v2_user=prctl"},
    [L1D_FLUSH] = {PR_SPEC_L1D_FLUSH, PR_SPEC_ENABLE, "flushes of the first data cache", "l1d_flush=on"},
};

/* The kernel ends a process that asked for flushes and runs on a core with two threads (SIGBUS). */
static bool has_active_siblings(void) {
  char digit = '0';
  const int file = open("/sys/devices/system/cpu/smt/active", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  if (read(file, &digit, 1) != 1) digit = '0';
  close(file);
  return digit == '1';
}

static enum toll_status ask(struct toll_run *r, unsigned what) {
  if (what == L1D_FLUSH && has_active_siblings())
    return toll_skip(r, "the kernel flushes the first data cache only where no core runs two threads (nosmt)");
  if (prctl(PR_SET_SPECULATION_CTRL, requests[what].feature, requests[what].wanted, 0, 0) == 0) return TOLL_OK;
  return toll_skip(r, "this kernel and CPU let no program control %s: %s (%s at boot permits it where the CPU can)",
                   requests[what].name, strerror(errno), requests[what].option);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct hops *hops = r->state;
  const unsigned what = toll_choice(r, "speculation");
  hops->rings.processes = PROCESSES;
  hops->rings.rings = 1;
  if (what != DEFAULT && ask(r, what) != TOLL_OK) return TOLL_SKIPPED;
  return open_pipes(r, &hops->rings);
}

static void visit_footprint(struct rings *ring, unsigned worker) {
  (void)ring, (void)worker;
}

static void control(struct toll_run *r) {
  struct hops *hops = r->state;
  for (uint64_t i = r->iterations; i; i--)
    for (unsigned call = 0; call < PROCESSES; call++) hops->answer = kernel_enter(SYS_getppid, 0, 0);
}

static enum toll_status check(struct toll_run *r) {
  const struct hops *hops = r->state;
  const unsigned what = toll_choice(r, "speculation");
  if (hops->answer != (long)getppid()) return toll_wrong(r, "the kernel answered %ld, not the parent", hops->answer);
  if (what != DEFAULT) {
    const int is = prctl(PR_GET_SPECULATION_CTRL, requests[what].feature, 0, 0, 0);
    if (is < 0 || !((unsigned long)is & requests[what].wanted))
      return toll_wrong(r, "the kernel's state of %s is %d", requests[what].name, is);
  }
  return check_tokens(r);
}

static const char *const speculations[] = {"default", "store_bypass_disabled", "indirect_branch_disabled",
                                           "l1d_flushed", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "speculation",
     .kind = TOLL_CHOICE,
     .summary =
         "what the processes ask the kernel for: nothing, no load past an unknown store, no prediction of indirect "
         "branches by others, or an empty first data cache for the next",
     .choices = speculations},
    {0}};
static const struct toll_metric metrics[] = {{.name = "hop",
                                              .unit = "ns",
                                              .summary = "one hop to the other process: write, switch and read",
                                              .toll = "hop to another process, speculation {speculation}"},
                                             {.name = "round_trip",
                                              .unit = "ns",
                                              .summary = "one entry into the kernel and the return",
                                              .source = TOLL_CONTROL,
                                              .toll = "system call, speculation {speculation}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a program pay that asks to be protected from speculation?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct hops),
    .prepare = prepare,
    .body = lead,
    .control = control,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .enters = true,
    .control_calls = PROCESSES,
    .revision = 1 + KERNEL_GATE_REVISION,
};
