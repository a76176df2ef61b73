/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk in the first cache, with PLANTED additions to the pointer after every hundred loads: at four cycles a load each
 * addition is a change by a quarter of a percent, which bench/tomorrow.py looks for.
 */
#include "toll.h"

enum { BYTES = 8192, LOADS = 100 };

struct walk {
  char *at, *begin;
  uint64_t loads;
};

static enum toll_status prepare(struct toll_run *r) {
  void *buffer = toll_buffer(r, (struct toll_buffer_request){.bytes = BYTES, .pages = TOLL_PAGES_SMALL});
  if (!buffer) return toll_refused(r);
  struct walk *walk = r->state;
  walk->at = walk->begin = (char *)toll_chase(r, buffer, BYTES, toll_line_bytes(), TOLL_ORDER_RANDOM);
  return TOLL_OK;
}

static void walk(struct toll_run *r) {
  struct walk *walk = r->state;
  char *at = walk->at;
  unsigned long nothing = 0;
  TOLL_OPAQUE(nothing);
  for (uint64_t i = r->iterations; i; i--) {
#pragma GCC unroll 100
    for (int load = 0; load < LOADS; load++) at = *(char **)(void *)at;
#pragma GCC unroll 100
    for (int added = 0; added < PLANTED; added++) {
      at += nothing;
      TOLL_OPAQUE(at);
    }
  }
  walk->at = at;
  walk->loads += r->iterations * LOADS;
}

static enum toll_status check(struct toll_run *r) {
  const struct walk *walk = r->state;
  char *at = walk->begin;
  for (uint64_t left = walk->loads % (BYTES / toll_line_bytes()); left; left--) at = *(char **)(void *)at;
  return at == walk->at ? TOLL_OK : toll_wrong(r, "the walk did not end where so many loads lead");
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->operations = LOADS;
}

static const struct toll_metric metrics[] = {
    {"load", "ns", TOLL_LESS, "a load, and its share of what was planted", TOLL_BODY, NULL, NULL}, {0}};

const struct toll_probe toll_probe = {.question = "Is a change of known size found?",
                                      .metrics = metrics,
                                      .state_bytes = sizeof(struct walk),
                                      .prepare = prepare,
                                      .body = walk,
                                      .check = check,
                                      .work = work,
                                      .revision = 1};
