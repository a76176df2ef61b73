/* SPDX-License-Identifier: Apache-2.0
 *
 * D-Bus by libdbus-1, as Debian packages it: a question is a method call with one word, to a server of our own at an
 * address without a name in the file system. No bus daemon is involved: it would forward every message and so double
 * the time.
 *
 * The archive refers to systemd's way of handing over sockets, of which Debian has no archive: there are none.
 */
#ifndef TOLL_KERNEL_LIBRARY_DBUS_H
#define TOLL_KERNEL_LIBRARY_DBUS_H

#include "toll.h"

#ifdef TOLL_HAS_DBUS
#include <dbus/dbus.h>
#include <poll.h>

int sd_listen_fds(int unset);
int sd_listen_fds(int unset) {
  (void)unset;
  return 0;
}
int sd_is_socket(int file, int family, int type, int listening);
int sd_is_socket(int file, int family, int type, int listening) {
  (void)file, (void)family, (void)type, (void)listening;
  return 0;
}

#define DBUS_OBJECT    "/object"
#define DBUS_INTERFACE "net.tollmeter.Object"
#define DBUS_METHOD    "IsString"
enum { DBUS_KNOWN = true };
enum { DBUS_PATIENCE_MS = 10000 };

static struct {
  DBusServer *server;
  DBusWatch *listening;
  DBusConnection *taken, *client;
  char *address;
  uint32_t (*answer)(void *context, uint32_t question);
  void *context;
  uint64_t served;
} dbus;

/* ---- the owner ---- */

static inline DBusHandlerResult dbus_serve_one(DBusConnection *connection, DBusMessage *message, void *nothing) {
  dbus_uint32_t question = 0;
  (void)nothing;
  if (!dbus_message_is_method_call(message, DBUS_INTERFACE, DBUS_METHOD)) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
  dbus_message_get_args(message, NULL, DBUS_TYPE_UINT32, &question, DBUS_TYPE_INVALID);
  dbus_uint32_t answer = dbus.answer(dbus.context, question);
  DBusMessage *reply = dbus_message_new_method_return(message);
  dbus_message_append_args(reply, DBUS_TYPE_UINT32, &answer, DBUS_TYPE_INVALID);
  if (dbus_connection_send(connection, reply, NULL)) dbus.served++;
  dbus_connection_flush(connection);
  dbus_message_unref(reply);
  return DBUS_HANDLER_RESULT_HANDLED;
}

static inline void dbus_take(DBusServer *server, DBusConnection *connection, void *nothing) {
  (void)server, (void)nothing;
  dbus.taken = dbus_connection_ref(connection);
  dbus_connection_add_filter(connection, dbus_serve_one, NULL, NULL);
}

static inline dbus_bool_t dbus_add_watch(DBusWatch *watch, void *nothing) {
  (void)nothing;
  dbus.listening = watch;
  return TRUE;
}
static inline void dbus_pass_watch(DBusWatch *watch, void *nothing) {
  (void)watch, (void)nothing;
}

static inline void dbus_accept(void) {
  struct pollfd waiting = {.fd = dbus_watch_get_unix_fd(dbus.listening), .events = POLLIN};
  if (poll(&waiting, 1, -1) == 1) dbus_watch_handle(dbus.listening, DBUS_WATCH_READABLE);
}

static inline void dbus_serve(uint64_t questions) {
  const uint64_t last = dbus.served + questions;
  while (!dbus.taken) dbus_accept();
  while (dbus.served < last && dbus_connection_read_write_dispatch(dbus.taken, -1)) continue;
}

/* ---- both ---- */

/* Before the owner is a process of its own. */
static inline bool dbus_open(uint32_t (*answer)(void *context, uint32_t question), void *context) {
  dbus.answer = answer, dbus.context = context;
  dbus.server = dbus_server_listen("unix:tmpdir=/tmp", NULL);
  if (!dbus.server) return false;
  dbus_server_set_new_connection_function(dbus.server, dbus_take, NULL, NULL);
  dbus.address = dbus_server_get_address(dbus.server);
  return dbus.address &&
         dbus_server_set_watch_functions(dbus.server, dbus_add_watch, dbus_pass_watch, dbus_pass_watch, NULL, NULL);
}

/* ---- the asker ---- */

static inline bool dbus_ask(uint32_t question, uint32_t *answer) {
  dbus_uint32_t word = question;
  if (!dbus.client) dbus.client = dbus_connection_open_private(dbus.address, NULL);
  if (!dbus.client) return false;
  DBusMessage *call = dbus_message_new_method_call(NULL, DBUS_OBJECT, DBUS_INTERFACE, DBUS_METHOD);
  dbus_message_append_args(call, DBUS_TYPE_UINT32, &word, DBUS_TYPE_INVALID);
  DBusMessage *reply = dbus_connection_send_with_reply_and_block(dbus.client, call, DBUS_PATIENCE_MS, NULL);
  dbus_message_unref(call);
  if (!reply) return false;
  const bool whole = dbus_message_get_args(reply, NULL, DBUS_TYPE_UINT32, &word, DBUS_TYPE_INVALID);
  dbus_message_unref(reply);
  *answer = word;
  return whole;
}

#else
enum { DBUS_KNOWN = false };
static inline bool dbus_open(uint32_t (*answer)(void *context, uint32_t question), void *context) {
  (void)answer, (void)context;
  return false;
}
static inline void dbus_serve(uint64_t questions) {
  (void)questions;
}
static inline bool dbus_ask(uint32_t question, uint32_t *answer) {
  (void)question, (void)answer;
  return false;
}
#endif

#endif
