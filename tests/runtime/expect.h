/* SPDX-License-Identifier: Apache-2.0
 *
 * Expectations for the runtime's tests: each test is a main that returns the number of those that did not hold.
 */
#ifndef TOLL_TEST_EXPECT_H
#define TOLL_TEST_EXPECT_H

#include <stdio.h>

#include "internal.h"

static int failures;

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      failures++;                                                              \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
    }                                                                          \
  } while (0)

/* Every executable of the runtime has a name; a test's own. */
#define TOLL_TEST_NAME(name)           \
  const char toll_probe_name[] = name; \
  const char toll_abi_name[] = "test"; \
  const char toll_build_flags[] = "none"

/* A run as a visit would set it up, for tests that call one part of the runtime alone. */
static inline struct toll_run test_run(struct toll_visit *visit, const struct toll_probe *probe) {
  static int cpus[TOLL_MOST_CPUS];
  *visit = (struct toll_visit){.probe = probe};
  toll_request_defaults(probe, &visit->request);
  unsigned count = toll_allowed_cpus(cpus, TOLL_MOST_CPUS);
  return (struct toll_run){.cpus = cpus, .cpu_count = count ? count : 1, .workers = 1, .seed = 7, .visit = visit};
}

#endif
