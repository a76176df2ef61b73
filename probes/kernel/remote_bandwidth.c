/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes a second over TCP to another machine, by message size (lmbench: bw_tcp with a host's name). Each message is
 * acknowledged by a byte when all of it has been read there: what lies in a buffer of the kernel's is not yet delivered.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "asked.h"
#include "remote.h"
#include "toll.h"

struct remote {
  struct address address;
  int file;
  size_t bytes;
  char *message;
  uint64_t sent, acknowledged;
};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct remote *remote = r->state;
  if (asked(r, "message", &remote->bytes) != TOLL_OK) return TOLL_SKIPPED;
  if (!remote->bytes || remote->bytes > INT32_MAX) return toll_skip(r, "a message has 1 byte to 2 GiB");
  if (reach_service(r, TAKE_BYTES, &remote->address, &remote->file) != TOLL_OK) return toll_refused(r);
  remote->message = toll_buffer(r, (struct toll_buffer_request){.bytes = remote->bytes});
  return remote->message ? TOLL_OK : toll_refused(r);
}

static bool deliver(struct remote *remote) {
  const uint32_t bytes = htonl((uint32_t)remote->bytes);
  char all;
  return write_whole(remote->file, (const char *)&bytes, sizeof bytes) &&
         write_whole(remote->file, remote->message, remote->bytes) && read(remote->file, &all, 1) == 1;
}

static void send_messages(struct toll_run *r) {
  struct remote *remote = r->state;
  for (uint64_t i = r->iterations; i; i--) remote->acknowledged += deliver(remote);
  remote->sent += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct remote *remote = r->state;
  if (remote->acknowledged == remote->sent) return TOLL_OK;
  return toll_fail(r, "%llu of %llu messages arrived", (unsigned long long)remote->acknowledged,
                   (unsigned long long)remote->sent);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct remote *)r->state)->bytes;
}

static const uint64_t messages[] = {65536, 1 << 20, 10 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "message", .kind = TOLL_SIZE, .summary = "size of one message", .values = messages, .typical = "1048576"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "rate", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes delivered to another machine a second"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast do bytes go to another machine?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct remote),
    .prepare = prepare,
    .body = send_messages,
    .check = check,
    .work = work,
    .switches = true,
    .serves = true,
    .revision = 1,
};
