/* SPDX-License-Identifier: Apache-2.0
 *
 * The bulk data of receive_path through the kernel's TCP, as a reference: this stack copies with the machine's best
 * routine, and has no alternative builds. Over a pair of virtual Ethernet interfaces between two network namespaces, by
 * one thread: what it sends is received in the softirq after its own system call, on its own CPU, unless the kernel
 * hands it to a thread of its own. With offloads the pair passes on 64 KiB at a time and sums nothing: a wire does not.
 * So the settings that a card or an administrator would change are rows of their own.
 *
 * Sender and receiver never sleep while there is something to do: the CPU is saturated, and the rate is of both together.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "veth.h"

enum setting { USUAL, SMALL_RMEM, LARGE_RMEM, NO_OFFLOADS, SMALL_MTU, LARGE_MTU };
enum { TURN_BYTES = 32 * 1460, WIPED = 0xdb, PORT = 5001, WAIT_MS = 2000 };

struct kernel_path {
  struct veth veth;
  int sender, receiver;
  unsigned char *source, *target;
  uint64_t turns, whole_turns;
};

static bool write_text(const char *path, const char *text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  const bool done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
  if (file >= 0) close(file);
  return done;
}

/* tcp_rmem: the least, usual and largest receive buffer. It belongs to the namespace of the process that opens the file. */
static bool set_end(struct kernel_path *path, enum setting setting, unsigned end) {
  static const int mtus[] = {[SMALL_MTU] = 576, [LARGE_MTU] = 9000};
  const bool other_mtu = setting == SMALL_MTU || setting == LARGE_MTU;
  path->veth.place = "the setting";
  if (setns(path->veth.spaces[end], CLONE_NEWNET) != 0) return false;
  if (setting == SMALL_RMEM && !write_text("/proc/sys/net/ipv4/tcp_rmem", "4096 8192 8192")) return false;
  if (setting == LARGE_RMEM && !write_text("/proc/sys/net/ipv4/tcp_rmem", "4096 4194304 16777216")) return false;
  if (!veth_raise(end, other_mtu ? mtus[setting] : 1500)) return false;
  return setting != NO_OFFLOADS || veth_drop_offloads(end);
}

/* A socket belongs to the namespace in which it was made. */
static bool connect_ends(struct kernel_path *path) {
  struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  const int on = 1;
  path->veth.place = "a connection";
  inet_pton(AF_INET, veth_addresses[1], &there.sin_addr);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&there, sizeof there) != 0 || listen(listener, 1) != 0) return false;
  if (setns(path->veth.spaces[0], CLONE_NEWNET) != 0) return false;
  path->sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(path->sender, (struct sockaddr *)&there, sizeof there) != 0) return false;
  path->receiver = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  close(listener);
  return path->receiver >= 0 && setsockopt(path->sender, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

static enum toll_status prepare(struct toll_run *r) {
  struct kernel_path *path = r->state;
  const enum setting setting = (enum setting)toll_choice(r, "setting");
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  path->source = toll_buffer(r, (struct toll_buffer_request){.bytes = TURN_BYTES});
  path->target = toll_buffer(r, (struct toll_buffer_request){.bytes = TURN_BYTES, .colour = 5});
  if (!path->source || !path->target) return toll_refused(r);
  uint64_t random = r->seed;
  for (size_t i = 0; i < TURN_BYTES; i++) path->source[i] = (unsigned char)toll_random(&random);
  if (veth_make(&path->veth) && set_end(path, setting, 0) && set_end(path, setting, 1) && connect_ends(path))
    return TOLL_OK;
  return toll_skip(r, "%s is refused here: %s", path->veth.place, strerror(errno));
}

/* Sends as much as possible without sleeping, then receives what has arrived; sleeps only if neither made progress.
 * False if the connection is broken. */
static bool move(struct kernel_path *path, size_t *sent, size_t *received) {
  const ssize_t out =
      *sent == TURN_BYTES ? 0 : send(path->sender, path->source + *sent, TURN_BYTES - *sent, MSG_DONTWAIT);
  const ssize_t in = recv(path->receiver, path->target + *received, TURN_BYTES - *received, MSG_DONTWAIT);
  if (out > 0) *sent += (size_t)out;
  if (in > 0) *received += (size_t)in;
  struct pollfd come = {.fd = path->receiver, .events = POLLIN};
  return out > 0 || in > 0 || poll(&come, 1, WAIT_MS) > 0;
}

static void transfer_turns(struct toll_run *r) {
  struct kernel_path *path = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    size_t sent = 0, received = 0;
    while (received < TURN_BYTES && move(path, &sent, &received)) continue;
    toll_timer_pause();
    path->turns++;
    path->whole_turns += received == TURN_BYTES && memcmp(path->source, path->target, TURN_BYTES) == 0;
    memset(path->target, WIPED, TURN_BYTES);
    toll_timer_resume();
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct kernel_path *path = r->state;
  if (path->turns == path->whole_turns) return TOLL_OK;
  return toll_wrong(r, "%llu of %llu turns did not come whole", (unsigned long long)(path->turns - path->whole_turns),
                    (unsigned long long)path->turns);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->bytes = TURN_BYTES;
}

static const char *const settings[] = {"usual", "small_rmem", "large_rmem", "no_offloads", "mtu_576", "mtu_9000", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "setting",
     .kind = TOLL_CHOICE,
     .summary = "setting that differs from the kernel's default on both ends: tcp_rmem of 8 KiB or 16 MiB, offloads, "
                "length of frames",
     .choices = settings,
     .typical = "usual"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "throughput",
     .unit = "bit/s",
     .better = TOLL_MORE,
     .summary = "bytes of payload received a second by one CPU, which sends them too"},
    {.name = "turn",
     .unit = "ns",
     .summary = "46,720 bytes sent and received",
     .toll = "46,720 bytes by TCP, {setting}"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast is the kernel's own TCP between two namespaces, and what do its settings do to that?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct kernel_path),
    .prepare = prepare,
    .body = transfer_turns,
    .check = check,
    .work = work,
    .switches = true,
    .pauses = true,
    .revision = 1,
};
