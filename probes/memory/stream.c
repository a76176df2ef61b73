/* SPDX-License-Identifier: Apache-2.0
 *
 * The four loops of STREAM (McCalpin, Memory bandwidth and machine balance in current high performance computers, 1995):
 * copy, scale, add and triad over vectors that no cache holds.
 */
#include "stream.h"

STREAM_WIDTHS(copy, a)
STREAM_WIDTHS_NT(copy, a)
STREAM_WIDTHS(scale, s *a)
STREAM_WIDTHS_NT(scale, s *a)
STREAM_WIDTHS(add, a + b)
STREAM_WIDTHS_NT(add, a + b)
STREAM_WIDTHS(triad, a + s * b)
STREAM_WIDTHS_NT(triad, a + s * b)

enum { COPY, SCALE, ADD, TRIAD };

static const struct stream_kernel kernels[] = {
    [COPY] = {"copy", 2, 1, STREAM_RUNS(copy), STREAM_RUNS_NT(copy)},
    [SCALE] = {"scale", 2, 1, STREAM_RUNS(scale), STREAM_RUNS_NT(scale)},
    [ADD] = {"add", 3, 1, STREAM_RUNS(add), STREAM_RUNS_NT(add)},
    [TRIAD] = {"triad", 3, 1, STREAM_RUNS(triad), STREAM_RUNS_NT(triad)},
};

static enum toll_status prepare(struct toll_run *r) {
  return stream_prepare(r, kernels);
}

static double expected(const struct stream *s, const struct thread *own, size_t i) {
  switch (s->kernel - kernels) {
    case COPY: return x_of(i);
    case SCALE: return last_scalar(own) * x_of(i);
    case ADD: return x_of(i) + y_of(i);
    default: return x_of(i) + last_scalar(own) * y_of(i);
  }
}

static enum toll_status check(struct toll_run *r) {
  return stream_check(r, expected);
}

static const struct toll_role roles[] = {STREAM_ROLE, {0}};
static const char *const names[] = {"copy", "scale", "add", "triad", NULL};
static const struct toll_parameter parameters[] = {STREAM_PARAMETERS(names), {0}};
static const struct toll_metric metrics[] = {{.name = "rate",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes a second as STREAM counts them, each vector once"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How many bytes a second do STREAM's four loops move through memory?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct stream),
    .prepare = prepare,
    .body = stream_body,
    .check = check,
    .work = stream_work,
    .roles = roles,
    .revision = 2,
};
