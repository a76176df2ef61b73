/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast memory is updated in place: read, changed and written back. A byte counts once; on the bus it travels twice.
 */
#include "update_kernels.h"

static enum toll_status prepare(struct toll_run *r) {
  struct bandwidth *b = r->state;
  if (bandwidth_prepare(r, KERNELS(update_kernels), 1) != TOLL_OK) return toll_refused(r);
  b->span.target = bandwidth_buffer(r, b->span.bytes, 0);
  if (!b->span.target) return toll_refused(r);
  kernel_try(r, KERNELS(update_kernels));
  span_mark(b->span.target, b->span.bytes);
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  const struct bandwidth *b = r->state;
  return update_check(r, b->kernel, &b->span);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  bandwidth_work(r, work, 2);
}

static const struct toll_parameter parameters[] = {
    BANDWIDTH_PARAMETERS("bytes that are updated again and again", update_kernel_names), {0}};
static const struct toll_metric metrics[] = {{.name = "update",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes read and written back a second, each counted once",
                                              .means = "update-bandwidth-of-size"},
                                             HUGE_SHARE_METRIC,
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many bytes a second can be read, changed and written back to their place?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct bandwidth),
    .prepare = prepare,
    .body = bandwidth_body,
    .check = check,
    .finish = bandwidth_finish,
    .work = work,
    .revision = 1,
};
