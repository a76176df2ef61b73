/* SPDX-License-Identifier: Apache-2.0
 *
 * The bandwidth of reading the memory of each node, by the node that asks, with the widest loop that the CPU runs.
 */
#include "numa.h"
#include "read_kernels.h"

static enum toll_status prepare(struct toll_run *r) {
  struct bandwidth *b = r->state;
  b->kernel = kernel_widest(read_kernels, sizeof read_kernels / sizeof read_kernels[0]);
  if (asked(r, "size", &b->span.bytes) != TOLL_OK) return toll_refused(r);
  b->span.bytes = whole_lines(b->span.bytes);
  if (!b->span.bytes) return toll_fail(r, "a size below 64 bytes holds no line");
  b->source = numa_memory(r, b->span.bytes);
  if (!b->source) return toll_refused(r);
  span_mark(b->source, b->span.bytes);
  b->span.source = b->source;
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  const struct bandwidth *b = r->state;
  return read_check(r, b->kernel, &b->span);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  bandwidth_work(r, work, 1);
}

static const struct toll_parameter parameters[] = {NUMA_PARAMETERS, {0}};
static const struct toll_metric metrics[] = {{.name = "read",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes loaded a second",
                                              .means = "bandwidth-of-node"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many bytes a second can be read from another memory node?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct bandwidth),
    .prepare = prepare,
    .body = bandwidth_body,
    .check = check,
    .work = work,
    .revision = 2,
};
