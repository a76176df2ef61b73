/* SPDX-License-Identifier: Apache-2.0
 *
 * The pairs of CPUs of a matrix's visits, in the order of src/tollmeter/plan/placement.py: some of each relation in the
 * first round, then all in passes. Each pass has another order, so that the machine's state at a moment does not affect
 * the same pairs again.
 */
#include "bundle.h"

uint64_t mixed(uint64_t value) {
  value += UINT64_C(0x9e3779b97f4a7c15);
  value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
  return value ^ value >> 31;
}

unsigned pairs_of(const struct machine *machine) {
  return machine->allowed_count * (machine->allowed_count - 1) / 2;
}

static struct pair pair_of(const struct machine *machine, unsigned place) {
  unsigned one = 0, others = machine->allowed_count - 1;
  for (; place >= others; one++, others--) place -= others;
  return (struct pair){machine->allowed[one], machine->allowed[one + 1 + place]};
}

static unsigned common_divisor(unsigned one, unsigned other) {
  while (other) {
    const unsigned rest = one % other;
    one = other;
    other = rest;
  }
  return one;
}

/* The pair at a position of a pass: the step length and the number of pairs have no common divisor, so that each
 * pair occurs once. */
static struct pair in_pass(const struct machine *machine, uint64_t seed, unsigned pass, unsigned place) {
  const unsigned pairs = pairs_of(machine);
  const uint64_t drawn = mixed(seed ^ mixed(pass));
  unsigned step = 1 + (unsigned)(drawn % pairs);
  while (common_divisor(step, pairs) != 1) step = step % pairs + 1;
  return pair_of(machine, (unsigned)((mixed(drawn) % pairs + (uint64_t)step * place) % pairs));
}

/* The smallest set of CPUs that contains both. */
static unsigned relation_of(const struct machine *machine, struct pair pair) {
  unsigned kind = 0;
  for (; kind < SETS; kind++) {
    const short *sets = machine->sets[kind];
    const bool is_known = pair.one < SET_CPUS && pair.two < SET_CPUS;
    if (is_known && sets[pair.one] >= 0 && sets[pair.one] == sets[pair.two]) break;
  }
  return kind;
}

unsigned pairs_of_each_relation(const struct machine *machine, uint64_t seed, struct pair *pairs) {
  unsigned count = 0, found[SETS + 1] = {0};
  for (unsigned place = 0; place < pairs_of(machine); place++) {
    const struct pair pair = in_pass(machine, seed, 0, place);
    if (found[relation_of(machine, pair)]++ < FIRST_PAIRS / (SETS + 1)) pairs[count++] = pair;
  }
  return count;
}

unsigned pairs_next(const struct machine *machine, uint64_t seed, unsigned seen, unsigned most, struct pair *pairs) {
  unsigned count = 0;
  for (; count < most && seen + count < PASSES * pairs_of(machine); count++)
    pairs[count] = in_pass(machine, seed, (seen + count) / pairs_of(machine), (seen + count) % pairs_of(machine));
  return count;
}
