/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the bytes that probes/cpu/code.h writes for a chain of four jumps, one in each 32 bytes. What the header asks of
 * the runtime is answered here, since no visit is made.
 */
#include <stdio.h>

#include "cpu/code.h"

enum toll_status toll_skip(struct toll_run *r, const char *format, ...) {
  (void)r, (void)format;
  return TOLL_SKIPPED;
}
enum toll_status toll_fail(struct toll_run *r, const char *format, ...) {
  (void)r, (void)format;
  return TOLL_FAILED;
}
enum toll_status toll_wrong(struct toll_run *r, const char *format, ...) {
  (void)r, (void)format;
  return TOLL_WRONG;
}
enum toll_status toll_refused(const struct toll_run *r) {
  (void)r;
  return TOLL_FAILED;
}
enum toll_status toll_needs_memory(struct toll_run *r, uint64_t bytes) {
  (void)r, (void)bytes;
  return TOLL_OK;
}
size_t toll_page_bytes(void) {
  return 4096;
}
size_t toll_huge_page_bytes(void) {
  return 1 << 21;
}
size_t toll_line_bytes(void) {
  return 64;
}
struct toll_shuffle toll_chase_shuffle(const struct toll_run *r, size_t count, size_t stride) {
  (void)r, (void)stride;
  return (struct toll_shuffle){.count = count};
}
size_t toll_shuffle_at(const struct toll_shuffle *shuffle, uint64_t place) {
  return (size_t)(shuffle->count - 1 - place);
}

int main(void) {
  struct toll_run r = {0};
  struct code_chain chain = {0};
  if (code_write_chain(&r, &chain, 4, 32, true, false) != TOLL_OK) return 1;
  code_run(&chain.run, 3, NULL);
  if (code_check_chain(&r, &chain) != TOLL_OK) return 2;
  fwrite(chain.code.base, 1, 64 + 4 * 32, stdout);
  return 0;
}
