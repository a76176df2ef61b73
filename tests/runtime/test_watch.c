/* SPDX-License-Identifier: Apache-2.0 */
#include "expect.h"

TOLL_TEST_NAME("test.watch");

enum { TIMED_NS = 300000, UNTIMED_NS = 900000 };

static struct toll_visit visit;
static const struct toll_probe probe = {.question = "none"};
static bool watched;

static void spin(uint64_t ns) {
  uint64_t start = toll_now_ns();
  while (toll_now_ns() - start < ns) continue;
}

static void body(struct toll_run *r) {
  for (uint64_t i = 0; i < r->iterations; i++) {
    if (watched) toll_timer_pause();
    spin(UNTIMED_NS);
    if (watched) toll_timer_resume();
    spin(TIMED_NS);
  }
}

/* What a busy machine adds can only lengthen a spin, so each bound holds on any. */
static void expect_left_out(void) {
  enum { TURNS = 3 };
  struct toll_run r = test_run(&visit, &probe);
  watched = true;
  uint64_t start = toll_now_ns(), took = toll_timed(&r, body, TURNS), whole = toll_now_ns() - start;
  EXPECT(took >= TURNS * TIMED_NS);
  EXPECT(took + TURNS * UNTIMED_NS <= whole);
  watched = false;
  EXPECT(toll_timed(&r, body, TURNS) >= TURNS * (TIMED_NS + UNTIMED_NS));
}

static void expect_caches(void) {
  EXPECT(toll_last_cache_bytes() >= 4096);
  EXPECT(toll_huge_page_bytes() > toll_page_bytes() && toll_huge_page_bytes() % toll_page_bytes() == 0);
}

int main(void) {
  expect_left_out();
  expect_caches();
  return failures;
}
