/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the exact number of loads that a batch makes, independent of the length of the chase's cycle.
 */
#include "internal.h"

enum { RING_CELLS = 509 };
static void *ring[RING_CELLS];

static struct toll_cursor *cursor(struct toll_cursors cursors, size_t i) {
  return (struct toll_cursor *)(void *)((char *)cursors.first + i * cursors.stride);
}

static bool all_move_by(struct toll_run *r, void (*body)(struct toll_run *r), struct toll_cursors cursors,
                        uint64_t iterations) {
  struct toll_run batch = *r;
  batch.iterations = iterations;
  for (size_t i = 0; i < cursors.count; i++) cursor(cursors, i)->at = ring;
  body(&batch);
  void **end = &ring[iterations * cursors.loads % RING_CELLS];
  for (size_t i = 0; i < cursors.count; i++)
    if (cursor(cursors, i)->at != end) return false;
  return true;
}

/* Three short batches end before the cycle closes, so that any wrong number of loads ends at another cell. The batch
 * that was timed last runs too, since a loop may fail only after many turns. A wrong number is seen unless it is off by
 * a multiple of the prime. */
enum toll_status toll_check_loads(struct toll_run *r, void (*body)(struct toll_run *r), struct toll_cursors cursors) {
  static struct toll_cursor kept[TOLL_MOST_CURSORS];
  const uint64_t batches[] = {32, 96, 224, r->iterations};
  uint64_t wrong = 0;
  if (cursors.count > TOLL_MOST_CURSORS) return toll_fail(r, "%zu cursors exceed %d", cursors.count, TOLL_MOST_CURSORS);
  for (size_t i = 0; i < RING_CELLS; i++) ring[i] = &ring[(i + 1) % RING_CELLS];
  for (size_t i = 0; i < cursors.count; i++) kept[i] = *cursor(cursors, i);
  for (size_t i = 0; i < sizeof batches / sizeof batches[0] && !wrong; i++)
    if (!all_move_by(r, body, cursors, batches[i])) wrong = batches[i];
  for (size_t i = 0; i < cursors.count; i++) *cursor(cursors, i) = kept[i];
  return wrong ? toll_wrong(r, "a batch of %llu iterations makes another number of loads", (unsigned long long)wrong)
               : TOLL_OK;
}
