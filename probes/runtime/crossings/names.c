/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of system calls by number: build/.../call_names.h has a line CALL(read) or CALL_32(read) for each that the
 * kernel's headers define, which the build makes of them.
 */
#include <stddef.h>
#include <sys/syscall.h>

#include "bill.h"
#include "call_names.h"

const char *call_name(unsigned number, bool is_32) {
  if (number >= CALLS_OF_ABI) return NULL;
  return is_32 ? names_32[number] : names[number];
}
