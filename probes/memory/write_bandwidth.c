/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast memory is written, by the size that is written again and again. Beyond a write-back cache a store that fills
 * no line at once makes the line travel in before it travels out: the bus bytes are twice the bytes stored.
 */
#include "write_kernels.h"

static enum toll_status prepare(struct toll_run *r) {
  struct bandwidth *b = r->state;
  if (bandwidth_prepare(r, KERNELS(write_kernels), 1) != TOLL_OK) return toll_refused(r);
  b->span.target = bandwidth_buffer(r, b->span.bytes, 0);
  if (!b->span.target) return toll_refused(r);
  kernel_try(r, KERNELS(write_kernels));
  span_mark(b->span.target, b->span.bytes);
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  const struct bandwidth *b = r->state;
  if (write_check(r, b->kernel, &b->span) != TOLL_OK) return toll_refused(r);
  /* All zeroing passes leave equal content, so new content is written before the next ones. */
  if (kernel_zeroes(b->kernel)) span_mark(b->span.target, b->span.bytes);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  bandwidth_work(r, work, ((const struct bandwidth *)r->state)->kernel->no_allocate ? 1 : 2);
}

static const struct toll_parameter parameters[] = {
    BANDWIDTH_PARAMETERS("bytes that are written again and again", write_kernel_names), {0}};
static const struct toll_metric metrics[] = {{.name = "write",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes stored a second",
                                              .means = "write-bandwidth-of-size"},
                                             HUGE_SHARE_METRIC,
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many bytes a second can be written, by the size of the memory and the loop that writes?",
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
