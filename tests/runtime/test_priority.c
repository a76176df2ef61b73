/* SPDX-License-Identifier: Apache-2.0
 *
 * Which visits sample at real-time priority: those of workers that never sleep, for a time that the system leaves to them.
 * Whether it is permitted is the machine's to say; that it is not taken where it would be unsound is not.
 */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

TOLL_TEST_NAME("test.priority");

static void work(struct toll_run *r) {
  (void)r;
}

static const struct toll_probe alone = {.question = "none", .body = work};
static const struct toll_probe sleeping = {.question = "none", .body = work, .sleeps = true};
static const struct toll_probe switching = {.question = "none", .body = work, .switches = true};

static struct toll_request asked(const struct toll_probe *probe, enum toll_priority priority) {
  struct toll_request request;
  toll_request_defaults(probe, &request);
  request.samples = 4;
  request.sample_ns = 100000;
  request.priority = priority;
  return request;
}

static bool raised(const struct toll_probe *probe, const struct toll_request *request) {
  bool raised = toll_priority_raise(probe, request, true);
  int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  EXPECT(policy == (raised ? SCHED_FIFO : SCHED_OTHER)); /* what the visit says is what the system has */
  toll_priority_drop();
  EXPECT(sched_getscheduler(0) == SCHED_OTHER);
  return raised;
}

/* An ordinary user may not change all that root has set. */
static void expect_drop_without_privilege(void) {
  enum { NOBODY = 65534 };
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    toll_priority_join();
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0) _exit(0);
    toll_priority_drop();
    _exit((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
  struct toll_request request = asked(&alone, TOLL_PRIORITY_REAL_TIME), normal = asked(&alone, TOLL_PRIORITY_NORMAL);
  raised(&alone, &request);
  EXPECT(!raised(&alone, &normal));
  EXPECT(!raised(&sleeping, &request));
  EXPECT(!raised(&switching, &request));
  request.sample_ns = 1000000000; /* sixteen seconds at a stretch, of the second that a period has */
  EXPECT(!raised(&alone, &request));
  expect_drop_without_privilege();
  return failures;
}
