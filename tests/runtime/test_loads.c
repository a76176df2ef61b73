/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch that makes another number of loads than it is asked for is seen, also where it ends at the right place.
 */
#include "expect.h"

TOLL_TEST_NAME("test.loads");

static struct toll_visit visit;
static const struct toll_probe probe = {.question = "none"};

static struct toll_cursor two[2];
static uint64_t dropped, drops_from;

static void drop(struct toll_run *r) {
  uint64_t loads = r->iterations;
  if (loads >= drops_from) loads -= dropped < loads ? dropped : loads;
  for (uint64_t left = 2 * loads; left; left--)
    for (int i = 0; i < 2; i++) two[i].at = (void **)*two[i].at;
  for (int i = 0; i < 2; i++) two[i].steps += 2 * r->iterations;
}

static enum toll_status counted(uint64_t drops, uint64_t from) {
  void *cell = &cell;
  struct toll_run r = test_run(&visit, &probe);
  r.iterations = 100000;
  dropped = drops;
  drops_from = from;
  two[0] = two[1] = (struct toll_cursor){.at = &cell, .steps = 7};
  struct toll_cursors both = {.first = two, .count = 2, .stride = sizeof two[0], .loads = 2};
  enum toll_status status = toll_check_loads(&r, drop, both);
  for (int i = 0; i < 2; i++) EXPECT(two[i].at == (void **)&cell && two[i].steps == 7);
  return status;
}

int main(void) {
  EXPECT(counted(0, 0) == TOLL_OK);
  for (uint64_t drops = 1; drops < 1000; drops++) EXPECT(counted(drops, 0) == TOLL_WRONG);
  for (uint64_t drops = 1; drops <= 1024; drops *= 2)
    EXPECT(counted(drops, 100000) == TOLL_WRONG); /* in long batches only */
  return failures;
}
