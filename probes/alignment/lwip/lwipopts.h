/* SPDX-License-Identifier: Apache-2.0
 *
 * How lwIP is built for receive_path: TCP over two Ethernet interfaces in one process, without an operating system.
 *
 * Its copies and checksums go through two pointers, so that one executable has every routine; how its headers are laid
 * over a frame is compiled in, and so is an executable of its own: RECEIVE_PACKED, RECEIVE_HALVES, RECEIVE_SHIFTED, or
 * none of them for plain structures.
 */
#ifndef TOLL_ALIGNMENT_LWIPOPTS_H
#define TOLL_ALIGNMENT_LWIPOPTS_H

#include <stddef.h>
#include <stdint.h>

extern void (*receive_copy)(void *target, const void *source, size_t bytes);
extern uint16_t (*receive_sum)(void *target, const unsigned char *data, size_t bytes);
uint32_t receive_random(void);

#define MEMCPY(target, source, bytes) receive_copy(target, source, bytes)
#define LWIP_CHKSUM(data, bytes)      receive_sum(NULL, data, bytes)
#define LWIP_RAND()                   receive_random()
#define LWIP_DONT_PROVIDE_BYTEORDER_FUNCTIONS
#define LWIP_NOASSERT
#define BYTE_ORDER    __BYTE_ORDER__
#define LITTLE_ENDIAN __ORDER_LITTLE_ENDIAN__
#define BIG_ENDIAN    __ORDER_BIG_ENDIAN__

/* After 14 bytes of Ethernet an IP header is aligned to two bytes: the compiler for a strict CPU then reads halves. */
#if defined(RECEIVE_PACKED)
#define PACK_STRUCT_STRUCT __attribute__((packed))
#elif defined(RECEIVE_HALVES)
#define PACK_STRUCT_STRUCT __attribute__((packed, aligned(2)))
#else
#define PACK_STRUCT_STRUCT
#endif
#ifdef RECEIVE_SHIFTED
#define ETH_PAD_SIZE 2
#endif

#define NO_SYS                    1
#define SYS_LIGHTWEIGHT_PROT      0
#define LWIP_TIMERS               0
#define LWIP_SOCKET               0
#define LWIP_NETCONN              0
#define LWIP_UDP                  0
#define LWIP_ICMP                 0
#define LWIP_STATS                0
#define IP_REASSEMBLY             0
#define IP_FRAG                   0
#define LWIP_SUPPORT_CUSTOM_PBUF  1
#define LWIP_SINGLE_NETIF         0
#define LWIP_NETIF_TX_SINGLE_PBUF 0
#define MEM_ALIGNMENT             __SIZEOF_POINTER__
#define MEM_SIZE                  65536

/* A window of eight full frames, which fit into the first cache with their data structures. */
#define TCP_MSS          1460
#define TCP_WND          (8 * TCP_MSS)
#define TCP_SND_BUF      (8 * TCP_MSS)
#define TCP_SND_QUEUELEN 32
#define MEMP_NUM_TCP_SEG 64
#define MEMP_NUM_PBUF    64
#define PBUF_POOL_SIZE   16

#endif
