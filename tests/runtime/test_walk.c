/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk's first lap proves that it is one cycle through all of its lines, whether one walker goes or many side by side.
 */
#include <stdlib.h>

#include "expect.h"
#include "walk.h"

TOLL_TEST_NAME("test.walk");

enum { FEW = 1000, MANY = 70001, EVEN = 70000, LINE = 64 };

static struct toll_visit visit;
static const struct toll_probe probe = {.question = "none"};

static struct walk laid(struct toll_run *r, char *lines, size_t count) {
  struct walk w;
  *r = test_run(&visit, &probe);
  EXPECT(walk_lay(r, &w, lines, count * LINE, LINE, TOLL_ORDER_RANDOM) == TOLL_OK);
  EXPECT(w.known == (count > FEW));
  w.computed = false; /* whatever this machine's last cache holds */
  return w;
}

static void **after(const struct walk *w, uint64_t steps) {
  void **at = w->head;
  while (steps--) at = (void **)*at;
  return at;
}

static void expect_milestones(const struct walk *w) {
  void **at = w->head;
  for (uint64_t step = 0; step < w->nodes; step++, at = (void **)*at)
    if (step % w->spacing == 0) EXPECT(w->milestone[step / w->spacing] == at);
}

static void expect_proof(char *lines, size_t count) {
  struct toll_run r;
  struct walk w = laid(&r, lines, count);
  EXPECT(walk_check_place(&r, &w) == TOLL_OK && w.proved);
  expect_milestones(&w);
  walk_on(&w.cursor, 96);
  EXPECT(walk_check_place(&r, &w) == TOLL_OK);
  w.cursor.steps++;
  EXPECT(walk_check_place(&r, &w) == TOLL_WRONG);
}

/* Two cycles in place of one, whichever of them the head is in; a step that leads out of the lines, or between two. */
static void expect_refusal(char *lines, size_t count, uint64_t at, uint64_t other) {
  struct toll_run r;
  struct walk w = laid(&r, lines, count);
  void **here = after(&w, at), **there = after(&w, other), *target = *here;
  *here = *there;
  *there = target;
  EXPECT(walk_check_place(&r, &w) == TOLL_WRONG);
  w = laid(&r, lines, count);
  *after(&w, at) = lines + count * LINE;
  EXPECT(walk_check_place(&r, &w) == TOLL_WRONG);
  w = laid(&r, lines, count);
  here = after(&w, at);
  *here = (char *)*here + sizeof(void *);
  EXPECT(walk_check_place(&r, &w) == TOLL_WRONG);
}

/* A cycle like any other that is not in the computed order: it is proved as it stands. */
static void expect_any_order(char *lines) {
  struct toll_run r;
  struct walk w = laid(&r, lines, MANY);
  void **one = after(&w, 5000), **two = (void **)*one, **three = (void **)*two;
  *one = three;
  *two = *three;
  *three = two;
  EXPECT(walk_check_place(&r, &w) == TOLL_OK);
  expect_milestones(&w);
}

/* Half of the lines, gone through twice, and each milestone met in its time: only that the head comes too early tells. */
static void expect_no_second_round(char *lines) {
  enum { ROUND = EVEN / 2 };
  struct toll_run r;
  struct walk w = laid(&r, lines, EVEN);
  static void **cells[ROUND];
  static bool taken[EVEN];
  for (uint64_t place = 0; place < EVEN; place += w.spacing) {
    cells[place % ROUND] = walk_place(&w, place);
    taken[place] = true;
  }
  for (uint64_t i = 0, place = 0; i < ROUND; i++) {
    if (cells[i]) continue;
    while (taken[place]) place++;
    cells[i] = walk_place(&w, place++);
  }
  for (size_t i = 0; i < ROUND; i++) *cells[i] = cells[(i + 1) % ROUND];
  EXPECT(walk_check_place(&r, &w) == TOLL_WRONG);
}

int main(void) {
  char *lines = aligned_alloc(LINE, (size_t)(MANY + 1) * LINE);
  if (!lines) return 1;
  for (size_t count = FEW; count; count = count == FEW ? MANY : 0) {
    expect_proof(lines, count);
    expect_refusal(lines, count, 0, count / 2);
    expect_refusal(lines, count, count / 2, count / 2 + 7);
    expect_refusal(lines, count, count - 2, 1);
  }
  expect_any_order(lines);
  expect_no_second_round(lines);
  free(lines);
  return failures;
}
