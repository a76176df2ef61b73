/* SPDX-License-Identifier: Apache-2.0 */
#include "expect.h"

TOLL_TEST_NAME("test.random");

int main(void) {
  /* The published sequence of SplitMix64 for this seed. */
  static const uint64_t published[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                       UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                       UINT64_C(16408922859458223821)};
  uint64_t state = 1234567;
  for (size_t i = 0; i < 5; i++) EXPECT(toll_random(&state) == published[i]);

  unsigned seen[7] = {0};
  for (int i = 0; i < 7000; i++) {
    uint64_t value = toll_random_below(&state, 7);
    EXPECT(value < 7);
    seen[value % 7]++;
  }
  for (int i = 0; i < 7; i++) EXPECT(seen[i] > 800 && seen[i] < 1200);
  EXPECT(toll_random_below(&state, 1) == 0);
  return failures;
}
