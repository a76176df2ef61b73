/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast memory is copied. The size is that of source and target together, since both must fit a cache for the copy
 * to stay in it; a byte copied counts once, though it is read and written, and fetched once more where the store
 * allocates. The target begins 9 lines further into its page than the source: at equal low 12 bits a load that follows
 * a store 4 KiB away waits for it on many cores (Intel optimisation manual, 4 KiB aliasing).
 */
#include "copy_kernels.h"

static enum toll_status prepare(struct toll_run *r) {
  struct bandwidth *b = r->state;
  if (bandwidth_prepare(r, KERNELS(copy_kernels), 2) != TOLL_OK) return toll_refused(r);
  b->source = bandwidth_buffer(r, b->span.bytes, 0);
  if (!b->source) return toll_refused(r);
  b->span.source = b->source;
  b->span.target = bandwidth_buffer(r, b->span.bytes, 1);
  if (!b->span.target) return toll_refused(r);
  kernel_try(r, KERNELS(copy_kernels));
  span_mark(b->source, b->span.bytes);
  return TOLL_OK;
}

/* Each batch copies new content: five words of the source contain the number of passes before it. */
static void copy(struct toll_run *r) {
  struct bandwidth *b = r->state;
  copy_stamp(&b->span, b->source, (uint32_t)b->span.passes + 1);
  bandwidth_body(r);
}

static enum toll_status check(struct toll_run *r) {
  const struct bandwidth *b = r->state;
  return copy_check(r, b->kernel, &b->span);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  bandwidth_work(r, work, ((const struct bandwidth *)r->state)->kernel->no_allocate ? 2 : 3);
}

static const char *const kernel_names[] = {COPY_KERNELS(KERNEL_NAME) "best", NULL};
static const struct toll_parameter parameters[] = {
    BANDWIDTH_PARAMETERS("bytes of source and target together", kernel_names), {0}};
static const struct toll_metric metrics[] = {{.name = "copy",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes copied a second, each counted once",
                                              .means = "copy-bandwidth-of-size"},
                                             HUGE_SHARE_METRIC,
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many bytes a second can be copied, by the size of both ends and the loop that copies?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct bandwidth),
    .prepare = prepare,
    .body = copy,
    .check = check,
    .finish = bandwidth_finish,
    .work = work,
    .revision = 1,
};
