/* SPDX-License-Identifier: Apache-2.0
 *
 * The Internet checksum (RFC 1071) of a payload that starts at any address, alone and on the way of a copy.
 *
 * It is a sum of 16-bit words with end-around carry, so it may be computed in any width and order, and a sum from an
 * odd address is right after its two bytes are exchanged. The cost of each width at each offset decides how a stack
 * should add. The cost of reading cached bytes a second time decides whether to add while copying or afterwards: the
 * fused routine loads each payload once, and the others twice.
 */
#include "sums.h"

enum { POISON = 0xdb, MOST_BYTES = 65535 };

struct payload {
  size_t bytes;
  unsigned char *data, *target;
  uint16_t expected, sum;
};

TOLL_NOINLINE static uint16_t copy_then_sum(void *target, const unsigned char *data, size_t bytes) {
  copy_unaligned_words(target, data, bytes);
  return sum_words(NULL, data, bytes);
}

TOLL_NOINLINE static uint16_t copy_and_sum(void *target, const unsigned char *data, size_t bytes) {
  unsigned char *to = target;
  uint64_t sum = 0;
  for (; bytes >= sizeof(uint32_t); bytes -= sizeof(uint32_t), data += sizeof(uint32_t), to += sizeof(uint32_t)) {
    uint32_t word = ((const copy_packed32 *)data)->word;
    TOLL_OPAQUE(word);
    ((copy_packed32 *)to)->word = word;
    sum += word;
  }
  copy_byte_loop(to, data, bytes);
  return fold(sum + sum_pairs(data, bytes));
}

static checksum_routine *const routines[] = {sum_bytes, sum_halfwords, sum_words, copy_then_sum, copy_and_sum};
static const char *const names[] = {"bytes", "halfwords", "words", "copy_then_sum", "copy_and_sum", NULL};
enum { FIRST_THAT_COPIES = 3 };

/* The sum as RFC 1071 defines it. */
static uint16_t defined_sum(const unsigned char *data, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i++) {
    sum += (uint32_t)(i & 1 ? pair(0, data[i]) : pair(data[i], 0));
    sum = (sum & UINT16_MAX) + (sum >> 16);
  }
  return (uint16_t)sum;
}

static enum toll_status prepare(struct toll_run *r) {
  struct payload *payload = r->state;
  const size_t offset = (size_t)toll_number(r, "offset");
  uint64_t random = r->seed;
  payload->bytes = (size_t)toll_number(r, "bytes");
  if (payload->bytes > MOST_BYTES) return toll_skip(r, "no datagram has more than %d bytes", MOST_BYTES);
  unsigned char *from = toll_buffer(r, (struct toll_buffer_request){.bytes = payload->bytes + offset});
  payload->target = toll_buffer(r, (struct toll_buffer_request){.bytes = payload->bytes, .colour = 5});
  if (!from || !payload->target) return toll_refused(r);
  payload->data = from + offset;
  for (size_t i = 0; i < payload->bytes; i++) payload->data[i] = (unsigned char)toll_random(&random);
  payload->expected = defined_sum(payload->data, payload->bytes);
  return TOLL_OK;
}

static void add_up(struct toll_run *r) {
  struct payload *payload = r->state;
  checksum_routine *const routine = routines[toll_choice(r, "routine")];
  uint16_t sum = 0;
  for (uint64_t i = r->iterations; i; i--) sum = routine(payload->target, payload->data, payload->bytes);
  payload->sum = sum;
}

static enum toll_status check(struct toll_run *r) {
  struct payload *payload = r->state;
  const uint16_t sum = payload->sum;
  payload->sum = (uint16_t)~payload->expected;
  if (sum != payload->expected) return toll_wrong(r, "the sum is %#06x, not %#06x", sum, payload->expected);
  if (toll_choice(r, "routine") < FIRST_THAT_COPIES) return TOLL_OK;
  if (memcmp(payload->target, payload->data, payload->bytes) != 0)
    return toll_wrong(r, "the copy differs from its source");
  memset(payload->target, POISON, payload->bytes);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct payload *)r->state)->bytes;
}

static const uint64_t offsets[] = {0, 1, 2, 3, TOLL_END};
static const uint64_t lengths[] = {64, 576, 1500, 9000, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "routine",
     .kind = TOLL_CHOICE,
     .summary = "how the words are added, or copied and added",
     .choices = names},
    {.name = "offset",
     .kind = TOLL_COUNT,
     .summary = "bytes that the payload lies past an aligned address",
     .values = offsets,
     .typical = "2"},
    {.name = "bytes", .kind = TOLL_SIZE, .summary = "length of the payload", .values = lengths, .typical = "1500"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "rate",
                                              .unit = "B/s",
                                              .better = TOLL_MORE,
                                              .summary = "bytes added up a second, and copied where the routine copies",
                                              .means = "checksum-of-offset"},
                                             {.name = "checksum",
                                              .unit = "ns",
                                              .summary = "one payload",
                                              .toll = "checksum of 1500 misaligned bytes, {routine}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does the Internet checksum of a misaligned payload cost, alone and fused with its copy?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct payload),
    .prepare = prepare,
    .body = add_up,
    .check = check,
    .work = work,
    .revision = 1,
};
