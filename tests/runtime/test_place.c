/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>

#include "expect.h"

TOLL_TEST_NAME("test.place");

static struct toll_visit visit;
static const struct toll_probe probe = {.question = "none"};

/* As a visit keeps them: a run's CPUs are its request's. */
static struct toll_run run_of_visit(void) {
  struct toll_run r = test_run(&visit, &probe);
  for (unsigned i = 0; i < r.cpu_count; i++) visit.request.cpus[i] = r.cpus[i];
  r.cpus = visit.request.cpus;
  return r;
}

static void expect_the_record_follows_a_move(void) {
  struct toll_run r = run_of_visit();
  const int first = r.cpus[0], last = r.cpus[r.cpu_count - 1];
  EXPECT(toll_pin(first) && sched_getcpu() == first);
  EXPECT(toll_move(&r, last) == TOLL_OK);
  EXPECT(sched_getcpu() == last && r.cpus[0] == last && r.cpus[r.cpu_count - 1] == first);
  EXPECT(toll_move(&r, last) == TOLL_OK && r.cpus[0] == last);
}

static void expect_a_loose_worker_may_go_anywhere(void) {
  struct toll_run r = run_of_visit();
  int cpus[TOLL_MOST_CPUS];
  EXPECT(toll_pin(r.cpus[0]) && toll_allowed_cpus(cpus, TOLL_MOST_CPUS) == 1);
  EXPECT(toll_unpin(&r) && toll_allowed_cpus(cpus, TOLL_MOST_CPUS) == r.cpu_count);
}

static void expect_a_reason(void) {
  struct toll_run r = run_of_visit();
  const int first = r.cpus[0];
  EXPECT(toll_move(&r, TOLL_MOST_CPUS - 1) == TOLL_SKIPPED && visit.reason[0] && r.cpus[0] == first);
  r = run_of_visit();
  visit.request.cpus[0] = 1 << 20; /* one that is asked for, and that no system has */
  EXPECT(toll_move(&r, 1 << 20) == TOLL_SKIPPED && visit.reason[0]);
}

/* It would come to where another process measures. */
static void expect_no_move_ahead(void) {
  struct toll_run r = run_of_visit();
  visit.request.ahead = true;
  EXPECT(toll_move(&r, r.cpus[0]) == TOLL_FAILED && visit.reason[0]);
  r = run_of_visit();
  EXPECT(toll_prepare_in_place(&r) == TOLL_OK);
  visit.request.ahead = true;
  EXPECT(toll_prepare_in_place(&r) == TOLL_FAILED && visit.reason[0]);
}

int main(void) {
  expect_a_loose_worker_may_go_anywhere();
  expect_the_record_follows_a_move();
  struct toll_run r = run_of_visit();
  toll_unpin(&r);
  expect_a_reason();
  expect_no_move_ahead();
  return failures;
}
