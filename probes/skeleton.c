/* SPDX-License-Identifier: Apache-2.0
 *
 * What boundary this is, in a sentence; and why the body crosses it so that nothing else is timed: what the compiler, the
 * prefetcher or the kernel would do otherwise.
 *
 * As it stands it measures something: a call of the function `cross`, which stands for the boundary. Put yours in its
 * place, in the body alone. What the file may leave out, and what makes its line in the toll table, is in
 * docs/add-a-probe.md; probes/runtime/toll.h is the whole contract.
 */
#include "toll.h"

struct crossings {
  uintptr_t crossed, beside, expected; /* what the body did, what the control did, and what was asked of the body */
};

TOLL_NOINLINE static uintptr_t cross(uintptr_t count) {
  return count + 1;
}

static void body(struct toll_run *r) {
  struct crossings *crossings = r->state;
  uintptr_t count = crossings->crossed;
  for (uint64_t i = r->iterations; i; i--) count = cross(count);
  crossings->crossed = count;
  crossings->expected += (uintptr_t)r->iterations;
}

/* The same loop less the boundary. */
static void control(struct toll_run *r) {
  struct crossings *crossings = r->state;
  uintptr_t count = crossings->beside;
  for (uint64_t i = r->iterations; i; i--) {
    count++;
    TOLL_OPAQUE(count);
  }
  crossings->beside = count;
}

static enum toll_status check(struct toll_run *r) {
  const struct crossings *crossings = r->state;
  if (crossings->crossed == crossings->expected) return TOLL_OK;
  return toll_wrong(r, "crossed %llu times, not %llu", (unsigned long long)crossings->crossed,
                    (unsigned long long)crossings->expected);
}

static const struct toll_metric metrics[] = {
    {.name = "crossing", .unit = "ns", .summary = "one crossing of the boundary, loop included", .toll = "cross it"},
    {.name = "extra", .unit = "ns", .summary = "what it adds to the loop", .source = TOLL_DIFFERENCE},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does crossing this boundary cost?",
    .metrics = metrics,
    .state_bytes = sizeof(struct crossings),
    .body = body,
    .control = control,
    .check = check,
    .revision = 1,
};
