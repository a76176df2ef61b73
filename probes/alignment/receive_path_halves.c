/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP through lwIP with each 32-bit field of a header read as two halves: the patched stack of suite rtems-2005.
 */
#define RECEIVE_HALVES
#define RECEIVE_HOW "headers read by halves"
#include "receive_path.h"
