/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP through lwIP above a driver that moves each frame, so that its IP header is aligned: the `ipalign` of suite
 * rtems-2005.
 */
#define RECEIVE_MOVES true
#define RECEIVE_HOW   "frames moved by the driver"
#include "receive_path.h"
