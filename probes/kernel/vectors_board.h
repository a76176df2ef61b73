/* SPDX-License-Identifier: Apache-2.0
 *
 * Custom vectors on a bare ARM board, whose supervisor lends its vectors (probes/runtime/bare/limits).
 */
#ifndef TOLL_KERNEL_VECTORS_BOARD_H
#define TOLL_KERNEL_VECTORS_BOARD_H

#include "custom_vectors.h"
#include "vectors.h"

void board_turn(uint32_t turns);
uint32_t board_store(uint32_t turns, uint32_t address, uint32_t magic);
uint32_t board_call(uint32_t turns, uint32_t number, uint32_t first, uint32_t second);
extern const char board_object[];

static int32_t board_take(bool kept) {
  return (int32_t)board_call(1, VECTORS_CALL, kept, (uint32_t)(uintptr_t)board_object);
}

static void board_leave(void) {
  board_store(1, VECTORS_LEAVE, 0);
}

static enum toll_status vectors_open(struct toll_run *r, struct vectors *vectors) {
  if (vectors->test == VECTORS_GATE)
    return toll_skip(r, "ARM has one instruction that calls the kernel: see the test call");
  if (board_take(vectors->kept) != 0)
    return toll_skip(r, "this kernel's vectors are not ours: a bare board's are (--target bare:vexpress-a9)");
  board_leave();
  return TOLL_OK;
}

static bool vectors_run(struct vectors *vectors, uint64_t turns) {
  const struct vectors_way way = vectors_way(vectors->test);
  if (vectors->test == VECTORS_LOOP) {
    board_turn((uint32_t)turns);
    return true;
  }
  if (board_take(vectors->kept) != 0) return false;
  vectors->answer = vectors->test == VECTORS_SVC ? board_call((uint32_t)turns, 0, VECTORS_UNTOUCHED, 0)
                                                 : board_store((uint32_t)turns, way.address, way.magic);
  board_leave();
  return true;
}

/* There is no layer between a program and the board's supervisor. */
static double vectors_exits(void) {
  return 0;
}

#endif
