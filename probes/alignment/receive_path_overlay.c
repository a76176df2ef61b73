/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP through lwIP whose headers lie over the frame as plain structures, off by two: depending on CPU and kernel, the
 * six accesses of a frame are free, slow, or trap.
 */
#define RECEIVE_OVERLAYS true
#define RECEIVE_HOW      "headers laid over the frame"
#include "receive_path.h"
