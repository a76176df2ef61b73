/* SPDX-License-Identifier: Apache-2.0
 *
 * Waking a thread on an idle CPU, from the waking call until its first store is seen.
 *
 * The longer a CPU has nothing to do, the deeper it sleeps: its clocks are stopped, then its caches emptied, and in a
 * guest the hypervisor takes it away and must first be asked to give it back. So the time that it has been idle is the
 * axis, and passes with the watch stopped. The waking side spins for the answer; otherwise its own wake-up would be
 * measured too.
 */
#define _GNU_SOURCE 1
#include "bell.h"

static const struct toll_role roles[] = {BELL_ROLES};
static const struct toll_parameter parameters[] = {BELL_PARAMETERS};
static const struct toll_metric metrics[] = {
    {.name = "wake",
     .unit = "ns",
     .summary = "from the call that wakes to the sight of the woken's first store",
     .means = "wake-of-idle",
     .toll = "wake a thread on a CPU that was idle for a millisecond"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How long does it take to wake a CPU that has gone idle?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct bell),
    .prepare = bell_prepare,
    .body = bell_ring,
    .check = bell_check,
    .roles = roles,
    .pauses = true,
    .sleeps = true,
    .revision = 1,
};
