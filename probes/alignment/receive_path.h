/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP bulk data through lwIP, received after Ethernet headers of 14 bytes: the loss of a whole stack by this, and the
 * functions that cause it. header.c and copy.c measure the parts. Each way to read the header is an executable of its
 * own, made by the file that includes this one and defines RECEIVE_HOW; copy routine and checksum are its parameters.
 *
 * Sender and receiver share one CPU and never wait: the machine is saturated, its idle share is 0, and payload over time is
 * over the time of both, or of the one end that is timed: the timer stands still while the other works. All bytes are
 * compared with what was sent, while the timer is paused, and wiped for the next turn.
 */
#ifndef TOLL_ALIGNMENT_RECEIVE_PATH_H
#define TOLL_ALIGNMENT_RECEIVE_PATH_H

#include "mend.h"
#include "toll.h"

#ifndef RECEIVE_MOVES
#define RECEIVE_MOVES false
#endif
#ifndef RECEIVE_OVERLAYS
#define RECEIVE_OVERLAYS false
#endif

#ifdef RECEIVE_HAS_LWIP
#include "receive.h"
#else
struct receive {
  uint64_t turns;
};

static enum toll_status prepare(struct toll_run *r) {
  return toll_skip(r,
                   "built without lwIP, whose source is not here: ./toll run fetches it, LWIP_SOURCE=DIR takes "
                   "one's own");
}

static void transfer_records(struct toll_run *r) {
  (void)r;
}

static enum toll_status check(struct toll_run *r) {
  return prepare(r);
}
#endif

static const char *const copy_names[] = {"bytes",           "words_else_bytes", "halfwords", "shift_merge",
                                         "unaligned_words", "string",           "libc",      NULL};
static const char *const sum_names[] = {"bytes", "halfwords", "words", NULL};
static const char *const faults[] = {"none", "drop", "corrupt", "reorder", "short", "lying", NULL};
static const char *const end_names[] = {"both", "sender", "receiver", NULL}; /* as enum transfer_ends */
static const struct toll_parameter parameters[] = {{.name = "copy",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "how the stack moves bytes",
                                                    .choices = copy_names,
                                                    .typical = "words_else_bytes"},
                                                   {.name = "checksum",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "how the stack computes checksums",
                                                    .choices = sum_names,
                                                    .typical = "halfwords"},
                                                   {.name = "fault",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "what happens to one frame of a hundred on the wire",
                                                    .choices = faults,
                                                    .typical = "none"},
                                                   {.name = "ends",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "end whose work is timed",
                                                    .choices = end_names,
                                                    .typical = "both"},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "throughput",
     .unit = "bit/s",
     .better = TOLL_MORE,
     .summary = "bytes of payload per second of CPU time of both ends, or of one"},
    {.name = "frames", .unit = "op/s", .better = TOLL_MORE, .summary = "frames with data a second"},
    {.name = "frame",
     .unit = "ns",
     .summary = "one frame with 1460 bytes of data, in the ends that are timed",
     .toll = "receive a frame by TCP, " RECEIVE_HOW ", {copy}"},
    {.name = "spoilt", .unit = "ratio", .summary = "share of all frames that the wire damaged", .source = TOLL_GAUGE},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast does TCP receive after a 14-byte Ethernet header, " RECEIVE_HOW "?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct receive),
    .prepare = prepare,
    .body = transfer_records,
    .check = check,
    .library = "lwip",
#ifdef RECEIVE_HAS_LWIP
    .finish = finish,
    .work = work,
#endif
    .pauses = true,
    .revision = 1,
};

#endif
