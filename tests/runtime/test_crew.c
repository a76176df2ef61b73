/* SPDX-License-Identifier: Apache-2.0
 *
 * Companions: every batch reaches every worker once, background ones are under load before the timed worker starts and
 * say what they did, and a role without a CPU to run on is a skip with its reason.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

TOLL_TEST_NAME("test.crew");

struct state {
  _Atomic uint64_t led, followed, turns, seen_running;
};

static void lead(struct toll_run *r) {
  struct state *s = r->state;
  atomic_fetch_add(&s->led, r->iterations);
  atomic_store(&s->seen_running, atomic_load(&s->turns));
}
static void follow(struct toll_run *r) {
  struct state *s = r->state;
  atomic_fetch_add(&s->followed, r->iterations * r->worker);
}
static void load(struct toll_run *r) {
  struct state *s = r->state;
  atomic_fetch_add(&s->turns, r->iterations);
}
static unsigned three(const struct toll_run *r) {
  (void)r;
  return 3;
}
static unsigned first_cpu(const struct toll_run *r, unsigned worker) {
  (void)r;
  (void)worker;
  return 0;
}
static unsigned beyond(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return r->cpu_count;
}

static struct toll_visit visit;
static int cpus[TOLL_MOST_CPUS];
static unsigned cpu_count;

/* The crew before left this process on one CPU. */
static struct toll_run run_with(const struct toll_probe *probe, struct state **state) {
  toll_allow(cpus, cpu_count);
  struct toll_run r = test_run(&visit, probe);
  *state = mmap(NULL, sizeof **state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  r.state = *state;
  return r;
}

static void expect_lockstep(enum toll_worker worker) {
  const struct toll_role roles[] = {{"follower", follow, worker, TOLL_LOCKSTEP, three, first_cpu, 0}, {0}};
  const struct toll_probe probe = {.question = "none", .body = lead, .roles = roles};
  struct state *s;
  struct toll_run r = run_with(&probe, &s);
  EXPECT(toll_crew_start(&r) == TOLL_OK);
  EXPECT(r.workers == 4 && toll_crew_lanes() == 0);
  toll_crew_batch(&r, 10, NULL);
  toll_crew_batch(&r, 7, NULL);
  toll_crew_stop(&r);
  EXPECT(s->led == 17);
  EXPECT(s->followed == 17 * (1 + 2 + 3));
}

static void see_signals(struct toll_run *r) {
  struct state *s = r->state;
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  atomic_fetch_add(&s->followed, sigismember(&blocked, SIGALRM) + sigismember(&blocked, SIGCHLD));
}

/* The deadline's handler writes records, and so runs in the thread that makes them. */
static void expect_deadline_elsewhere(void) {
  const struct toll_role roles[] = {{"follower", see_signals, TOLL_THREAD, TOLL_LOCKSTEP, NULL, first_cpu, 0}, {0}};
  const struct toll_probe probe = {.question = "none", .body = lead, .roles = roles};
  struct state *s;
  struct toll_run r = run_with(&probe, &s);
  EXPECT(toll_crew_start(&r) == TOLL_OK);
  toll_crew_batch(&r, 1, NULL);
  toll_crew_stop(&r);
  EXPECT(s->followed == 2);
}

static void see_priority(struct toll_run *r) {
  struct state *s = r->state;
  atomic_store(&s->followed, sched_getscheduler(0) & ~SCHED_RESET_ON_FORK);
}

/* All workers of a visit sample at one priority, and at an ordinary one where two of them share a CPU. A later visit of
 * the same workers may be at another. */
static void expect_priority(enum toll_worker worker, bool has_own_cpu) {
  const struct toll_role roles[] = {
      {"follower", see_priority, worker, TOLL_LOCKSTEP, NULL, has_own_cpu ? NULL : first_cpu, 0}, {0}};
  const struct toll_probe probe = {.question = "none", .body = lead, .roles = roles};
  struct state *s;
  struct toll_run r = run_with(&probe, &s);
  visit.request.samples = 4;
  EXPECT(toll_crew_start(&r) == TOLL_OK);
  for (int turn = 0; turn < 4; turn++) {
    visit.request.priority = turn % 2 ? TOLL_PRIORITY_NORMAL : TOLL_PRIORITY_REAL_TIME;
    visit.real_time = toll_priority_raise(&probe, &visit.request, toll_crew_is_spread());
    EXPECT(has_own_cpu || !visit.real_time);
    toll_crew_batch(&r, 1, NULL);
    toll_priority_drop();
    EXPECT(s->followed == (visit.real_time ? SCHED_FIFO : SCHED_OTHER));
  }
  toll_crew_stop(&r);
}

/* A CPU that is not there is a skip before any worker waits for another, and leaves the timed worker where it was. */
static void expect_absent_cpu(enum toll_worker worker) {
  enum { ABSENT = 65535 };
  const struct toll_role roles[] = {{"follower", follow, worker, TOLL_LOCKSTEP, NULL, NULL, 0}, {0}};
  const struct toll_probe probe = {.question = "none", .body = lead, .roles = roles};
  struct state *s;
  struct toll_run r = run_with(&probe, &s);
  const int first = r.cpus[0], with_absent[] = {first, ABSENT};
  toll_pin(first);
  r.cpus = with_absent;
  r.cpu_count = 2;
  visit.request.samples = 4;
  visit.request.priority = TOLL_PRIORITY_REAL_TIME;
  int status = -1;
  pid_t child = fork();
  if (child == 0) _exit(toll_crew_start(&r) != TOLL_SKIPPED || !visit.reason[0] || sched_getcpu() != first);
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void expect_background(enum toll_worker worker) {
  const struct toll_role roles[] = {{"load", load, worker, TOLL_BACKGROUND, NULL, first_cpu, 5}, {0}};
  const struct toll_probe probe = {.question = "none", .body = lead, .roles = roles};
  struct toll_lane lane = {0, 0};
  struct state *s;
  struct toll_run r = run_with(&probe, &s);
  EXPECT(toll_crew_start(&r) == TOLL_OK && toll_crew_lanes() == 1);
  toll_crew_batch(&r, 1, &lane);
  EXPECT(s->seen_running >= 5);
  EXPECT(lane.iterations >= 5 && lane.iterations % 5 == 0 && lane.ns > 0);
  uint64_t turns = s->turns;
  EXPECT(turns >= lane.iterations + 5); /* the first turns warm up, uncounted; none runs between batches */
  toll_crew_stop(&r);
  EXPECT(s->turns == turns);
}

static void expect_no_place(void) {
  const struct toll_role roles[] = {{"lost", follow, TOLL_PROCESS, TOLL_LOCKSTEP, NULL, beyond, 0}, {0}};
  const struct toll_probe probe = {.question = "none", .body = lead, .roles = roles};
  struct state *s;
  struct toll_run r = run_with(&probe, &s);
  EXPECT(toll_crew_start(&r) == TOLL_SKIPPED);
  EXPECT(visit.reason[0] != '\0');
}

/* One process more than the user may have is a gap that names the limit. */
static void expect_limit_of_processes(enum toll_worker worker) {
  enum { NOBODY = 65534 };
  const struct toll_role roles[] = {{"follower", follow, worker, TOLL_LOCKSTEP, NULL, first_cpu, 0}, {0}};
  const struct toll_probe probe = {.question = "none", .body = lead, .roles = roles};
  struct state *s;
  struct toll_run r = run_with(&probe, &s);
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_NPROC, &(struct rlimit){1, 1});
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0) _exit(0); /* root has no such limit */
    _exit(toll_crew_start(&r) != TOLL_SKIPPED || !strstr(visit.reason, "ulimit -u allows 1,"));
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

/* A kernel for 65,536 CPUs refuses a mask with fewer bits. */
static bool has_many_cpus(void) {
  enum { MASK_BYTES = 8192 };
  const struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_getaffinity, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, MASK_BYTES, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter *)code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void expect_cpus_among_many(void) {
  int status = 0, cpus[4];
  pid_t child = fork();
  if (child == 0) _exit(has_many_cpus() ? toll_allowed_cpus(cpus, 4) == 0 : 2);
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 1);
}

int main(void) {
  cpu_count = toll_allowed_cpus(cpus, TOLL_MOST_CPUS);
  const bool has_several = cpu_count > 1;
  expect_lockstep(TOLL_PROCESS);
  expect_lockstep(TOLL_THREAD);
  expect_deadline_elsewhere();
  for (int worker = TOLL_PROCESS; worker <= (int)TOLL_THREAD; worker++)
    for (int has_own_cpu = 0; has_own_cpu <= (int)has_several; has_own_cpu++)
      expect_priority((enum toll_worker)worker, has_own_cpu);
  expect_background(TOLL_PROCESS);
  expect_background(TOLL_THREAD);
  expect_absent_cpu(TOLL_PROCESS);
  expect_absent_cpu(TOLL_THREAD);
  expect_no_place();
  expect_limit_of_processes(TOLL_PROCESS);
  expect_limit_of_processes(TOLL_THREAD);
  expect_cpus_among_many();
  return failures;
}
