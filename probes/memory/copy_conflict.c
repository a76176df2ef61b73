/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss of a copy by conflicts between source and target. A core compares a load with the stores before it by their
 * low 12 address bits first: where the target lies a little past the source modulo 4 KiB, each load seems to read what
 * was just stored, and waits (Intel optimisation manual, 4 KiB aliasing). And where both lie alike in their page, their
 * lines meet in the same sets of the first cache. `offset` is how far the target lies past the source, modulo 4 KiB;
 * the control copies to a target half a page away.
 */
#include "copy_kernels.h"

#define ALIAS ((size_t)4096)

struct conflict {
  const struct kernel *kernel;
  struct span near, distant;
  char *source;
  uint32_t stamp, near_stamp, distant_stamp; /* the last that was given, and that of each target's last copy */
};

static enum toll_status prepare(struct toll_run *r) {
  struct conflict *c = r->state;
  size_t bytes, offset;
  if (asked(r, "size", &bytes) != TOLL_OK || asked(r, "offset", &offset) != TOLL_OK) return toll_refused(r);
  c->kernel = &copy_kernels[toll_choice(r, "kernel")];
  bytes = whole_lines(bytes / 2);
  if (!bytes) return toll_fail(r, "a size below 128 bytes holds no line");
  if (offset >= ALIAS || offset % 64) return toll_fail(r, "an offset is a multiple of 64 below %zu bytes", ALIAS);
  if (kernel_ready(r, c->kernel) != TOLL_OK) return toll_refused(r);
  c->source = large_buffer(r, bytes, 0);
  if (!c->source) return toll_refused(r);
  char *near = large_buffer(r, bytes + ALIAS, 0), *distant = near ? large_buffer(r, bytes + ALIAS, 0) : NULL;
  if (!distant) return toll_refused(r);
  span_mark(c->source, bytes);
  c->near = (struct span){.source = c->source, .target = near + offset, .bytes = bytes};
  c->distant = (struct span){.source = c->source, .target = distant + ALIAS / 2, .bytes = bytes};
  return TOLL_OK;
}

/* Returns the stamp that the copies of this batch carry. */
static uint32_t copy(struct toll_run *r, struct span *span) {
  struct conflict *c = r->state;
  copy_stamp(span, c->source, ++c->stamp);
  c->kernel->run(span, r->iterations);
  span->passes += r->iterations;
  return c->stamp;
}

static void copy_near(struct toll_run *r) {
  struct conflict *c = r->state;
  c->near_stamp = copy(r, &c->near);
}

static void copy_distant(struct toll_run *r) {
  struct conflict *c = r->state;
  c->distant_stamp = copy(r, &c->distant);
}

/* Batches of body and control alternate, and each writes a new stamp into the source, by which earlier copies of the
 * other are recognised. */
static enum toll_status check(struct toll_run *r) {
  struct conflict *c = r->state;
  copy_stamp(&c->near, c->source, c->near_stamp);
  if (copy_check(r, c->kernel, &c->near) != TOLL_OK) return toll_refused(r);
  copy_stamp(&c->distant, c->source, c->distant_stamp);
  return copy_check(r, c->kernel, &c->distant);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct conflict *c = r->state;
  work->bytes = (double)c->near.bytes * kernel_share(c->kernel);
  work->bus_bytes = (double)c->near.bytes * (c->kernel->no_allocate ? 2 : 3);
}

static const uint64_t offsets[] = {0, 64, 128, 256, 512, 1024, 3072, 3968, 4032, TOLL_END};
static const uint64_t sizes[] = {16384, 262144, 4194304, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "offset",
     .kind = TOLL_SIZE,
     .summary = "bytes from the source to the target, modulo 4 KiB",
     .values = offsets,
     .typical = "64"},
    {.name = "kernel", .kind = TOLL_CHOICE, .summary = "the loop", .choices = copy_kernel_names, .typical = "portable"},
    {.name = "size",
     .kind = TOLL_SIZE,
     .summary = "bytes of source and target together",
     .values = sizes,
     .typical = "16384"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "copy", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes copied a second, each counted once"},
    {.name = "distant",
     .unit = "B/s",
     .better = TOLL_MORE,
     .summary = "bytes copied a second, with the target half of 4 KiB away",
     .source = TOLL_CONTROL},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does a copy lose where its target lies just past its source, modulo 4 KiB?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct conflict),
    .prepare = prepare,
    .body = copy_near,
    .control = copy_distant,
    .check = check,
    .work = work,
    .revision = 1,
};
