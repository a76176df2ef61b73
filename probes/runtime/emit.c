/* SPDX-License-Identifier: Apache-2.0
 *
 * Records (docs/protocol.md). A line is built, sealed with its checksum, and buffered. Nothing is written while a visit
 * measures unless the buffer is full, since a write may wake its reader on a measured CPU.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static struct {
  char line[TOLL_LONGEST_LINE];
  size_t used;
  bool separate; /* the next element needs a comma */
  bool overflow; /* the line did not fit: it is dropped, which leaves a gap in the sequence numbers */
  uint64_t records;
} open_line;

static struct {
  char lines[8 * TOLL_LONGEST_LINE];
  volatile size_t used; /* complete lines only: the deadline's handler may flush at any time */
} kept;

static uint32_t crc_of_byte(uint32_t byte) {
  for (int bit = 0; bit < 8; bit++) byte = byte & 1 ? byte >> 1 ^ UINT32_C(0xedb88320) : byte >> 1;
  return byte;
}

/* One byte at a time, with a table that is built on first use. */
uint32_t toll_crc32(uint32_t crc, const void *bytes, size_t count) {
  static uint32_t table[256];
  const unsigned char *byte = bytes;
  for (uint32_t i = 0; !table[255] && i < 256; i++) table[i] = crc_of_byte(i);
  crc = ~crc;
  while (count--) crc = table[(crc ^ *byte++) & 255] ^ (crc >> 8);
  return ~crc;
}

static void append(const char *text, size_t length) {
  const size_t seal = 48; /* room for the number, the checksum and the newline */
  if (open_line.used + length + seal > sizeof open_line.line) {
    open_line.overflow = true;
    return;
  }
  memcpy(open_line.line + open_line.used, text, length);
  open_line.used += length;
}

static void append_text(const char *text) {
  append(text, strlen(text));
}

/* The length of the UTF-8 sequence at `text`, or 0 where it is none (RFC 3629: no overlong forms, no surrogates). */
static size_t utf8_length(const unsigned char *text) {
  unsigned char c = text[0];
  size_t length = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
  for (size_t i = 1; i < length; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  bool overlong = (c == 0xe0 && text[1] < 0xa0) || (c == 0xf0 && text[1] < 0x90);
  bool outside = (c == 0xed && text[1] > 0x9f) || (c == 0xf4 && text[1] > 0x8f);
  return overlong || outside ? 0 : length;
}

/* A string from outside this program: a host name may contain any byte. */
static void append_quoted(const char *text) {
  append("\"", 1);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    char escape[8];
    size_t length = *c < 0x80 ? 1 : utf8_length(c);
    if (*c == '"' || *c == '\\') {
      append((char[]){'\\', (char)*c}, 2);
    } else if (*c < 0x20 || *c == 0x7f) {
      snprintf(escape, sizeof escape, "\\u%04x", *c);
      append(escape, 6);
    } else if (length == 0) {
      append("\\ufffd", 6);
    } else {
      append((const char *)c, length);
      c += length - 1;
    }
  }
  append("\"", 1);
}

/* Keys are constants of this program and need no escape. */
static void start_element(const char *key) {
  if (open_line.separate) append(",", 1);
  open_line.separate = true;
  if (!key) return;
  append("\"", 1);
  append_text(key);
  append("\":", 2);
}

/* A visit of 16 samples prints about 600 numbers, nearly all of them integers. snprintf took 75 us for them. */
static void append_digits(uint64_t value) {
  char digits[20], *const end = digits + sizeof digits, *first = end;
  do *--first = (char)('0' + value % 10);
  while ((value /= 10) > 0);
  append(first, (size_t)(end - first));
}

void toll_put_text(const char *key, const char *value) {
  if (!value) {
    toll_put_null(key);
    return;
  }
  start_element(key);
  append_quoted(value);
}

void toll_put_count(const char *key, uint64_t value) {
  start_element(key);
  append_digits(value);
}

void toll_put_integer(const char *key, int64_t value) {
  start_element(key);
  if (value < 0) append("-", 1);
  append_digits(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void toll_put_real(const char *key, double value) {
  const double most_digits = 1e12;
  char digits[32];
  if (!isfinite(value)) {
    toll_put_null(key);
    return;
  }
  if (value >= 0 && value < most_digits && value == (double)(uint64_t)value) {
    toll_put_count(key, (uint64_t)value);
    return;
  }
  snprintf(digits, sizeof digits, "%.12g", value);
  start_element(key);
  append_text(digits);
}

void toll_put_bool(const char *key, bool value) {
  start_element(key);
  append_text(value ? "true" : "false");
}

void toll_put_null(const char *key) {
  start_element(key);
  append_text("null");
}

void toll_put_open(const char *key, char bracket) {
  start_element(key);
  append(&bracket, 1);
  open_line.separate = false;
}

void toll_put_close(char bracket) {
  append(&bracket, 1);
  open_line.separate = true;
}

void toll_record_open(const char *kind) {
  open_line.used = 0;
  open_line.overflow = false;
  open_line.separate = false;
  append("{", 1);
  toll_put_text("k", kind);
}

void toll_record_close(void) {
  if (!open_line.overflow) {
    toll_put_count("n", open_line.records);
    uint32_t crc = toll_crc32(0, open_line.line, open_line.used);
    int seal = snprintf(open_line.line + open_line.used, sizeof open_line.line - open_line.used,
                        ",\"c\":\"%08" PRIx32 "\"}\n", crc);
    open_line.used += (size_t)seal;
    if (kept.used + open_line.used > sizeof kept.lines) toll_emit_flush();
    memcpy(kept.lines + kept.used, open_line.line, open_line.used);
    kept.used += open_line.used;
  }
  open_line.records++; /* a dropped line leaves a gap in the numbers, which the reader refuses */
}

/* Signals are blocked during a flush: a handler that flushes inside an interrupted write() could not know how much of
 * it was written. A handler that flushes waits for the reader in the same way. */
void toll_emit_flush(void) {
  size_t done = 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  while (done < kept.used) {
    ssize_t wrote = write(STDOUT_FILENO, kept.lines + done, kept.used - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) _exit(1); /* the reader has closed the pipe */
    done += (size_t)wrote;
  }
  kept.used = 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void toll_emit_end(bool stopped, bool stays, const double *served_share) {
  uint64_t before = open_line.records;
  toll_record_open("end");
  toll_put_count("records", before);
  if (stopped) toll_put_bool("stopped", true);
  if (stays) toll_put_bool("stays", true);
  if (served_share) toll_put_real("served", *served_share);
  toll_record_close();
  toll_emit_flush();
  open_line.records = 0;
}
