/* SPDX-License-Identifier: Apache-2.0
 *
 * The other end of a call between two machines: started there as this executable with TOLL_SERVE in its environment, it
 * says in one line at which ports it serves what, and ends when its standard input does, which is when the ssh that
 * started it ends, whatever that ended of. Of all services it has those that it is linked with: RPC is a library's.
 *
 * Each service is a process of its own that waits in the kernel for one peer at a time: a loop over all of them would add
 * its own poll to each answer.
 */
#ifndef TOLL_KERNEL_REMOTE_H
#define TOLL_KERNEL_REMOTE_H

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>

#include "library_rpc.h"
#include "page.h"

enum service { ECHO_TCP, ECHO_UDP, TAKE_CONNECTION, SERVE_PAGE, TAKE_BYTES, RPC_BY_TCP, RPC_BY_UDP, SERVICES };
enum { REMOTE_CHUNK = 1 << 16, REMOTE_PATIENCE_S = 5 };

/* ---- there ---- */

static inline void echo_until_end(int file) {
  uint32_t word;
  send_at_once(file);
  while (read_whole(file, (char *)&word, sizeof word) && write_whole(file, (const char *)&word, sizeof word)) continue;
  reset(file);
}

/* The number of bytes is sent first; one byte acknowledges that all have arrived. */
static inline void take_until_end(int file) {
  static char chunk[REMOTE_CHUNK];
  uint32_t left;
  while (read_whole(file, (char *)&left, sizeof left)) {
    for (left = ntohl(left); left;) {
      const ssize_t took = read(file, chunk, left < sizeof chunk ? left : sizeof chunk);
      if (took <= 0) break;
      left -= (uint32_t)took;
    }
    if (left || !write_whole(file, "", 1)) break;
  }
  reset(file);
}

static inline void serve_page_once(int file) {
  static char page[LARGEST_PAGE];
  if (!page[0]) page_fill(page, sizeof page);
  send_at_once(file);
  page_serve(file, page);
  page_end(file);
}

static inline void echo_datagrams(int file) {
  uint32_t word;
  struct sockaddr_storage from;
  for (;;) {
    socklen_t length = sizeof from;
    const ssize_t took = recvfrom(file, &word, sizeof word, 0, (struct sockaddr *)&from, &length);
    if (took == (ssize_t)sizeof word) sendto(file, &word, sizeof word, 0, (struct sockaddr *)&from, length);
  }
}

/* The answer by RPC to a question. */
static inline uint32_t rpc_answer(void *context, uint32_t question) {
  (void)context;
  return ~question;
}

static inline int type_of(enum service service) {
  return service == ECHO_UDP || service == RPC_BY_UDP ? SOCK_DGRAM : SOCK_STREAM;
}

static inline void serve_one(enum service service, int file) {
  switch (service) {
    case ECHO_TCP: echo_until_end(file); break;
    case TAKE_BYTES: take_until_end(file); break;
    case SERVE_PAGE: serve_page_once(file); break;
    default: reset(file);
  }
}

static inline void serve_for_ever(enum service service, int file) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGCHLD, SIG_IGN);
  if (service == ECHO_UDP) echo_datagrams(file);
  if (service >= RPC_BY_TCP) {
    rpc_serve_alone(file, type_of(service), rpc_answer);
    _exit(1);
  }
  for (;;) {
    const int taken = accept4(file, NULL, NULL, SOCK_CLOEXEC);
    const bool stays = service == ECHO_TCP || service == TAKE_BYTES;
    if (taken >= 0 && (!stays || fork() == 0)) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve_one(service, taken);
      if (stays) _exit(0);
    } else if (taken >= 0) {
      close(taken);
    }
  }
}

/* Its port, by a process that ends with this one; 0 where it is not linked in, -1 where none can be opened. */
static inline int start_service(enum service service) {
  struct address address = inet_address(INADDR_ANY);
  if (service >= RPC_BY_TCP && !RPC_KNOWN) return 0;
  const int file = socket_at(&address, type_of(service));
  const pid_t served = file < 0 ? -1 : fork();
  if (served == 0) serve_for_ever(service, file);
  if (file >= 0) close(file);
  return served < 0 ? -1 : ntohs(address.place.inet.sin_port);
}

__attribute__((constructor)) static void serve_another_machine(void) {
  char line[128] = "", nothing;
  if (!getenv("TOLL_SERVE")) return;
  for (enum service service = 0; service < SERVICES; service++) {
    const int port = start_service(service);
    if (port < 0) _exit(1);
    snprintf(line + strlen(line), sizeof line - strlen(line), ",%d", port);
  }
  dprintf(STDOUT_FILENO, "ports%s\n", line);
  while (read(STDIN_FILENO, &nothing, 1) > 0) continue;
  _exit(0);
}

/* ---- here ---- */

/* The address of the service; the peer is given as ADDRESS,PORT,... in the order of the services. */
static inline enum toll_status find_service(struct toll_run *r, enum service service, struct address *address) {
  const char *peer = toll_peer(r), *ports = strchr(peer, ',');
  char host[INET_ADDRSTRLEN] = "";
  if (!*peer) return toll_skip(r, "no other machine was given; name one that is reachable by ssh with --peer HOST");
  *address = inet_address(INADDR_ANY);
  if (ports && (size_t)(ports - peer) < sizeof host) memcpy(host, peer, (size_t)(ports - peer));
  for (unsigned i = 0; ports && i < service; i++) ports = strchr(ports + 1, ',');
  if (!ports || inet_pton(AF_INET, host, &address->place.inet.sin_addr) != 1)
    return toll_fail(r, "no peer has such an address: %s", peer);
  address->place.inet.sin_port = htons((uint16_t)strtoul(ports + 1, NULL, 10));
  if (!address->place.inet.sin_port) return toll_fail(r, "the other end was started without this service's library");
  return TOLL_OK;
}

/* Returns a connected socket whose timeouts are shorter than the visit's deadline. */
static inline int reach(const struct address *address, int type) {
  const struct timeval patience = {.tv_sec = REMOTE_PATIENCE_S};
  const int file = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(file, &address->place.any, address->length) < 0) return -1;
  if (type == SOCK_STREAM) send_at_once(file);
  return file;
}

/* For prepare: where the service is, and a socket that is connected to it. */
static inline enum toll_status reach_service(struct toll_run *r, enum service service, struct address *address,
                                             int *file) {
  if (find_service(r, service, address) != TOLL_OK) return toll_refused(r);
  *file = reach(address, type_of(service));
  if (*file >= 0) return TOLL_OK;
  return toll_skip(r, "the other machine can't be reached at %s: %s", toll_peer(r), strerror(errno));
}

#endif
