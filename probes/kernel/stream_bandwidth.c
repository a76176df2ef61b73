/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes a second from one process to another: pipes, sockets and the loopback network, by message size.
 *
 * Small messages pay for entries and switches, large ones for two copies and for what the kernel's buffer between the two
 * holds: beyond that a writer has to sleep. vmsplice lends the writer's pages to the pipe in place of the first copy
 * (they must not be written to before they were read: they are not). TCP adds its segments, checksums and
 * acknowledgements to the same copies. On one CPU writer and reader take turns at every full buffer, on two they overlap.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "channel_file.h"
#include "other_end.h"
#include "toll.h"

enum route { PIPE, VMSPLICE, UNIX_STREAM, TCP };

struct stream {
  struct channel channel;
  unsigned other_end; /* index of the CPU */
  size_t bytes;
  char *message, *received;
  uint64_t torn, cut, arrived, sent;
};

static bool (*const openers[])(struct channel *channel) = {channel_open_pipes, channel_open_pipes,
                                                           channel_open_unix_stream, channel_open_tcp};
static const char *const routes[] = {"pipe", "vmsplice", "unix_stream", "tcp", NULL};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct stream *stream = r->state;
  const unsigned route = toll_choice(r, "route");
  uint64_t random = r->seed;
  if (find_other_end(r, &stream->other_end) != TOLL_OK) return TOLL_SKIPPED;
  stream->bytes = (size_t)toll_number(r, "message");
  if (!stream->bytes) return toll_skip(r, "a message of nothing is none");
  stream->message = toll_buffer(r, (struct toll_buffer_request){.bytes = stream->bytes, .shared = true});
  stream->received = toll_buffer(r, (struct toll_buffer_request){.bytes = stream->bytes, .shared = true, .colour = 3});
  if (!stream->message || !stream->received) return toll_refused(r);
  for (size_t i = 0; i < stream->bytes; i++) stream->message[i] = (char)toll_random(&random);
  if (openers[route](&stream->channel)) return TOLL_OK;
  return toll_skip(r, "the system gave no channel of kind %s: %s", routes[route], strerror(errno));
}

static ssize_t put_some(int file, char *from, size_t bytes, bool lend) {
  struct iovec piece = {from, bytes};
  return lend ? vmsplice(file, &piece, 1, 0) : write(file, from, bytes);
}

static void send_message(struct stream *stream, bool lend) {
  for (size_t done = 0; done < stream->bytes;) {
    const ssize_t put = put_some(stream->channel.end[ASKER].out, stream->message + done, stream->bytes - done, lend);
    if (put <= 0) {
      stream->cut++;
      return;
    }
    done += (size_t)put;
  }
}

/* Sends, and waits until all data have arrived: data in the kernel's buffer are not yet delivered. */
static void send_all(struct toll_run *r) {
  struct stream *stream = r->state;
  const bool lend = toll_choice(r, "route") == VMSPLICE;
  char done = 0;
  for (uint64_t i = r->iterations; i; i--) send_message(stream, lend);
  stream->sent += r->iterations;
  stream->cut += read(stream->channel.end[ASKER].in, &done, 1) != 1;
}

static bool take_message(struct stream *stream) {
  for (size_t done = 0; done < stream->bytes;) {
    const ssize_t took = read(stream->channel.end[OWNER].in, stream->received + done, stream->bytes - done);
    if (took <= 0) return false;
    done += (size_t)took;
  }
  return true;
}

static void take_all(struct toll_run *r) {
  struct stream *stream = r->state;
  const size_t last = stream->bytes - 1;
  for (uint64_t i = r->iterations; i; i--) {
    if (take_message(stream)) stream->arrived++;
    stream->torn += stream->received[0] != stream->message[0] || stream->received[last] != stream->message[last];
  }
  if (write(stream->channel.end[OWNER].out, "", 1) != 1) stream->torn++;
}

/* Checks that every message arrived, and compares the last one byte by byte. Then clears the buffer, so that the next
 * check cannot pass on old data. */
static enum toll_status check(struct toll_run *r) {
  struct stream *stream = r->state;
  if (stream->cut || stream->torn || stream->arrived != stream->sent)
    return toll_wrong(r, "%llu of %llu messages arrived whole", (unsigned long long)(stream->arrived - stream->torn),
                      (unsigned long long)stream->sent);
  if (memcmp(stream->message, stream->received, stream->bytes) != 0) return toll_wrong(r, "a message was changed");
  memset(stream->received, 0, stream->bytes);
  return TOLL_OK;
}

static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct stream *)r->state)->other_end;
}
static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct stream *)r->state)->bytes;
}

static const struct toll_role roles[] = {
    {.name = "reader", .body = take_all, .worker = TOLL_PROCESS, .pace = TOLL_LOCKSTEP, .cpu = place}, {0}};
static const uint64_t messages[] = {1024, 4096, 65536, 1 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "route", .kind = TOLL_CHOICE, .summary = "what the bytes go through", .choices = routes},
    {.name = "message", .kind = TOLL_SIZE, .summary = "size of one message", .values = messages, .typical = "65536"},
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "rate",
     .unit = "B/s",
     .better = TOLL_MORE,
     .summary = "bytes delivered a second",
     .means = "stream-bandwidth"},
    {.name = "message", .unit = "ns", .summary = "one message", .toll = "send 64 KiB by {route}, {placement}"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast do bytes go from one process to another?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct stream),
    .prepare = prepare,
    .body = send_all,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .revision = 1,
};
