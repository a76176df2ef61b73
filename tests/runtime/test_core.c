/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU that a visit chooses, and its wait, beside modelled siblings: each is busy for some readings, then idle.
 */
#include <sched.h>

#include "expect.h"

static struct toll_burst modelled(void);
#define toll_burst_measure modelled
#include "core.c"

TOLL_TEST_NAME("test.core");

static struct toll_visit visit;
static const struct toll_probe probe = {.question = "none"};
static unsigned busy_readings[TOLL_MOST_CPUS], readings;

static struct toll_burst modelled(void) {
  unsigned *busy = &busy_readings[sched_getcpu()];
  readings++;
  if (!*busy) return (struct toll_burst){3e9, 3.9 * 3e9};
  --*busy;
  return (struct toll_burst){3e9, 2.4 * 3e9};
}

/* A visit of its first CPU, in whose place any may serve. */
static struct toll_run run_of_visit(uint64_t full_width) {
  struct toll_run r = test_run(&visit, &probe);
  struct toll_request *request = &visit.request;
  for (unsigned i = 0; i < r.cpu_count; i++) request->also[i] = r.cpus[i];
  request->also_count = r.cpu_count;
  request->cpus[0] = request->also[0];
  request->cpu_count = 1;
  request->full_width = full_width;
  request->wait_ms = 1000;
  r.cpus = request->cpus;
  r.cpu_count = 1;
  readings = 0;
  EXPECT(toll_pin(r.cpus[0]));
  return r;
}

static void expect_an_uncontended_cpu_is_chosen(void) {
  struct toll_run r = run_of_visit(3900);
  const int own = r.cpus[0], last = visit.request.also[visit.request.also_count - 1];
  toll_core_choose(&r);
  EXPECT(r.cpus[0] == own && sched_getcpu() == own && readings == 1);
  for (unsigned i = 0; i + 1 < visit.request.also_count; i++) busy_readings[visit.request.also[i]] = 1;
  toll_core_choose(&r);
  EXPECT(r.cpus[0] == last && sched_getcpu() == last);
}

static void expect_its_own_where_all_are_contended_or_nothing_is_known(void) {
  struct toll_run r = run_of_visit(3900);
  const int own = r.cpus[0];
  for (unsigned i = 0; i < visit.request.also_count; i++) busy_readings[visit.request.also[i]] = 1;
  toll_core_choose(&r);
  EXPECT(r.cpus[0] == own && sched_getcpu() == own);
  r = run_of_visit(0);
  toll_core_choose(&r);
  EXPECT(r.cpus[0] == own && readings == 0);
}

static void expect_a_wait_that_ends(void) {
  struct toll_run r = run_of_visit(3900);
  toll_core_choose(&r);
  EXPECT(toll_core_await(&r, modelled()) && toll_core_waited_ns() == 0);
  busy_readings[r.cpus[0]] = 3;
  EXPECT(toll_core_await(&r, modelled()) && toll_core_waited_ns() >= 3000000);
  busy_readings[r.cpus[0]] = 1000000;
  visit.request.wait_ms = 20;
  EXPECT(!toll_core_await(&r, modelled()) && toll_core_waited_ns() >= 20000000);
  busy_readings[r.cpus[0]] = 0;
}

int main(void) {
  expect_an_uncontended_cpu_is_chosen();
  expect_its_own_where_all_are_contended_or_nothing_is_known();
  expect_a_wait_that_ends();
  return failures;
}
