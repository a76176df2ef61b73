/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP connection of lwIP with itself, over the wire, and bulk data through it: records of a full segment, each sent from
 * and received into an aligned place, as a program's own buffers are. The receiver copies each segment out of the frame by
 * the chosen routine, as a socket's read does; the sender lends its memory to the stack.
 *
 * Time in lwIP is what its timers count. Here it passes only while nothing moves: a lost frame is sent again without
 * waiting, and a transfer without loss has no timer in it at all.
 */
#ifndef TOLL_ALIGNMENT_TRANSFER_H
#define TOLL_ALIGNMENT_TRANSFER_H

#include <lwip/init.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcp.h>

#include "wire.h"

enum { RECORDS = 32, SLOT_BYTES = 1536, TURN_BYTES = RECORDS * TCP_MSS, PORT = 5001, MOST_TICKS = 4000 };

/* The end whose work is timed, and the end that is working. NEITHER: the probe itself. */
enum transfer_ends { BOTH_ENDS, SENDER, RECEIVER, NEITHER };

struct transfer {
  struct tcp_pcb *sender, *receiver;
  unsigned char *source, *target; /* RECORDS slots each */
  size_t sent, received;          /* bytes of this turn */
  bool broken, is_paused;
  enum transfer_ends timed;
};
static struct transfer transfer;

void (*receive_copy)(void *target, const void *source, size_t bytes);
uint16_t (*receive_sum)(void *target, const unsigned char *data, size_t bytes);

/* ---- what lwIP asks of its port ---- */

uint32_t receive_random(void) {
  return (uint32_t)toll_random(&wire.random);
}

uint32_t sys_now(void) {
  return tcp_ticks * TCP_SLOW_INTERVAL;
}

void tcp_timer_needed(void) {}

/* ---- the two programs ---- */

static unsigned char *slot(unsigned char *slots, size_t position) {
  return slots + position / TCP_MSS * SLOT_BYTES + position % TCP_MSS;
}

static size_t left_in_slot(size_t position) {
  return TCP_MSS - position % TCP_MSS;
}

static void send_more(void) {
  while (transfer.sent < TURN_BYTES) {
    const size_t bytes = left_in_slot(transfer.sent);
    if (tcp_sndbuf(transfer.sender) < bytes) break;
    if (tcp_write(transfer.sender, slot(transfer.source, transfer.sent), (u16_t)bytes, 0) != ERR_OK) break;
    transfer.sent += bytes;
  }
  tcp_output(transfer.sender);
}

static err_t on_received(void *context, struct tcp_pcb *pcb, struct pbuf *packet, err_t error) {
  (void)context;
  if (!packet || error != ERR_OK || transfer.received + packet->tot_len > TURN_BYTES) {
    transfer.broken = true;
    return ERR_OK;
  }
  for (size_t done = 0, bytes; done < packet->tot_len; done += bytes, transfer.received += bytes) {
    bytes = LWIP_MIN(packet->tot_len - done, left_in_slot(transfer.received));
    pbuf_copy_partial(packet, slot(transfer.target, transfer.received), (u16_t)bytes, (u16_t)done);
  }
  tcp_recved(pcb, packet->tot_len);
  pbuf_free(packet);
  return ERR_OK;
}

static void on_broken(void *context, err_t error) {
  (void)context, (void)error;
  transfer.broken = true;
}

static err_t on_accepted(void *context, struct tcp_pcb *pcb, err_t error) {
  (void)context, (void)error;
  transfer.receiver = pcb;
  tcp_recv(pcb, on_received);
  tcp_err(pcb, on_broken);
  tcp_nagle_disable(pcb);
  return ERR_OK;
}

static err_t on_connected(void *context, struct tcp_pcb *pcb, err_t error) {
  (void)context, (void)pcb;
  return error;
}

/* ---- moving ---- */

/* The timer runs while a timed end is working. Between two calls a window of frames passes, so that reading the
 * clock takes less than 1 % of the time. */
static void hand_over(enum transfer_ends end) {
  const bool is_timed = end == transfer.timed || (transfer.timed == BOTH_ENDS && end != NEITHER);
  if (is_timed != transfer.is_paused) return;
  transfer.is_paused = !is_timed;
  if (is_timed)
    toll_timer_resume();
  else
    toll_timer_pause();
}

/* Delivers frames both ways; if there are none, advances TCP's clock by a tick. False if the connection is broken. */
static bool transfer_step(unsigned *ticks) {
  hand_over(RECEIVER);
  const bool there = wire_deliver(&wire.ends[1]);
  hand_over(SENDER);
  const bool back = wire_deliver(&wire.ends[0]);
  if (!there && !back) {
    tcp_tmr();
    ++*ticks;
  }
  return !transfer.broken && *ticks < MOST_TICKS;
}

/* Whether all data of a turn have arrived and were acknowledged. */
static bool transfer_is_whole(void) {
  return transfer.received == TURN_BYTES && !transfer.sender->unacked && !transfer.sender->unsent;
}

static bool transfer_turn(void) {
  unsigned ticks = 0;
  transfer.sent = transfer.received = 0;
  hand_over(SENDER);
  do send_more();
  while (!transfer_is_whole() && transfer_step(&ticks));
  return transfer_is_whole();
}

/* ---- opening ---- */

static bool transfer_connect(void) {
  unsigned ticks = 0;
  struct tcp_pcb *listener = tcp_new();
  transfer.sender = tcp_new();
  if (!listener || !transfer.sender) return false;
  tcp_bind_netif(listener, &wire.ends[1].netif);
  tcp_bind_netif(transfer.sender, &wire.ends[0].netif);
  tcp_bind(listener, netif_ip_addr4(&wire.ends[1].netif), PORT);
  tcp_bind(transfer.sender, netif_ip_addr4(&wire.ends[0].netif), 0);
  tcp_accept(tcp_listen(listener), on_accepted);
  tcp_err(transfer.sender, on_broken);
  tcp_nagle_disable(transfer.sender);
  tcp_connect(transfer.sender, netif_ip_addr4(&wire.ends[1].netif), PORT, on_connected);
  while (!transfer.receiver && transfer_step(&ticks)) continue;
  hand_over(transfer.timed); /* a body begins with a timer that runs */
  return transfer.receiver != NULL;
}

/* False if the two ends cannot be connected. */
static bool transfer_open(enum wire_fault fault, bool moves, uint64_t seed) {
  lwip_init();
  wire_lay(fault, moves, seed);
  return transfer_connect();
}

#endif
