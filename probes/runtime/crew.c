/* SPDX-License-Identifier: Apache-2.0
 *
 * Companions of the timed worker: pinned processes or threads, started once per visit. A gate releases them for each
 * batch. They wait for it on a futex: a spinning worker would keep other workers of the same CPU from running. Only one
 * that is alone on its CPU spins, from its wake-up until the timed worker's clock starts. The cost of a wake-up is the
 * same for n and for 2n iterations, and cancels.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "wait.h"

struct gate {
  _Atomic uint32_t arrived, generation;
};
enum turn { ASLEEP, AWAKE, ITS_TURN };
struct member {
  _Atomic uint32_t started; /* this background companion has begun to work */
  _Atomic uint32_t turn;    /* enum turn: state of a companion that works in turn */
  struct toll_lane lane;
  char padding[128 - 24]; /* companions write here while the timed worker runs: one cache line each */
};

static struct crew {
  struct gate start, done;
  uint64_t iterations;       /* length of the next batch, published by the gate; 0: the end */
  bool real_time;            /* the timed worker's priority in that batch */
  _Atomic uint32_t awake;    /* companions that have come through the gate */
  _Atomic uint32_t go;       /* the timed worker's clock is about to start */
  _Atomic uint32_t counting; /* every background companion has begun */
  _Atomic uint32_t ended;    /* the timed worker has done its batch */
  _Atomic uint32_t unpinned; /* companions that the system refuses to pin */
  struct member members[TOLL_MOST_WORKERS];
} * crew;

static struct {
  struct toll_run run;
  const struct toll_role *role;
  pthread_t thread;
  pid_t process;
} workers[TOLL_MOST_WORKERS];
static unsigned worker_count = 1;
static int worker_cpus[TOLL_MOST_WORKERS]; /* -1: any CPU */

/* ---- places ---- */

/* The kernel refuses a mask that is shorter than its own, which has a bit for each possible CPU. */
enum { MASK_CPUS = 65536, MASK_BITS = 8 * sizeof(unsigned long) };
typedef unsigned long cpu_mask[MASK_CPUS / MASK_BITS];

unsigned toll_allowed_cpus(int *cpus, unsigned room) {
  const unsigned bits = MASK_BITS;
  unsigned count = 0;
  cpu_mask mask;
  memset(mask, 0, sizeof mask);
  if (syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) < 0) return 0;
  for (unsigned cpu = 0; cpu < MASK_CPUS && count < room; cpu++)
    if (mask[cpu / bits] >> cpu % bits & 1) cpus[count++] = (int)cpu;
  return count;
}

bool toll_allow(const int *cpus, unsigned count) {
  const unsigned bits = MASK_BITS;
  cpu_mask mask;
  memset(mask, 0, sizeof mask);
  for (unsigned i = 0; i < count; i++)
    if (cpus[i] >= 0 && cpus[i] < MASK_CPUS) mask[(unsigned)cpus[i] / bits] |= 1ul << (unsigned)cpus[i] % bits;
  return syscall(SYS_sched_setaffinity, 0, sizeof mask, mask) == 0;
}

bool toll_pin(int cpu) {
  return cpu >= 0 && cpu < MASK_CPUS && toll_allow(&cpu, 1);
}

/* ---- the gate ---- */

static void pass(struct gate *gate) {
  uint32_t generation = atomic_load(&gate->generation);
  if (atomic_fetch_add(&gate->arrived, 1) + 1 == worker_count) {
    atomic_store(&gate->arrived, 0);
    atomic_fetch_add(&gate->generation, 1);
    toll_futex_wake(&gate->generation, INT32_MAX);
    return;
  }
  while (atomic_load(&gate->generation) == generation) toll_futex_wait(&gate->generation, generation);
}

/* ---- awake before the clock starts ---- */

/* Whether no other worker runs on this CPU. Only then does spinning keep no worker from running. */
static bool has_own_cpu(unsigned worker) {
  for (unsigned other = 0; other < worker_count; other++)
    if (other != worker && worker_cpus[other] == worker_cpus[worker]) return false;
  return worker_cpus[worker] >= 0;
}

bool toll_crew_is_spread(void) {
  for (unsigned worker = 0; worker_count > 1 && worker < worker_count; worker++)
    if (!has_own_cpu(worker)) return false;
  return true;
}

/* Wake-up time is not part of a batch. A companion with a CPU of its own spins until the clock starts. Any other goes
 * on at once, since it would occupy the timed worker's CPU. */
static void await_clock(bool is_alone) {
  atomic_fetch_add(&crew->awake, 1);
  if (!is_alone) return;
  while (!atomic_load_explicit(&crew->go, memory_order_acquire)) toll_relax();
}

/* Companions on this CPU can wake only while the timed worker yields it. */
static void await_companions(void) {
  while (atomic_load(&crew->awake) + 1 < worker_count) sched_yield();
  atomic_store_explicit(&crew->go, 1, memory_order_release);
}

/* ---- companions ---- */

/* The timed worker decides anew for each visit. A companion keeps its priority between batches, while it sleeps. */
static void follow_priority(bool *raised) {
  if (crew->real_time == *raised) return;
  *raised = crew->real_time;
  if (*raised)
    toll_priority_join();
  else
    toll_priority_drop();
}

/* Turns repeat until the timed worker is done. Turns before every companion has begun are warm-up: work is counted in a
 * time window that all companions share. */
static void run_background(struct toll_run *run, const struct toll_role *role) {
  struct member *member = &crew->members[run->worker];
  run->iterations = role->background_iterations ? role->background_iterations : 1;
  role->body(run);
  atomic_store(&member->started, 1);
  while (!atomic_load_explicit(&crew->counting, memory_order_acquire)) role->body(run);
  uint64_t turns = 0, start = toll_now_ns();
  do {
    role->body(run);
    turns++;
  } while (!atomic_load_explicit(&crew->ended, memory_order_relaxed));
  member->lane = (struct toll_lane){turns * run->iterations, toll_now_ns() - start};
}

/* ---- one after another ---- */

/* A CPU that wakes from an idle state runs at a low clock for up to a millisecond. So this many companions wait awake for
 * their turn, if each has a CPU of its own: eight turns of 0.1 ms. They execute little but `pause`. */
enum { WAITING_AWAKE = 8 };

static unsigned next_in_turn(unsigned worker) {
  do worker++;
  while (worker < worker_count && workers[worker].role->pace != TOLL_IN_TURN);
  return worker;
}

static void tell(unsigned worker, enum turn turn) {
  if (worker >= worker_count || atomic_load(&crew->members[worker].turn) >= turn) return;
  atomic_store(&crew->members[worker].turn, turn);
  toll_futex_wake(&crew->members[worker].turn, 1);
}

/* The next worker is started last: from then on this one does nothing. */
static void pass_turn(unsigned worker) {
  const unsigned next = next_in_turn(worker);
  unsigned later = next;
  for (unsigned i = 0; i < WAITING_AWAKE && later < worker_count; i++) tell(later = next_in_turn(later), AWAKE);
  tell(next, ITS_TURN);
}

static void await_turn(unsigned worker, bool is_alone) {
  _Atomic uint32_t *turn = &crew->members[worker].turn;
  for (uint32_t seen; (seen = atomic_load_explicit(turn, memory_order_acquire)) != ITS_TURN;) {
    if (seen == ASLEEP || !is_alone)
      toll_futex_wait(turn, seen);
    else
      toll_relax();
  }
}

/* An eighth of a batch runs untimed first, as for the timed worker. */
static void run_in_turn(struct toll_run *run, const struct toll_role *role, bool is_alone) {
  enum { WARMING_SHARE = 8 };
  struct member *member = &crew->members[run->worker];
  const uint64_t quantum = run->visit->probe->quantum ? run->visit->probe->quantum : 1;
  const uint64_t iterations = run->iterations, some = iterations / WARMING_SHARE;
  await_turn(run->worker, is_alone);
  run->iterations = some - some % quantum;
  if (run->iterations) role->body(run);
  run->iterations = iterations;
  const uint64_t start = toll_now_ns();
  role->body(run);
  member->lane = (struct toll_lane){iterations, toll_now_ns() - start};
  atomic_store(&member->turn, ASLEEP);
  pass_turn(run->worker);
}

static bool is_placed(unsigned worker) {
  if (worker_cpus[worker] < 0 || toll_pin(worker_cpus[worker])) return true;
  atomic_fetch_add(&crew->unpinned, 1);
  return false;
}

static void companion(unsigned worker) {
  struct toll_run *run = &workers[worker].run;
  const struct toll_role *role = workers[worker].role;
  /* On the timed worker's CPU it would prevent that worker from running for ever, especially at real-time priority. */
  const bool placed = is_placed(worker), is_alone = placed && has_own_cpu(worker);
  for (bool raised = false;;) {
    pass(&crew->start);
    run->iterations = crew->iterations;
    if (!run->iterations) return;
    if (placed) follow_priority(&raised);
    await_clock(is_alone && role->pace != TOLL_IN_TURN);
    if (role->pace == TOLL_IN_TURN)
      run_in_turn(run, role, is_alone);
    else if (role->pace == TOLL_BACKGROUND)
      run_background(run, role);
    else
      role->body(run);
    pass(&crew->done);
  }
}

/* Only the timed worker's thread handles the deadline and the loss of a companion, since only it knows when no record
 * is being written. */
static void *companion_thread(void *worker) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGALRM);
  sigaddset(&ends, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);
  companion((unsigned)(uintptr_t)worker);
  return NULL;
}

static void companion_process(unsigned worker, pid_t leader) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGCHLD, SIG_DFL);
  if (getppid() != leader) _exit(1); /* the parent ended before the request took effect */
  companion(worker);
  _exit(0);
}

/* Ends by the same signal as the companion, so that the parent can report it. */
static void end_by(int signal_number) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal_number);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* A companion that dies leaves the timed worker waiting for ever: end the visit at once, with the reason. */
static void companion_lost(int signal_number) {
  (void)signal_number;
  int saved = errno;
  for (unsigned i = 1; i < worker_count; i++) {
    siginfo_t info = {0};
    if (workers[i].process <= 0) continue;
    if (waitid(P_PID, (id_t)workers[i].process, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) continue;
    if (info.si_code == CLD_EXITED && info.si_status == 0) continue;
    toll_emit_flush();
    static const char sentence[] = "a companion process of the probe died\n";
    if (write(STDERR_FILENO, sentence, sizeof sentence - 1) < 0) _exit(1);
    if (info.si_code != CLD_EXITED) end_by(info.si_status);
    _exit(1);
  }
  errno = saved;
}

static void watch_processes(void) {
  struct sigaction action = {0};
  action.sa_handler = companion_lost;
  action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, NULL);
}

/* A system that allows one process and one thread only, or a limit that is reached, is a skip and not a failure. */
static enum toll_status refuse_start(struct toll_run *r, const char *what, int error) {
  struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_NPROC, &most);
  if (error == EAGAIN && most.rlim_cur != RLIM_INFINITY)
    return toll_skip(r, "no %s could be started: ulimit -u allows %llu, or a control group fewer (pids.max)", what,
                     (unsigned long long)most.rlim_cur);
  if (error == ENOSYS || error == EAGAIN) return toll_skip(r, "the system starts no %s: %s", what, strerror(error));
  return toll_fail(r, "a %s could not be started: %s", what, strerror(error));
}

static enum toll_status start_one(struct toll_run *r, const struct toll_role *role, unsigned worker) {
  workers[worker].run = *r;
  workers[worker].run.worker = worker;
  workers[worker].run.workers = worker_count;
  workers[worker].role = role;
  if (role->worker == TOLL_THREAD) {
    int error = pthread_create(&workers[worker].thread, NULL, companion_thread, (void *)(uintptr_t)worker);
    return error ? refuse_start(r, "thread", error) : TOLL_OK;
  }
  pid_t leader = getpid();
  workers[worker].process = fork();
  if (workers[worker].process == 0) companion_process(worker, leader);
  return workers[worker].process < 0 ? refuse_start(r, "process", errno) : TOLL_OK;
}

static const struct toll_role no_roles[] = {{0}};

static const struct toll_role *roles_of(const struct toll_run *r) {
  return r->visit->probe->roles ? r->visit->probe->roles : no_roles;
}

/* Assigns a role to every worker, and checks that there is a CPU for it. */
static enum toll_status assign(struct toll_run *r) {
  worker_count = 1;
  for (const struct toll_role *role = roles_of(r); role->name; role++) {
    unsigned count = role->count ? role->count(r) : 1;
    if (worker_count + count > TOLL_MOST_WORKERS)
      return toll_skip(r, "asks for more than %d workers", TOLL_MOST_WORKERS - 1);
    for (unsigned i = 0; i < count; i++, worker_count++) {
      unsigned index = role->cpu ? role->cpu(r, worker_count) : worker_count;
      if (index >= r->cpu_count) return toll_skip(r, "needs %u CPUs, and this run may use %u", index + 1, r->cpu_count);
      workers[worker_count].role = role;
      worker_cpus[worker_count] = r->cpus ? r->cpus[index] : -1;
    }
  }
  r->workers = worker_count;
  return TOLL_OK;
}

/* Tests that futexes work, since a sandbox may refuse them. The workers would then spin at the gate, and the time that
 * one takes from another would be reported as the cost of the boundary. */
static enum toll_status try_to_wait(struct toll_run *r) {
  _Atomic uint32_t word = 0;
  if (toll_futex_wake(&word, 1) < 0)
    return toll_skip(r, "the system does not let its workers sleep: %s", strerror(errno));
  if (sched_yield() < 0) return toll_skip(r, "the system does not let its workers take turns: %s", strerror(errno));
  return TOLL_OK;
}

static enum toll_status refuse_places(struct toll_run *r, unsigned unpinned) {
  return toll_skip(r, "the system does not let %u of its workers be kept on the CPU that this is about", unpinned);
}

/* Moves the timed worker to every worker's CPU, and to its own in the end. A CPU may be offline, or outside of the
 * control group's. */
static enum toll_status try_places(struct toll_run *r) {
  unsigned refused = 0;
  for (unsigned worker = worker_count; worker-- > 0;)
    refused += worker_cpus[worker] >= 0 && !toll_pin(worker_cpus[worker]);
  return refused ? refuse_places(r, refused) : TOLL_OK;
}

enum toll_status toll_crew_start(struct toll_run *r) {
  worker_cpus[0] = r->cpus ? r->cpus[0] : -1;
  enum toll_status status = assign(r);
  if (status != TOLL_OK || worker_count == 1) return status;
  if (toll_counts_instructions())
    return toll_skip(r, "instructions are counted for one worker, and this has companions");
  if ((status = try_to_wait(r)) != TOLL_OK || (status = try_places(r)) != TOLL_OK) return status;
  crew = mmap(NULL, sizeof *crew, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (crew == MAP_FAILED) return toll_fail(r, "no shared memory for the workers' gate: %s", strerror(errno));
  watch_processes();
  /* Processes are started first, since a child of fork() inherits only the calling thread. */
  for (int kind = TOLL_PROCESS; kind <= (int)TOLL_THREAD && status == TOLL_OK; kind++)
    for (unsigned i = 1; i < worker_count && status == TOLL_OK; i++)
      if ((int)workers[i].role->worker == kind) status = start_one(r, workers[i].role, i);
  companion_lost(SIGCHLD); /* one that ended before its process number was stored here */
  return status;
}

void toll_crew_put_cpus(void) {
  if (worker_count == 1) return;
  toll_put_open("workers", '[');
  for (unsigned i = 0; i < worker_count && worker_cpus[i] >= 0; i++) toll_put_integer(NULL, worker_cpus[i]);
  toll_put_close(']');
}

/* ---- batches ---- */

static void await_background(void) {
  const struct timespec moment = {0, 20000};
  for (unsigned i = 1; i < worker_count; i++)
    while (workers[i].role->pace == TOLL_BACKGROUND && !atomic_load(&crew->members[i].started))
      nanosleep(&moment, NULL);
  atomic_store_explicit(&crew->counting, 1, memory_order_release);
}

unsigned toll_crew_lanes(void) {
  unsigned count = 0;
  for (unsigned i = 1; i < worker_count; i++) count += workers[i].role->pace != TOLL_LOCKSTEP;
  return count;
}

unsigned toll_crew_turns(void) {
  unsigned count = 1;
  for (unsigned i = 1; i < worker_count; i++) count += workers[i].role->pace == TOLL_IN_TURN;
  return count;
}

static void copy_lanes(struct toll_lane *lanes) {
  for (unsigned i = 1; i < worker_count; i++)
    if (workers[i].role->pace != TOLL_LOCKSTEP) *lanes++ = crew->members[i].lane;
}

/* If CPUs are compared by turns, warms the timed worker's CPU as a companion warms its own: the worker has slept
 * since its last turn. */
static void warm_like_companions(struct toll_run *r) {
  bool in_turn = false;
  for (const struct toll_role *role = roles_of(r); role->name; role++) in_turn |= role->pace == TOLL_IN_TURN;
  if (in_turn) r->visit->probe->body(r);
}

uint64_t toll_crew_batch(struct toll_run *r, uint64_t iterations, struct toll_lane *lanes) {
  if (worker_count == 1) return toll_timed(r, r->visit->probe->body, iterations);
  for (unsigned i = 1; i < worker_count; i++) atomic_store(&crew->members[i].started, 0);
  atomic_store(&crew->ended, 0);
  atomic_store(&crew->awake, 0);
  atomic_store(&crew->go, 0);
  atomic_store(&crew->counting, 0);
  crew->iterations = iterations;
  crew->real_time = r->visit->real_time;
  pass(&crew->start);
  await_companions();
  await_background();
  r->iterations = iterations;
  warm_like_companions(r);
  uint64_t took = toll_timed(r, r->visit->probe->body, iterations);
  atomic_store(&crew->ended, 1);
  pass_turn(0);
  pass(&crew->done);
  if (lanes) copy_lanes(lanes);
  return took;
}

enum toll_status toll_crew_placed(struct toll_run *r) {
  unsigned unpinned = crew ? atomic_load(&crew->unpinned) + !r->visit->pinned : 0;
  return unpinned ? refuse_places(r, unpinned) : TOLL_OK;
}

void toll_crew_stop(struct toll_run *r) {
  (void)r;
  if (!crew) return;
  crew->iterations = 0;
  pass(&crew->start);
  for (unsigned i = 1; i < worker_count; i++) {
    if (workers[i].role->worker == TOLL_THREAD)
      pthread_join(workers[i].thread, NULL);
    else
      while (waitpid(workers[i].process, NULL, 0) < 0 && errno == EINTR) continue;
  }
  munmap(crew, sizeof *crew);
  crew = NULL;
  worker_count = 1;
}
