/* SPDX-License-Identifier: Apache-2.0
 *
 * Two Ethernet interfaces joined by a wire in memory, and the driver of each: sending writes a frame to where the
 * other's card would, receiving hands that memory to the stack without a copy. Where in it the frame begins, and
 * whether the driver moves it, is what suite rtems-2005 is about. The work of the card (the copy onto the wire, by
 * libc, always aligned) is the same for all ways.
 *
 * The wire can lose, damage, reorder, shorten or falsify one frame in a hundred.
 */
#ifndef TOLL_ALIGNMENT_WIRE_H
#define TOLL_ALIGNMENT_WIRE_H

#include <lwip/etharp.h>
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/prot/ip4.h>
#include <netif/ethernet.h>

#include "lwipopts.h"
#include "toll.h"

enum wire_fault { WIRE_WHOLE, WIRE_DROP, WIRE_CORRUPT, WIRE_REORDER, WIRE_SHORT, WIRE_LYING };
enum { WIRE_FRAMES = 64, WIRE_ROOM = 1536, WIRE_FAULTY_ONE_OF = 100, WIRE_ETHERNET = 14, WIRE_SHIFT = 2 };

struct wire_frame {
  struct pbuf_custom pbuf;
  struct wire_frame *next; /* in its queue, or among the free ones */
  size_t bytes;
  unsigned char room[WIRE_ROOM] __attribute__((aligned(64)));
};
struct wire_end {
  struct netif netif;
  struct wire_frame *first, **last; /* frames that have come for this end */
  struct wire_end *other;
};
struct wire {
  struct wire_end ends[2];
  struct wire_frame frames[WIRE_FRAMES], *unused;
  enum wire_fault fault;
  bool moves; /* whether the driver moves each frame so that its IP header is aligned */
  uint64_t random, frames_sent, frames_spoilt;
};
static struct wire wire;

/* ---- frames ---- */

static void wire_free(struct pbuf *pbuf) {
  struct wire_frame *frame = (struct wire_frame *)pbuf;
  frame->next = wire.unused;
  wire.unused = frame;
}

static void wire_queue(struct wire_end *end, struct wire_frame *frame) {
  frame->next = NULL;
  *end->last = frame;
  end->last = &frame->next;
}

/* Inserts the frame before the last one in the queue, if there is one. */
static void wire_queue_before_last(struct wire_end *end, struct wire_frame *frame) {
  struct wire_frame **place = &end->first;
  if (!end->first) {
    wire_queue(end, frame);
    return;
  }
  while ((*place)->next) place = &(*place)->next;
  frame->next = *place;
  *place = frame;
}

/* ---- faults ---- */

static uint16_t *wire_ip_field(struct wire_frame *frame, size_t offset) {
  return (uint16_t *)(frame->room + ETH_PAD_SIZE + WIRE_ETHERNET + offset);
}

/* Replaces the length of the IP header, of the datagram or of the TCP header by a random one, and corrects the IP
 * checksum, so that later checks see the wrong length. */
static void wire_belie(struct wire_frame *frame) {
  enum { LENGTHS_AND_SERVICE = 0, TOTAL = 2, SUM = 10, TCP_LENGTHS = 32 };
  static const size_t fields[] = {LENGTHS_AND_SERVICE, TOTAL, TCP_LENGTHS};
  uint16_t *field = wire_ip_field(frame, fields[toll_random_below(&wire.random, 3)]);
  uint16_t *sum = wire_ip_field(frame, SUM);
  const uint16_t before = *field;
  *field = (uint16_t)toll_random(&wire.random);
  if (field == wire_ip_field(frame, TCP_LENGTHS)) return;
  uint32_t folded = (uint32_t)(uint16_t) ~*sum + (uint16_t)~before + *field; /* RFC 1624, equation 3 */
  folded = (folded & UINT16_MAX) + (folded >> 16);
  *sum = (uint16_t) ~((folded & UINT16_MAX) + (folded >> 16));
}

static void wire_spoil(struct wire_end *to, struct wire_frame *frame) {
  wire.frames_spoilt++;
  switch (wire.fault) {
    case WIRE_DROP: wire_free(&frame->pbuf.pbuf); return;
    case WIRE_REORDER: wire_queue_before_last(to, frame); return;
    case WIRE_CORRUPT:
      frame->room[ETH_PAD_SIZE + toll_random_below(&wire.random, frame->bytes - ETH_PAD_SIZE)] ^=
          (unsigned char)(1U << toll_random_below(&wire.random, 8));
      break;
    case WIRE_SHORT:
      frame->bytes = ETH_PAD_SIZE + 1 + toll_random_below(&wire.random, frame->bytes - ETH_PAD_SIZE - 1);
      break;
    default: wire_belie(frame);
  }
  wire_queue(to, frame);
}

/* ---- sending ---- */

/* The work of the card: copies the frame onto the wire. */
static err_t wire_send(struct netif *netif, struct pbuf *packet) {
  struct wire_end *to = ((struct wire_end *)netif)->other;
  struct wire_frame *frame = wire.unused;
  if (!frame || packet->tot_len > WIRE_ROOM - WIRE_SHIFT) return ERR_MEM;
  wire.unused = frame->next;
  wire.frames_sent++;
  frame->bytes = 0;
  for (const struct pbuf *part = packet; part; part = part->next) {
    memcpy(frame->room + frame->bytes, part->payload, part->len);
    frame->bytes += part->len;
  }
  if (wire.fault != WIRE_WHOLE && toll_random_below(&wire.random, WIRE_FAULTY_ONE_OF) == 0)
    wire_spoil(to, frame);
  else
    wire_queue(to, frame);
  return ERR_OK;
}

/* The neighbour's address is known: this wire has two ends. */
static err_t wire_output(struct netif *netif, struct pbuf *packet, const ip4_addr_t *to) {
  static const struct eth_addr addresses[2] = {{{2, 0, 0, 0, 0, 1}}, {{2, 0, 0, 0, 0, 2}}};
  const unsigned from = netif == &wire.ends[1].netif;
  (void)to;
  return ethernet_output(netif, packet, &addresses[from], &addresses[!from], ETHTYPE_IP);
}

/* ---- receiving ---- */

/* Moves the frame by two bytes, with aligned words from its end to its begin, like a driver whose card has no
 * setting for the position of a frame. */
TOLL_NOINLINE static void ipalign(unsigned char *frame, size_t bytes) {
  typedef uintptr_t __attribute__((may_alias)) word;
  enum { WORD = sizeof(word), MOVED = 8 * WIRE_SHIFT, KEPT = 8 * (WORD - WIRE_SHIFT) };
  word *const first = (word *)frame, *at = first + (bytes + WIRE_SHIFT - 1) / WORD;
  for (; at > first; at--) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word moved = at[0] << MOVED | at[-1] >> KEPT;
#else
    word moved = at[0] >> MOVED | at[-1] << KEPT;
#endif
    TOLL_OPAQUE(moved); /* one word at a time, as where there are no vectors */
    *at = moved;
  }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  *at <<= MOVED;
#else
  *at >>= MOVED;
#endif
}

static void wire_receive(struct wire_end *end, struct wire_frame *frame) {
  unsigned char *begin = frame->room;
  if (wire.moves) {
    ipalign(begin, frame->bytes);
    begin += WIRE_SHIFT;
  }
  frame->pbuf.custom_free_function = wire_free;
  struct pbuf *packet =
      pbuf_alloced_custom(PBUF_RAW, (u16_t)frame->bytes, PBUF_REF, &frame->pbuf, begin, (u16_t)frame->bytes);
  if (end->netif.input(packet, &end->netif) != ERR_OK) pbuf_free(packet);
}

/* Passes all frames that have arrived for one end to the stack. False if there was none. */
static bool wire_deliver(struct wire_end *end) {
  struct wire_frame *frame = end->first;
  end->first = NULL;
  end->last = &end->first;
  for (struct wire_frame *next, *one = frame; one; one = next) {
    next = one->next;
    wire_receive(end, one);
  }
  return frame != NULL;
}

/* ---- making it ---- */

static err_t wire_init(struct netif *netif) {
  netif->output = wire_output;
  netif->linkoutput = wire_send;
  netif->mtu = 1500;
  netif->hwaddr_len = ETH_HWADDR_LEN;
  netif->flags = NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
  return ERR_OK;
}

/* Each end has a network of its own, which distinguishes its packets from the other's. */
static void wire_lay(enum wire_fault fault, bool moves, uint64_t seed) {
  ip4_addr_t mask, none = {0};
  IP4_ADDR(&mask, 255, 255, 255, 0);
  wire.fault = fault, wire.moves = moves, wire.random = seed;
  for (size_t i = 0; i < WIRE_FRAMES; i++) wire_free(&wire.frames[i].pbuf.pbuf);
  for (unsigned i = 0; i < 2; i++) wire.ends[i].last = &wire.ends[i].first, wire.ends[i].other = &wire.ends[!i];
  for (unsigned i = 0; i < 2; i++) {
    struct wire_end *end = &wire.ends[i];
    ip4_addr_t address;
    IP4_ADDR(&address, 10, 0, i, 1);
    netif_add(&end->netif, &address, &mask, &none, NULL, wire_init, ethernet_input);
    netif_set_up(&end->netif);
  }
}

#endif
