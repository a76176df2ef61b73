/* SPDX-License-Identifier: Apache-2.0
 *
 * What the system accounts to a process: maps from a file made for it, and faults and memory of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"
#include "internal.h"

TOLL_TEST_NAME("test.account");

static const char maps[] =
    "00001000-00003000 r-xp 00000000 fe:00 77   /probe\n"
    "00003000-00004000 rw-p 00002000 fe:00 77   /probe\n"
    "00010000-00030000 rw-p 00000000 00:00 0    [heap]\n"
    "10000000-10400000 rw-p 00000000 00:00 0\n"
    "10400000-10500000 rw-p 00000000 00:00 0    [anon:arena]\n"
    "10500000-10600000 ---p 00000000 00:00 0\n"
    "10600000-10700000 rw-s 00000000 00:01 9    /dev/zero (deleted)\n"
    "20000000-20021000 rw-p 00000000 00:00 0    [stack]\n"
    "not a line of maps\n";

static void expect_maps_by_what_they_are(void) {
  char path[] = "/tmp/toll-maps-XXXXXX";
  double heap, mapped;
  int file = mkstemp(path);
  EXPECT(file >= 0 && write(file, maps, sizeof maps - 1) == (ssize_t)sizeof maps - 1);
  toll_account_maps(path, &heap, &mapped);
  EXPECT(heap == 0x20000);
  EXPECT(mapped == 0x500000); /* neither what is a file's or shared, nor what cannot be written, nor the stack */
  close(file);
  unlink(path);
  toll_account_maps(path, &heap, &mapped);
  EXPECT(heap == 0 && mapped == 0);
}

/* A page that is touched for the first time is a fault, and time passes with it. */
static void expect_faults_and_time(void) {
  enum { PAGES = 4096 };
  const size_t page = toll_page_bytes();
  char *touched = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(touched != MAP_FAILED && madvise(touched, PAGES * page, MADV_NOHUGEPAGE) == 0);
  const struct toll_account before = toll_account_read();
  const uint64_t before_ns = toll_account_cpu_ns();
  for (size_t i = 0; i < PAGES; i++) touched[i * page] = 1;
  const struct toll_account after = toll_account_read();
  EXPECT(after.minor_faults - before.minor_faults >= PAGES);
  EXPECT(after.minor_faults - before.minor_faults < 2 * PAGES);
  EXPECT(toll_account_cpu_ns() > before_ns);
}

int main(void) {
  expect_maps_by_what_they_are();
  expect_faults_and_time();
  return 0;
}
