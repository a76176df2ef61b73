/* SPDX-License-Identifier: Apache-2.0
 *
 * ONC RPC (RFC 5531) by libtirpc, as Debian packages it: a question is a call of procedure 1 with one word, over TCP or
 * UDP, on the loopback or to another machine. Both ends are made of sockets that are there already, so that neither asks a port mapper nor reads the
 * system's list of networks.
 *
 * The archive refers to Kerberos, for which Debian has no archive: its functions are defined here and end the program,
 * since nothing here uses such credentials.
 */
#ifndef TOLL_KERNEL_LIBRARY_RPC_H
#define TOLL_KERNEL_LIBRARY_RPC_H

#include "connection.h"
#include "toll.h"

#ifdef TOLL_HAS_TIRPC
#include <poll.h>
#include <rpc/rpc.h>
#include <stdlib.h>

#define RPC_ABSENT(name) \
  void name(void);       \
  void name(void) {      \
    abort();             \
  }
RPC_ABSENT(gss_accept_sec_context)
RPC_ABSENT(gss_acquire_cred)
RPC_ABSENT(gss_delete_sec_context)
RPC_ABSENT(gss_display_name)
RPC_ABSENT(gss_display_status)
RPC_ABSENT(gss_duplicate_name)
RPC_ABSENT(gss_get_mic)
RPC_ABSENT(gss_import_name)
RPC_ABSENT(gss_init_sec_context)
RPC_ABSENT(gss_inquire_context)
RPC_ABSENT(gss_release_buffer)
RPC_ABSENT(gss_release_cred)
RPC_ABSENT(gss_release_name)
RPC_ABSENT(gss_unwrap)
RPC_ABSENT(gss_verify_mic)
RPC_ABSENT(gss_wrap)
RPC_ABSENT(gss_wrap_size_limit)
extern void *GSS_C_NT_HOSTBASED_SERVICE;
void *GSS_C_NT_HOSTBASED_SERVICE;

enum { RPC_KNOWN = true };
enum { RPC_PROGRAM = 0x20706f6c, RPC_EDITION = 1, RPC_ASK = 1, RPC_ROOM = 1024, RPC_PATIENCE_S = 10 };

static struct {
  CLIENT *client;
  uint32_t (*answer)(void *context, uint32_t question);
  void *context;
  uint64_t served;
} rpc;

static inline void rpc_serve_one(struct svc_req *request, SVCXPRT *transport) {
  uint32_t question = 0;
  if (request->rq_proc != RPC_ASK || !svc_getargs(transport, (xdrproc_t)xdr_uint32_t, (char *)&question)) return;
  uint32_t answer = rpc.answer(rpc.context, question);
  if (svc_sendreply(transport, (xdrproc_t)xdr_uint32_t, (char *)&answer)) rpc.served++;
}

/* file: bound, and listening where it is a stream. */
static inline bool rpc_open_server(int file, int type) {
  SVCXPRT *transport =
      type == SOCK_STREAM ? svc_vc_create(file, RPC_ROOM, RPC_ROOM) : svc_dg_create(file, RPC_ROOM, RPC_ROOM);
  return transport && svc_reg(transport, RPC_PROGRAM, RPC_EDITION, rpc_serve_one, NULL);
}

static inline bool rpc_open_client(int file, struct address *address, int type) {
  struct netbuf server = {.maxlen = address->length, .len = address->length, .buf = &address->place};
  if (type == SOCK_STREAM) send_at_once(file);
  rpc.client = type == SOCK_STREAM ? clnt_vc_create(file, &server, RPC_PROGRAM, RPC_EDITION, RPC_ROOM, RPC_ROOM)
                                   : clnt_dg_create(file, &server, RPC_PROGRAM, RPC_EDITION, RPC_ROOM, RPC_ROOM);
  return rpc.client != NULL;
}

static inline bool rpc_open(int type, uint32_t (*answer)(void *context, uint32_t question), void *context) {
  struct address address = inet_address(INADDR_LOOPBACK);
  rpc.answer = answer, rpc.context = context;
  const int server = socket_at(&address, type);
  if (server < 0 || !rpc_open_server(server, type)) return false;
  const int client = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  if (client < 0 || connect(client, &address.place.any, address.length) < 0) return false;
  return rpc_open_client(client, &address, type);
}

/* Serves requests until this number of questions is answered. */
static inline void rpc_serve(uint64_t questions) {
  for (const uint64_t last = rpc.served + questions; rpc.served < last;) {
    const int ready = poll(svc_pollfd, (nfds_t)svc_max_pollfd, -1);
    if (ready > 0) svc_getreq_poll(svc_pollfd, ready);
  }
}

/* Serves the questions of another machine until the process ends. */
static inline void rpc_serve_alone(int file, int type, uint32_t (*answer)(void *context, uint32_t question)) {
  rpc.answer = answer;
  if (rpc_open_server(file, type)) rpc_serve(UINT64_MAX);
}

/* False where no answer came. */
static inline bool rpc_ask(uint32_t question, uint32_t *answer) {
  const struct timeval patience = {.tv_sec = RPC_PATIENCE_S};
  return clnt_call(rpc.client, RPC_ASK, (xdrproc_t)xdr_uint32_t, (char *)&question, (xdrproc_t)xdr_uint32_t,
                   (char *)answer, patience) == RPC_SUCCESS;
}

#else
enum { RPC_KNOWN = false };
static inline bool rpc_open(int type, uint32_t (*answer)(void *context, uint32_t question), void *context) {
  (void)type, (void)answer, (void)context;
  return false;
}
static inline void rpc_serve(uint64_t questions) {
  (void)questions;
}
static inline bool rpc_open_client(int file, struct address *address, int type) {
  (void)file, (void)address, (void)type;
  return false;
}
static inline void rpc_serve_alone(int file, int type, uint32_t (*answer)(void *context, uint32_t question)) {
  (void)file, (void)type, (void)answer;
}
static inline bool rpc_ask(uint32_t question, uint32_t *answer) {
  (void)question, (void)answer;
  return false;
}
#endif

#endif
