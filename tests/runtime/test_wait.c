/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "expect.h"
#include "wait.h"

TOLL_TEST_NAME("test.wait");

static _Atomic uint32_t word, heard;

static void *sleeper(void *nothing) {
  while (atomic_load(&word) == 0) toll_futex_wait(&word, 0);
  atomic_store(&heard, atomic_load(&word));
  return nothing;
}

static void expect_a_sleeper_wakes(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, sleeper, NULL) == 0);
  const uint64_t until = toll_moment_ns() + 20000000; /* by then it sleeps */
  while (toll_moment_ns() < until) toll_relax();
  EXPECT(atomic_load(&heard) == 0);
  atomic_store(&word, 5);
  toll_futex_wake(&word, 1);
  pthread_join(thread, NULL);
  EXPECT(atomic_load(&heard) == 5);
}

int main(void) {
  toll_futex_wait(&word, 1); /* it holds another value: or this test never ends */
  expect_a_sleeper_wakes();
  return failures;
}
