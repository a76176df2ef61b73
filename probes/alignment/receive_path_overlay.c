/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP through lwIP whose headers lie over the frame as plain structures, off by two: free, slow, or a trap for each of six
 * accesses a frame, as the CPU and its kernel like.
 */
#define RECEIVE_OVERLAYS true
#define RECEIVE_HOW      "headers laid over the frame"
#include "receive_path.h"
