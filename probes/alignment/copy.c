/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy between misaligned addresses, by each of the routines that programs are built with.
 *
 * The routine matters more than the CPU: a library that copies bytes unless both ends are aligned is several times
 * slower at seven offsets of eight, although hardware with misaligned loads loses almost nothing there. The cliff is
 * the best offset's rate over the worst one's. The lengths are a TCP acknowledgement's, the least datagram that all
 * must take, a full Ethernet frame's and a jumbo frame's payload: what network code copies, and all of it inside the
 * first cache, so that the routine is measured and not the memory.
 */
#include "routines.h"

enum { GUARD = 16, POISON = 0xdb, STRING_ROUTINE = 5 };

struct copy {
  copy_routine *routine;
  size_t bytes;
  unsigned char *source, *target;
};

static copy_routine *const routines[] = {copy_bytes,           copy_words_else_bytes, copy_halfwords, copy_shift_merge,
                                         copy_unaligned_words, copy_string,           copy_libc};
static const char *const names[] = {"bytes",           "words_else_bytes", "halfwords", "shift_merge",
                                    "unaligned_words", "string",           "libc",      NULL};

/* A guard of poison on both sides of the target. The two areas differ in their low 12 address bits: with equal ones, each
 * load would wait for the store of the copy before, which only seems to be the same address. */
static enum toll_status prepare(struct toll_run *r) {
  struct copy *copy = r->state;
  const unsigned routine = toll_choice(r, "routine");
  if (routine == STRING_ROUTINE && !COPY_HAS_STRING) return toll_skip(r, "this architecture has no string instruction");
  const size_t source = (size_t)toll_number(r, "source"), target = (size_t)toll_number(r, "target");
  uint64_t random = r->seed;
  copy->routine = routines[routine];
  copy->bytes = (size_t)toll_number(r, "bytes");
  unsigned char *from = toll_buffer(r, (struct toll_buffer_request){.bytes = copy->bytes + source + GUARD});
  unsigned char *to =
      toll_buffer(r, (struct toll_buffer_request){.bytes = copy->bytes + target + 2 * GUARD, .colour = 5});
  if (!from || !to) return toll_refused(r);
  copy->source = from + source;
  copy->target = to + GUARD + target;
  for (size_t i = 0; i < copy->bytes; i++) copy->source[i] = (unsigned char)toll_random(&random);
  memset(copy->target - GUARD, POISON, copy->bytes + 2 * GUARD);
  return TOLL_OK;
}

static void copy_again(struct toll_run *r) {
  const struct copy *copy = r->state;
  copy_routine *const routine = copy->routine;
  for (uint64_t i = r->iterations; i; i--) routine(copy->target, copy->source, copy->bytes);
}

/* Checks that the target has exactly the source's bytes and its guards are intact; then poisons it again for the
 * next check. */
static enum toll_status check(struct toll_run *r) {
  const struct copy *copy = r->state;
  if (memcmp(copy->target, copy->source, copy->bytes) != 0) return toll_wrong(r, "the copy differs from its source");
  for (size_t i = 0; i < GUARD; i++)
    if (copy->target[copy->bytes + i] != POISON || copy->target[-1 - (ptrdiff_t)i] != POISON)
      return toll_wrong(r, "the copy wrote beside its target");
  memset(copy->target, POISON, copy->bytes);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct copy *)r->state)->bytes;
}

static const uint64_t offsets[] = {0, 1, 2, 3, 4, 5, 6, 7, TOLL_END};
static const uint64_t lengths[] = {64, 576, 1500, 9000, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "routine", .kind = TOLL_CHOICE, .summary = "how the bytes are moved", .choices = names},
    {.name = "source",
     .kind = TOLL_COUNT,
     .summary = "bytes that the source lies past an aligned address",
     .values = offsets,
     .typical = "2"},
    {.name = "target",
     .kind = TOLL_COUNT,
     .summary = "bytes that the target lies past an aligned address",
     .values = offsets,
     .typical = "0"},
    {.name = "bytes", .kind = TOLL_SIZE, .summary = "length of the copy", .values = lengths, .typical = "1500"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "rate", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes copied a second", .means = "copy-of-offset"},
    {.name = "copy", .unit = "ns", .summary = "one copy", .toll = "copy a misaligned 1500-byte frame, {routine}"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does a misaligned copy cost, by the routine that makes it?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct copy),
    .prepare = prepare,
    .body = copy_again,
    .check = check,
    .work = work,
    .revision = 1,
};
