/* SPDX-License-Identifier: Apache-2.0
 *
 * SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): eight bytes of state, and the
 * same sequence on every machine, so that a visit's random order can be made again from its seed.
 */
#include "toll.h"

uint64_t toll_random(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint64_t toll_random_below(uint64_t *state, uint64_t bound) {
  uint64_t reject_above = UINT64_MAX - UINT64_MAX % bound; /* so that no remainder is likelier than another */
  uint64_t value;
  do value = toll_random(state);
  while (value >= reject_above);
  return value % bound;
}
