/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs code that may raise a signal, and returns the signal instead of ending the program.
 */
#include <setjmp.h>
#include <signal.h>

#include "toll.h"

static sigjmp_buf refused;

static void on_refusal(int signal_number) {
  siglongjmp(refused, signal_number);
}

/* A function of its own: siglongjmp() may clobber the local variables of the function that it returns to. */
static int signal_of(void (*act)(void *context), void *context) {
  const int signal_number = sigsetjmp(refused, 1);
  if (!signal_number) act(context);
  return signal_number;
}

int toll_guarded(void (*act)(void *context), void *context) {
  static const int signals[] = {SIGBUS, SIGILL, SIGSEGV};
  enum { COUNT = sizeof signals / sizeof signals[0] };
  struct sigaction action = {0}, before[COUNT];
  action.sa_handler = on_refusal;
  for (int i = 0; i < COUNT; i++) sigaction(signals[i], &action, &before[i]);
  const int signal_number = signal_of(act, context);
  for (int i = 0; i < COUNT; i++) sigaction(signals[i], &before[i], NULL);
  return signal_number;
}
