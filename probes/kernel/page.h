/* SPDX-License-Identifier: Apache-2.0
 *
 * One small page by HTTP, as it is served and as it is fetched: a request of one line, an answer with its length (RFC 9112).
 *
 * The client ends the connection as soon as it has the page, and resets it, so that neither side keeps anything of it.
 */
#ifndef TOLL_KERNEL_PAGE_H
#define TOLL_KERNEL_PAGE_H

#include <stdio.h>
#include <stdlib.h>

#include "connection.h"

enum { LARGEST_PAGE = 1 << 20, LONGEST_HEAD = 512 };

/* The same bytes in every process, so that the client knows the expected content. */
static inline char page_byte(size_t at) {
  return (char)('a' + at % 23);
}

static inline void page_fill(char *page, size_t bytes) {
  for (size_t at = 0; at < bytes; at++) page[at] = page_byte(at);
}

/* Reads up to the empty line after a head, and puts how much came beyond it into `more`. False where none comes. */
static inline bool read_head(int file, char *head, size_t *more) {
  size_t have = 0;
  while (have < LONGEST_HEAD - 1) {
    const ssize_t took = read(file, head + have, LONGEST_HEAD - 1 - have);
    if (took <= 0) return false;
    have += (size_t)took;
    head[have] = '\0';
    const char *end = strstr(head, "\r\n\r\n");
    if (!end) continue;
    *more = have - (size_t)(end + 4 - head);
    return true;
  }
  return false;
}

/* Answers one request for a page of so many bytes; page holds the largest there is. */
static inline bool page_serve(int file, const char *page) {
  char head[LONGEST_HEAD];
  size_t more = 0;
  if (!read_head(file, head, &more)) return false;
  const unsigned long bytes = strncmp(head, "GET /", 5) == 0 ? strtoul(head + 5, NULL, 10) : LARGEST_PAGE + 1;
  const bool known = bytes <= LARGEST_PAGE;
  const int length = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %lu\r\n\r\n",
                              known ? "200 OK" : "404 Not Found", known ? bytes : 0);
  return write_whole(file, head, (size_t)length) && write_whole(file, page, known ? bytes : 0);
}

/* Waits for the client to end the connection. */
static inline bool page_end(int file) {
  char nothing;
  while (read(file, &nothing, 1) > 0) continue;
  return close(file) == 0;
}

/* Fetches a page of so many bytes into room for as many and a head. False where it is not the one that was asked for; its
 * bytes are compared by page_is_right. */
static inline bool page_fetch(const struct address *server, char *page, size_t bytes) {
  char head[LONGEST_HEAD];
  size_t more = 0;
  const int length = snprintf(head, sizeof head, "GET /%lu HTTP/1.1\r\nHost: toll\r\n\r\n", (unsigned long)bytes);
  const int file = connect_to(server);
  if (file < 0) return false;
  send_at_once(file);
  bool came = write_whole(file, head, (size_t)length) && read_head(file, head, &more) && more <= bytes &&
              strncmp(head, "HTTP/1.1 200 ", 13) == 0;
  if (came) {
    memcpy(page, strstr(head, "\r\n\r\n") + 4, more);
    came = read_whole(file, page + more, bytes - more);
  }
  return reset(file) && came;
}

static inline bool page_is_right(const char *page, size_t bytes) {
  for (size_t at = 0; at < bytes; at++)
    if (page[at] != page_byte(at)) return false;
  return true;
}

#endif
