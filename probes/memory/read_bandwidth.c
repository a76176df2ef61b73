/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast memory is read, by the size that is read again and again.
 */
#include "read_kernels.h"

static enum toll_status prepare(struct toll_run *r) {
  struct bandwidth *b = r->state;
  if (bandwidth_prepare(r, KERNELS(read_kernels), 1) != TOLL_OK) return toll_refused(r);
  b->source = bandwidth_buffer(r, b->span.bytes, 0);
  if (!b->source) return toll_refused(r);
  b->span.source = b->source;
  kernel_try(r, KERNELS(read_kernels));
  span_mark(b->source, b->span.bytes);
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  const struct bandwidth *b = r->state;
  return read_check(r, b->kernel, &b->span);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  bandwidth_work(r, work, 1);
}

static const struct toll_parameter parameters[] = {
    BANDWIDTH_PARAMETERS("bytes that are read again and again", read_kernel_names), {0}};
static const struct toll_metric metrics[] = {{.name = "read",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes loaded a second",
                                              .means = "read-bandwidth-of-size"},
                                             HUGE_SHARE_METRIC,
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many bytes a second can be read, by the size of the memory and the loop that reads?",
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
