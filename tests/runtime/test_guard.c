/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>

#include "expect.h"

TOLL_TEST_NAME("test.guard");

static void store(void *place) {
  *(volatile char *)place = 1;
}
static void ask(void *signal_number) {
  raise(*(const int *)signal_number);
}

static void expect_what_stopped_it(void) {
  void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char open = 0;
  EXPECT(toll_guarded(store, closed) == SIGSEGV);
  EXPECT(toll_guarded(store, &open) == 0 && open == 1);
  for (int i = 0; i < 3; i++) EXPECT(toll_guarded(ask, &(int){SIGILL}) == SIGILL); /* nothing stays blocked */
  EXPECT(toll_guarded(ask, &(int){SIGBUS}) == SIGBUS);
}

static void on_own(int signal_number) {
  (void)signal_number;
}

static void expect_handlers_as_before(void) {
  struct sigaction own = {0}, after;
  own.sa_handler = on_own;
  sigaction(SIGILL, &own, NULL);
  toll_guarded(ask, &(int){SIGILL});
  sigaction(SIGILL, NULL, &after);
  EXPECT(after.sa_handler == on_own);
}

int main(void) {
  expect_what_stopped_it();
  expect_handlers_as_before();
  return failures;
}
