/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes resources that outlive the processes that created them, if all of these are killed: files with names, what
 * System V numbers.
 *
 * A keeper waits, in a session of its own that no signal to the visit's reaches, until no process of the visit is left that
 * holds the other end of a socket: the kernel closes what a killed process held.
 */
#ifndef TOLL_KERNEL_KEEPER_H
#define TOLL_KERNEL_KEEPER_H

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toll.h"

static struct {
  pid_t process, owner;
  int life; /* the end that the visit's processes hold */
} keeper;

static inline void keep(int life, void (*remove)(const void *what), const void *what) {
  char nothing;
  setsid();
  for (int file = 0; file < life; file++) close(file);
  if (write(life, "", 1) != 1) _exit(EXIT_FAILURE);
  while (read(life, &nothing, 1) < 0)
    if (errno != EINTR) break;
  remove(what);
  _exit(0);
}

/* For prepare, before the resource exists: it is described in memory that both processes share. False if no keeper can
 * be started. */
static inline bool keep_until_end(void (*remove)(const void *what), const void *what) {
  int life[2];
  char ready;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, life) < 0) return false;
  keeper.owner = getpid();
  keeper.life = life[1];
  keeper.process = fork();
  if (keeper.process == 0) {
    if (close(life[1]) < 0) _exit(EXIT_FAILURE); /* a keeper that held the owner's end of the pipe would wait forever */
    keep(life[0], remove, what);
  }
  if (close(life[0]) < 0 || keeper.process < 0) return false;
  return read(life[1], &ready, 1) == 1; /* until then a signal to the visit's would reach it */
}

/* A process that ends normally waits for it, so that nothing is left when the host reads the end record. */
__attribute__((destructor)) static void await_keeper(void) {
  if (keeper.process <= 0 || keeper.owner != getpid()) return;
  shutdown(keeper.life, SHUT_WR); /* companions of a wrong answer hold the end until this process ends */
  close(keeper.life);
  waitpid(keeper.process, NULL, 0);
}

#endif
