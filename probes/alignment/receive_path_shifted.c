/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP through lwIP above a card that writes each frame two bytes further on, so that its IP header is aligned and nothing
 * is moved: lwIP's ETH_PAD_SIZE.
 */
#define RECEIVE_SHIFTED
#define RECEIVE_HOW "frames received two bytes later"
#include "receive_path.h"
