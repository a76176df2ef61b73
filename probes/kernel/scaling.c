/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation of the kernel by 1 to N workers at once, each on a CPU of its own: threads of one process, which share an
 * address space and a table of descriptors, or processes, which share neither. After will-it-scale (Blanchard 2010).
 *
 * The number is throughput while all workers are under way, as will-it-scale counts it, and not the time of the slowest:
 * each worker's rate is of its own window, all windows overlap, and no worker waits for the slowest one. A turn of a
 * companion is about 10 us (a region of pages takes 100 us, a fork 200 us), so that little of its last one lies beyond the
 * timed worker's batch. The row also has the timed worker's own cost.
 *
 * A row of one thread has a second one, which sleeps: the kernel takes a descriptor without counting a reference, and
 * ends a membarrier at once, where no other thread exists (fdget, mm_users). One process has none. So the first row of
 * either is that of a program with threads, and of one without.
 *
 * What processes share too is the word of `futex_wake`, in shared memory, and the file of `stat_same`. All else is a
 * worker's own. A region of `page_fault` has 64 pages and is unmapped whole: one flush of all translations, by an
 * interrupt to each CPU that runs a thread of the process (or ARM's TLBI, AMD's INVLPGB). Such a region stays in the
 * cache and is too short for a transparent huge page.
 *
 * There is no control: the loop around an operation is a call and an addition, 1 ns of at least 50.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toll.h"
#include "tree.h"
#include "wait.h"

enum share { THREADS, PROCESSES };
enum { REGION_PAGES = 64, APART = 3, BALLAST_PAGES = 1024, CHILD_STATUS = 7, LINE = 128, FILE_DEPTH = 4 };
/* membarrier(2); the kernel's own header is not part of every C library. */
enum { BARRIER_PRIVATE = 1 << 3, REGISTER_PRIVATE = 1 << 4 };

struct worker {
  const struct operation *operation;
  _Atomic uint32_t *word;
  int file, pipe_end, epoll; /* file that is duplicated, watched or read; the pipe's end for writing */
  uint8_t byte;
  bool ready;
  pid_t parent;
  int error; /* error of an operation that the system refused */
  size_t region_bytes, page_bytes;
  char *region; /* where the region is mapped again and again */
  uint64_t asked, done;
  char path[TREE_PATH];
  char padding[LINE]; /* neighbours in this array are written by other CPUs */
};

struct scaling {
  struct tree tree;
  struct worker *workers;
  char padding[LINE];
  _Atomic uint32_t word; /* word on which every worker calls wake without a waiter */
};

/* Per worker: what it needs beforehand, in its own process; and one operation. Both return whether they succeeded. */
struct operation {
  bool (*set_up)(struct worker *own);
  bool (*once)(struct worker *own);
  unsigned turn; /* operations of an iteration */
  bool has_own_file, has_ballast;
};

/* ---- operations ---- */

static bool needs_nothing(struct worker *own) {
  (void)own;
  return true;
}

static bool ask_parent(struct worker *own) {
  own->parent = getppid();
  return true;
}

static bool wake_nobody(struct worker *own) {
  return toll_futex_wake(own->word, 1) == 0;
}

static char *map(const struct worker *own) {
  void *start = mmap(own->region, own->region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return start == MAP_FAILED ? NULL : start;
}

static bool map_and_unmap(struct worker *own) {
  char *start = map(own);
  return start && munmap(start, own->region_bytes) == 0;
}

static bool map_touch_and_unmap(struct worker *own) {
  volatile char *const start = map(own);
  if (!start) return false;
  for (size_t at = 0; at < own->region_bytes; at += own->page_bytes) start[at] = 1;
  return munmap((void *)(uintptr_t)start, own->region_bytes) == 0;
}

static bool open_one(struct worker *own) {
  own->file = eventfd(1, EFD_CLOEXEC);
  return own->file >= 0;
}

static bool dup_and_close(struct worker *own) {
  const int copy = dup(own->file);
  return copy >= 0 && close(copy) == 0;
}

static bool ask_path(struct worker *own) {
  struct stat status;
  return stat(own->path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool open_pipe(struct worker *own) {
  int ends[2];
  if (pipe(ends) < 0) return false;
  own->file = ends[0], own->pipe_end = ends[1];
  return true;
}

static bool write_and_read(struct worker *own) {
  const uint8_t sent = ++own->byte;
  uint8_t got = (uint8_t)~sent;
  return write(own->pipe_end, &sent, 1) == 1 && read(own->file, &got, 1) == 1 && got == sent;
}

/* An eventfd with a number in it stays ready, since no program reads it. */
static bool watch_one(struct worker *own) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = REGION_PAGES};
  own->epoll = epoll_create1(EPOLL_CLOEXEC);
  return own->epoll >= 0 && open_one(own) && epoll_ctl(own->epoll, EPOLL_CTL_ADD, own->file, &event) == 0;
}

static bool ask_ready(struct worker *own) {
  struct epoll_event event = {.data.u32 = 0};
  return epoll_wait(own->epoll, &event, 1, 0) == 1 && event.data.u32 == REGION_PAGES;
}

static bool register_barrier(struct worker *own) {
  (void)own;
#ifdef SYS_membarrier
  return syscall(SYS_membarrier, REGISTER_PRIVATE, 0, 0) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

static bool order_all(struct worker *own) {
  (void)own;
#ifdef SYS_membarrier
  return syscall(SYS_membarrier, BARRIER_PRIVATE, 0, 0) == 0;
#else
  return false;
#endif
}

static bool fork_and_wait(struct worker *own) {
  int status = 0;
  const pid_t child = fork();
  (void)own;
  if (child == 0) _exit(CHILD_STATUS);
  if (child < 0) return false;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS;
}

static void *thread_body(void *ran) {
  *(bool *)ran = true;
  return NULL;
}

static bool create_and_join(struct worker *own) {
  pthread_t thread;
  bool ran = false;
  (void)own;
  errno = pthread_create(&thread, NULL, thread_body, &ran);
  return errno == 0 && pthread_join(thread, NULL) == 0 && ran;
}

static bool yield_to_nobody(struct worker *own) {
  (void)own;
  return sched_yield() == 0;
}

static const char *const names[] = {"getppid",   "futex_wake", "map",   "page_fault", "dup",
                                    "stat_same", "stat_own",   "pipe",  "epoll_wait", "membarrier",
                                    "fork",      "thread",     "yield", NULL};
/* In the order of their names. */
static const struct operation operations[] = {
    {needs_nothing, ask_parent, .turn = 64},
    {needs_nothing, wake_nobody, .turn = 64},
    {needs_nothing, map_and_unmap, .turn = 16},
    {needs_nothing, map_touch_and_unmap, .turn = 1},
    {open_one, dup_and_close, .turn = 32},
    {needs_nothing, ask_path, .turn = 16},
    {needs_nothing, ask_path, .turn = 16, .has_own_file = true},
    {open_pipe, write_and_read, .turn = 16},
    {watch_one, ask_ready, .turn = 32},
    {register_barrier, order_all, .turn = 8},
    {needs_nothing, fork_and_wait, .turn = 1, .has_ballast = true},
    {needs_nothing, create_and_join, .turn = 1},
    {needs_nothing, yield_to_nobody, .turn = 32},
};

static bool is_of_pages(const struct worker *own) {
  return own->operation->once == map_touch_and_unmap;
}

/* ---- workers ---- */

static unsigned workers_of(const struct toll_run *r) {
  return (unsigned)toll_number(r, "workers");
}

static unsigned other_threads(const struct toll_run *r) {
  return toll_choice(r, "share") == THREADS ? workers_of(r) - 1 : 0;
}

static unsigned other_processes(const struct toll_run *r) {
  return toll_choice(r, "share") == PROCESSES ? workers_of(r) - 1 : 0;
}

static void *sleep_for_ever(void *nothing) {
  (void)nothing;
  for (;;) pause();
  return NULL;
}

static enum toll_status refuse(struct toll_run *r, int error) {
  const char *const name = names[toll_choice(r, "of")];
  if (error == EAGAIN)
    return toll_skip(r, "no process or thread could be started for %s: ulimit -u or a control group (pids.max)", name);
  return toll_skip(r, "the system refused %s: %s", name, strerror(error));
}

/* Signals are the timed worker's. The thread ends with the process. */
static enum toll_status start_sleeper(struct toll_run *r) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread, NULL, sleep_for_ever, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error ? refuse(r, error) : TOLL_OK;
}

/* Maps memory whose page tables fork copies, equal in each worker: a process has those of its parent. */
static bool take_ballast(struct toll_run *r) {
  const struct toll_buffer_request pages = {.bytes = BALLAST_PAGES * toll_page_bytes(), .pages = TOLL_PAGES_SMALL};
  return toll_buffer(r, pages) != NULL;
}

/* Addresses for the regions, apart from each other and from all other maps: beside a map of the same kind the kernel makes
 * one of both, and splits it again, which takes twice as long and locks the other one. A program meets either by chance,
 * will-it-scale too: 305,000 maps a second in one process and 155,000 in the next. */
static char *find_addresses(size_t bytes) {
  void *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return start != MAP_FAILED && munmap(start, bytes) == 0 ? start : NULL;
}

static enum toll_status lay_out(struct toll_run *r, const struct operation *operation) {
  struct scaling *s = r->state;
  const unsigned count = workers_of(r);
  s->workers = toll_buffer(r, (struct toll_buffer_request){.bytes = count * sizeof *s->workers, .shared = true});
  if (!s->workers || (operation->has_ballast && !take_ballast(r))) return toll_refused(r);
  s->tree = (struct tree){.depth = FILE_DEPTH, .files = count};
  const size_t region_bytes = REGION_PAGES * toll_page_bytes();
  char *const addresses = find_addresses(APART * count * region_bytes);
  const bool has_files = operation->once == ask_path;
  if (has_files && tree_make(r, &s->tree) != TOLL_OK) return toll_refused(r);
  for (unsigned i = 0; i < count; i++) {
    struct worker *worker = &s->workers[i];
    worker->operation = operation;
    worker->word = &s->word;
    worker->page_bytes = toll_page_bytes();
    worker->region_bytes = region_bytes;
    worker->region = addresses ? addresses + (APART * i + 1) * region_bytes : NULL;
    if (has_files) tree_path(&s->tree, operation->has_own_file ? i : 0, worker->path);
  }
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  const struct operation *operation = &operations[toll_choice(r, "of")];
  const uint64_t count = toll_number(r, "workers");
  if (count < 1) return toll_fail(r, "workers are 1 or more");
  if (count > r->cpu_count)
    return toll_skip(r, "%llu workers need as many CPUs, and this run may use %u", (unsigned long long)count,
                     r->cpu_count);
  if (lay_out(r, operation) != TOLL_OK) return toll_refused(r);
  struct worker trial = ((struct scaling *)r->state)->workers[0];
  const bool works = operation->set_up(&trial) && operation->once(&trial);
  if (!works) return refuse(r, errno);
  return count == 1 && toll_choice(r, "share") == THREADS ? start_sleeper(r) : TOLL_OK;
}

/* ---- the work ---- */

static void operate(struct toll_run *r) {
  struct worker *own = &((struct scaling *)r->state)->workers[r->worker];
  const struct operation *operation = own->operation;
  bool (*const once)(struct worker * own) = operation->once;
  const uint64_t asked = r->iterations * operation->turn;
  uint64_t done = 0;
  if (!own->ready) own->ready = operation->set_up(own);
  for (uint64_t i = own->ready ? asked : 0; i; i--) done += once(own);
  if (done != asked) own->error = errno;
  own->asked += asked;
  own->done += done;
}

/* A refusal of memory, of descriptors or of processes is a gap; anything else is wrong. */
static bool is_refusal(int error) {
  return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
}

static enum toll_status check_faults(struct toll_run *r, struct worker *own) {
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  own->done += own->operation->once(own);
  getrusage(RUSAGE_SELF, &after);
  own->asked++;
  const long counted = after.ru_minflt - before.ru_minflt;
  if (toll_accounts_are_own() && counted < REGION_PAGES)
    return toll_skip(r, "the system counted %ld faults for %d pages", counted, REGION_PAGES);
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  struct scaling *s = r->state;
  for (unsigned i = 0; i < r->workers; i++) {
    const struct worker *worker = &s->workers[i];
    if (worker->done != worker->asked && is_refusal(worker->error)) return refuse(r, worker->error);
    if (worker->done != worker->asked || !worker->asked)
      return toll_wrong(r, "worker %u did %llu of %llu operations", i, (unsigned long long)worker->done,
                        (unsigned long long)worker->asked);
  }
  if (s->workers->operation->once == ask_parent && s->workers->parent != getppid())
    return toll_wrong(r, "getppid returned %ld", (long)s->workers->parent);
  return is_of_pages(s->workers) ? check_faults(r, s->workers) : TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct worker *own = ((const struct scaling *)r->state)->workers;
  work->operations = own->operation->turn * (is_of_pages(own) ? REGION_PAGES : 1);
}

/* ---- description ---- */

static const struct toll_role roles[] = {
    {.name = "process", .body = operate, .worker = TOLL_PROCESS, .pace = TOLL_BACKGROUND, .count = other_processes},
    {.name = "thread", .body = operate, .worker = TOLL_THREAD, .pace = TOLL_BACKGROUND, .count = other_threads},
    {0}};
static const char *const shares[] = {"threads", "processes", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "of", .kind = TOLL_CHOICE, .summary = "what each worker does", .choices = names},
    {.name = "workers",
     .kind = TOLL_COUNT,
     .summary = "workers at once, each on a CPU of its own",
     .from = 1,
     .to = 1,
     .to_scale = TOLL_TIMES_CPUS,
     .per_octave = 1},
    {.name = "share",
     .kind = TOLL_CHOICE,
     .summary = "what they share: all that threads of a process do, or nothing, as processes",
     .choices = shares},
    {0}};
static const struct toll_metric metrics[] = {{.name = "together",
                                              .unit = "op/s",
                                              .better = TOLL_MORE,
                                              .summary = "operations a second of all workers",
                                              .source = TOLL_TOGETHER,
                                              .means = "throughput-of-workers"},
                                             {.name = "own",
                                              .unit = "ns",
                                              .summary = "one operation of one worker, while all others work",
                                              .means = "operation-of-workers"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "How does the kernel scale: what do 1 to N threads, or processes, do in a second?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct scaling),
    .prepare = prepare,
    .body = operate,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .faults = true,
    .enters = true,
    .revision = 1,
};
