/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP through unmodified lwIP: its headers are declared packed, so that the compiler chooses loads that cannot trap.
 */
#define RECEIVE_PACKED
#define RECEIVE_HOW "headers declared packed"
#include "receive_path.h"
