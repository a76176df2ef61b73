/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a requested size to size_t, and refuses a size that the ABI cannot address: on 32 bit, 5 GiB would
 * silently become 1 GiB.
 */
#ifndef TOLL_ASKED_H
#define TOLL_ASKED_H

#include "toll.h"

/* At most a quarter of the address space, so that two such buffers and the rest of the program fit. */
static inline enum toll_status asked(struct toll_run *r, const char *parameter, size_t *value) {
  uint64_t number = toll_number(r, parameter);
  *value = 0;
  if (number > SIZE_MAX / 4)
    return toll_skip(r, "%s %llu exceeds what this ABI can address", parameter, (unsigned long long)number);
  *value = (size_t)number;
  return TOLL_OK;
}

#endif
