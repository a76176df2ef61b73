/* SPDX-License-Identifier: Apache-2.0
 *
 * A size as the visit asks for it, in a type that an ABI's objects have: on 32 bit a size of 5 GiB would silently become
 * one of 1 GiB.
 */
#ifndef TOLL_ASKED_H
#define TOLL_ASKED_H

#include "toll.h"

/* A quarter of the addresses at most: two of these and what lies around them still fit. */
static inline enum toll_status asked(struct toll_run *r, const char *parameter, size_t *value) {
  uint64_t number = toll_number(r, parameter);
  *value = 0;
  if (number > SIZE_MAX / 4)
    return toll_skip(r, "%s %llu exceeds what this ABI can address", parameter, (unsigned long long)number);
  *value = (size_t)number;
  return TOLL_OK;
}

#endif
