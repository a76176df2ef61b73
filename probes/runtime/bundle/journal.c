/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal (docs/protocol.md): whole streams, appended as they come.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"

static int file = STDOUT_FILENO;

/* CRC-32 of IEEE 802.3, a bit at a time: a visit has some twenty kilobytes. */
static uint32_t crc32_of(const char *bytes, size_t count) {
  uint32_t crc = ~UINT32_C(0);
  for (; count; count--) {
    crc ^= (unsigned char)*bytes++;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ UINT32_C(0xedb88320) : crc >> 1;
  }
  return ~crc;
}

bool journal_open(const char *folder) {
  char path[1200];
  if (!folder) return true;
  snprintf(path, sizeof path, "%s/journal.jsonl", folder);
  file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  return file >= 0;
}

bool journal_write(const char *bytes, size_t count) {
  while (count) {
    const ssize_t wrote = write(file, bytes, count);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes += wrote;
    count -= (size_t)wrote;
  }
  return true;
}

size_t sealed(char *into, size_t room, const char *record, uint64_t number) {
  const int body = snprintf(into, room, "%s,\"n\":%llu", record, (unsigned long long)number);
  if (body < 0 || (size_t)body + 24 > room) return 0;
  const uint32_t crc = crc32_of(into, (size_t)body);
  return (size_t)body + (size_t)snprintf(into + body, room - (size_t)body, ",\"c\":\"%08x\"}\n", (unsigned)crc);
}

bool is_record(const char *line, size_t length, uint64_t *number) {
  enum { SEAL_BYTES = 16 }; /* ,"c":"xxxxxxxx"} */
  if (length < 30 || memcmp(line, "{\"k\":\"", 6) != 0) return false;
  const char *seal = line + length - SEAL_BYTES, *from;
  if (memcmp(seal, ",\"c\":\"", 6) != 0 || strtoul(seal + 6, NULL, 16) != crc32_of(line, length - SEAL_BYTES))
    return false;
  for (from = seal - 1; from > line && *from != ':'; from--) continue;
  *number = strtoull(from + 1, NULL, 10);
  return true;
}

/* reason: text without quotes or control characters. */
void journal_note(const char *status, double seconds, const char *reason, unsigned visits) {
  char record[400], quoted[260], lines[1000];
  if (reason)
    snprintf(quoted, sizeof quoted, "\"%.240s\"", reason);
  else
    snprintf(quoted, sizeof quoted, "null");
  snprintf(record, sizeof record,
           "{\"k\":\"run\",\"status\":\"%s\",\"seconds\":%.3f,\"reason\":%s,\"visits\":%u,\"surroundings\":null",
           status, seconds, quoted, visits);
  size_t used = sealed(lines, sizeof lines, record, 0);
  used += sealed(lines + used, sizeof lines - used, "{\"k\":\"end\",\"records\":1", 1);
  journal_write(lines, used);
}
