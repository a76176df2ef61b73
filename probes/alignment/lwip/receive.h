/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of receive_path with lwIP: timed turns of bulk data, in which each byte is compared while the timer is
 * paused.
 */
#ifndef TOLL_ALIGNMENT_RECEIVE_H
#define TOLL_ALIGNMENT_RECEIVE_H

#include "routines.h"
#include "sums.h"
#include "transfer.h"

enum { WIPED = 0xdb };

struct receive {
  uint64_t turns, whole_turns;
};

static copy_routine *const copies[] = {copy_bytes,           copy_words_else_bytes, copy_halfwords, copy_shift_merge,
                                       copy_unaligned_words, copy_string,           copy_libc};
static checksum_routine *const sums[] = {sum_bytes, sum_halfwords, sum_words};

/* The way in which lwIP's code reads a header that is misaligned by two bytes. */
static void load_misaligned(void *slots) {
  TOLL_USE(*(volatile uint32_t *)((uintptr_t)slots + WIRE_SHIFT));
}

static enum toll_status prepare(struct toll_run *r) {
  enum { STRING = 5 };
  const unsigned copy = toll_choice(r, "copy");
  if (copy == STRING && !COPY_HAS_STRING) return toll_skip(r, "this architecture has no string instruction");
  receive_copy = copies[copy];
  receive_sum = sums[toll_choice(r, "checksum")];
  transfer.timed = (enum transfer_ends)toll_choice(r, "ends");
  transfer.source = toll_buffer(r, (struct toll_buffer_request){.bytes = RECORDS * SLOT_BYTES});
  transfer.target = toll_buffer(r, (struct toll_buffer_request){.bytes = RECORDS * SLOT_BYTES, .colour = 5});
  if (!transfer.source || !transfer.target) return toll_refused(r);
  if (RECEIVE_OVERLAYS) align_mend(true);
  if (RECEIVE_OVERLAYS && toll_guarded(load_misaligned, transfer.target))
    return toll_skip(r, "a load that is off by two ends the program here, and each header has some");
  uint64_t random = r->seed;
  for (size_t i = 0; i < RECORDS * SLOT_BYTES; i++) transfer.source[i] = (unsigned char)toll_random(&random);
  if (transfer_open((enum wire_fault)toll_choice(r, "fault"), RECEIVE_MOVES, r->seed)) return TOLL_OK;
  return toll_fail(r, "the two ends cannot be connected");
}

static bool all_bytes_came(void) {
  bool same = true;
  for (size_t i = 0; i < RECORDS; i++)
    same &= memcmp(transfer.target + i * SLOT_BYTES, transfer.source + i * SLOT_BYTES, TCP_MSS) == 0;
  memset(transfer.target, WIPED, RECORDS * SLOT_BYTES);
  return same;
}

static void transfer_records(struct toll_run *r) {
  struct receive *receive = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    const bool whole = transfer_turn();
    hand_over(NEITHER);
    receive->turns++;
    receive->whole_turns += whole && all_bytes_came();
    hand_over(transfer.timed);
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct receive *receive = r->state;
  if (receive->turns == receive->whole_turns) return TOLL_OK;
  return toll_wrong(r, "%llu of %llu turns did not come whole",
                    (unsigned long long)(receive->turns - receive->whole_turns), (unsigned long long)receive->turns);
}

/* Reset after each visit, like its counters. */
static void finish(struct toll_run *r) {
  struct receive *receive = r->state;
  toll_report(r, "spoilt", (double)wire.frames_spoilt / (double)wire.frames_sent);
  wire.frames_sent = wire.frames_spoilt = 0;
  *receive = (struct receive){0};
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->bytes = TURN_BYTES;
  work->operations = RECORDS;
}

#endif
