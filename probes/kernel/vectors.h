/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests of "Speed limits", and the interface of a target with custom vectors.
 */
#ifndef TOLL_KERNEL_VECTORS_H
#define TOLL_KERNEL_VECTORS_H

#include "custom_vectors.h"
#include "toll.h"

enum vectors_test {
  VECTORS_LOOP,
  VECTORS_COMPARED,
  VECTORS_BEFORE_CHECKS,
  VECTORS_MODE_CHECKED,
  VECTORS_SVC,
  VECTORS_GATE,
  VECTORS_OBJECT_NEAR,
  VECTORS_OBJECT_FAR
};

/* The value of a register before a call, and after it if the custom handler ran. */
#define VECTORS_UNTOUCHED 0x7011

struct vectors {
  enum vectors_test test;
  bool kept;    /* the fault's address, in memory */
  bool control; /* the loop beside a test, and not the test */
  uint32_t answer;
  const char *failure; /* unexpected end of the last run; NULL: none */
};

/* The address to which a test stores, and the value of its magic-number register. */
struct vectors_way {
  uint32_t address, magic;
};

static inline struct vectors_way vectors_way(enum vectors_test test) {
  switch (test) {
    case VECTORS_BEFORE_CHECKS: return (struct vectors_way){VECTORS_RETURN, VECTORS_AT_ONCE};
    case VECTORS_MODE_CHECKED: return (struct vectors_way){VECTORS_RETURN, VECTORS_AFTER_MODE};
    case VECTORS_OBJECT_NEAR: return (struct vectors_way){VECTORS_SAME_MAP, 0};
    case VECTORS_OBJECT_FAR: return (struct vectors_way){VECTORS_OTHER_MAP, 0};
    default: return (struct vectors_way){VECTORS_RETURN, 0};
  }
}

/* Returns the value that a run leaves in the register of answers. */
static inline uint32_t vectors_expected(enum vectors_test test) {
  switch (test) {
    case VECTORS_SVC:
    case VECTORS_GATE: return VECTORS_UNTOUCHED;
    case VECTORS_OBJECT_NEAR: return VECTORS_CALLER_MAP << 1;
    case VECTORS_OBJECT_FAR: return VECTORS_OBJECT_MAP << 1;
    default: return 0;
  }
}

#endif
