/* SPDX-License-Identifier: Apache-2.0
 *
 * Two network namespaces of this process, connected by a pair of virtual Ethernet interfaces, which replace a card for
 * the kernel's TCP. They end with the process. They require root, or a user that may create user namespaces.
 */
#ifndef TOLL_ALIGNMENT_VETH_H
#define TOLL_ALIGNMENT_VETH_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "toll.h"

static const char *const veth_names[2] = {"toll0", "toll1"};
static const char *const veth_addresses[2] = {"10.9.0.1", "10.9.0.2"};

struct veth {
  int spaces[2];     /* descriptors of the namespaces */
  const char *place; /* step in which the system refused something */
};

/* ---- netlink ---- */

struct veth_message {
  struct nlmsghdr head;
  struct ifinfomsg link;
  char room[512];
};

static struct rtattr *veth_open(struct veth_message *message, unsigned short kind) {
  struct rtattr *attribute = (struct rtattr *)((char *)message + NLMSG_ALIGN(message->head.nlmsg_len));
  attribute->rta_type = kind;
  message->head.nlmsg_len = NLMSG_ALIGN(message->head.nlmsg_len) + (unsigned)RTA_LENGTH(0);
  return attribute;
}

static void veth_close(const struct veth_message *message, struct rtattr *attribute) {
  attribute->rta_len = (unsigned short)((const char *)message + message->head.nlmsg_len - (char *)attribute);
}

static void veth_put(struct veth_message *message, unsigned short kind, const void *value, size_t bytes) {
  struct rtattr *attribute = veth_open(message, kind);
  memcpy(RTA_DATA(attribute), value, bytes);
  message->head.nlmsg_len += (unsigned)bytes;
  veth_close(message, attribute);
}

/* The pair: one end in this namespace, the other in that of a descriptor. */
static void veth_describe(struct veth_message *message, int other_space) {
  *message = (struct veth_message){.head = {.nlmsg_len = NLMSG_LENGTH(sizeof message->link),
                                            .nlmsg_type = RTM_NEWLINK,
                                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK}};
  veth_put(message, IFLA_IFNAME, veth_names[0], strlen(veth_names[0]) + 1);
  struct rtattr *info = veth_open(message, IFLA_LINKINFO);
  veth_put(message, IFLA_INFO_KIND, "veth", sizeof "veth");
  struct rtattr *data = veth_open(message, IFLA_INFO_DATA), *peer = veth_open(message, VETH_INFO_PEER);
  message->head.nlmsg_len += (unsigned)sizeof(struct ifinfomsg); /* all zero: nothing is asked of the peer's link */
  veth_put(message, IFLA_IFNAME, veth_names[1], strlen(veth_names[1]) + 1);
  veth_put(message, IFLA_NET_NS_FD, &other_space, sizeof other_space);
  veth_close(message, peer);
  veth_close(message, data);
  veth_close(message, info);
}

static bool veth_join(int other_space) {
  struct veth_message message;
  struct {
    struct nlmsghdr head;
    struct nlmsgerr error;
    char room[512];
  } answer;
  veth_describe(&message, other_space);
  const int wire = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (wire < 0) return false;
  const bool said = send(wire, &message, message.head.nlmsg_len, 0) > 0 && recv(wire, &answer, sizeof answer, 0) > 0;
  close(wire);
  if (said) errno = -answer.error.error;
  return said && answer.error.error == 0;
}

/* ---- interfaces ---- */

static bool veth_set(int wire, struct ifreq *asked, unsigned long request, const char *address) {
  struct sockaddr_in place = {.sin_family = AF_INET};
  inet_pton(AF_INET, address, &place.sin_addr);
  memcpy(&asked->ifr_addr, &place, sizeof place);
  return ioctl(wire, request, asked) == 0;
}

/* One end: address, length of frames, up. In its own namespace. */
static bool veth_raise(unsigned end, int mtu) {
  struct ifreq asked = {0};
  const int wire = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (wire < 0) return false;
  snprintf(asked.ifr_name, sizeof asked.ifr_name, "%s", veth_names[end]);
  bool done = veth_set(wire, &asked, SIOCSIFADDR, veth_addresses[end]) &&
              veth_set(wire, &asked, SIOCSIFNETMASK, "255.255.255.0");
  asked.ifr_mtu = mtu;
  done = done && ioctl(wire, SIOCSIFMTU, &asked) == 0;
  asked.ifr_flags = IFF_UP | IFF_RUNNING;
  done = done && ioctl(wire, SIOCSIFFLAGS, &asked) == 0;
  close(wire);
  return done;
}

/* Disables offloads: frames are segmented, checksummed and never merged, as for a card without offloads. */
static bool veth_drop_offloads(unsigned end) {
  static const uint32_t kinds[] = {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM, ETHTOOL_SRXCSUM};
  struct ifreq asked = {0};
  bool done = true;
  const int wire = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  snprintf(asked.ifr_name, sizeof asked.ifr_name, "%s", veth_names[end]);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    struct ethtool_value off = {.cmd = kinds[i]};
    asked.ifr_data = (char *)&off;
    done = (ioctl(wire, SIOCETHTOOL, &asked) == 0 || errno == EOPNOTSUPP) && done;
  }
  close(wire);
  return done;
}

/* ---- namespaces ---- */

static int veth_new_space(bool as_user) {
  if (unshare(CLONE_NEWNET | (as_user ? CLONE_NEWUSER : 0)) != 0) return -1;
  return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Creates the namespaces; this process is in the first one afterwards. False with errno; place then states what was
 * refused. */
static bool veth_make(struct veth *veth) {
  veth->place = "a network namespace";
  veth->spaces[0] = veth_new_space(false);
  if (veth->spaces[0] < 0) veth->spaces[0] = veth_new_space(true);
  if (veth->spaces[0] < 0) return false;
  veth->spaces[1] = veth_new_space(false);
  if (veth->spaces[1] < 0 || setns(veth->spaces[0], CLONE_NEWNET) != 0) return false;
  veth->place = "a pair of virtual Ethernet interfaces";
  return veth_join(veth->spaces[1]);
}

#endif
