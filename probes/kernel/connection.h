/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions to listen, to connect, and to end connections without leaving a trace.
 *
 * The side that closes a TCP connection first keeps it for a minute (TIME_WAIT), and a visit would leave tens of thousands
 * of them, each found by the next connection. A connection that is reset at its close (SO_LINGER, 0 s) leaves nothing.
 */
#ifndef TOLL_KERNEL_CONNECTION_H
#define TOLL_KERNEL_CONNECTION_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "toll.h"

/* The largest backlog that the system allows, so that a client never waits for the server to accept. */
enum { WAITING_CONNECTIONS = 4096 };

struct address {
  union {
    struct sockaddr any;
    struct sockaddr_in inet;
    struct sockaddr_un unix_;
  } place;
  socklen_t length;
};

/* A port of the system's choice at this IPv4 address. */
static inline struct address inet_address(uint32_t host) {
  struct address address;
  memset(&address, 0, sizeof address);
  address.place.inet.sin_family = AF_INET;
  address.place.inet.sin_addr.s_addr = htonl(host);
  address.length = sizeof address.place.inet;
  return address;
}

/* A name of the system's choice that no file system has (unix(7), autobind). */
static inline struct address unix_address(void) {
  struct address address;
  memset(&address, 0, sizeof address);
  address.place.unix_.sun_family = AF_UNIX;
  address.length = sizeof(sa_family_t);
  return address;
}

/* A socket at the address, which is then the one that was chosen; -1 with errno. */
static inline int socket_at(struct address *address, int type) {
  const int file = socket(address->place.any.sa_family, type | SOCK_CLOEXEC, 0);
  if (file < 0 || bind(file, &address->place.any, address->length) < 0) return -1;
  if (type == SOCK_STREAM && listen(file, WAITING_CONNECTIONS) < 0) return -1;
  address->length = sizeof address->place;
  return getsockname(file, &address->place.any, &address->length) < 0 ? -1 : file;
}

/* Sends each segment at once: otherwise a small one would wait for the previous one's acknowledgement (Nagle). */
static inline void send_at_once(int file) {
  const int yes = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* SO_REUSEADDR, which lmbench's client sets: the port of a closed connection may be used again. */
static inline void reuse_ports(int file) {
  const int yes = 1;
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

/* A connection, or -1 with errno. */
static inline int connect_with(const struct address *address, void (*set_up)(int file)) {
  const int file = socket(address->place.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file >= 0 && set_up) set_up(file);
  if (file < 0 || connect(file, &address->place.any, address->length) == 0) return file;
  const int why = errno;
  close(file);
  errno = why;
  return -1;
}
static inline int connect_to(const struct address *address) {
  return connect_with(address, NULL);
}
static inline int connect_reusing(const struct address *address) {
  return connect_with(address, address->place.any.sa_family == AF_INET ? reuse_ports : NULL);
}

static inline bool reset(int file) {
  const struct linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(file, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  return close(file) == 0;
}

static inline bool write_whole(int file, const char *from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t wrote = write(file, from + done, bytes - done);
    if (wrote <= 0) return false;
    done += (size_t)wrote;
  }
  return true;
}

static inline bool read_whole(int file, char *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t took = read(file, to + done, bytes - done);
    if (took <= 0) return false;
    done += (size_t)took;
  }
  return true;
}

#endif
