/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of one operation that the kernel performs through a ring (io_uring), over the number submitted at once: one
 * io_uring_enter submits `depth` requests and returns with all of them completed. So an operation pays its request, its
 * completion and one depth-th of an entry.
 *
 * nop is the ring alone. read copies 4 KiB of the page cache; read_fixed does the same with a file and buffers that were
 * registered, so that no request looks up the descriptor or the buffer's pages. pread is the yardstick: the plain system
 * call, as often, of the same bytes into the same buffers. Each request has a page of its own, as reads at once must:
 * 64 pages exceed a first data cache, and pread pays for that too.
 *
 * A read completes within the submission only where the file system promises not to block (FMODE_NOWAIT: ext4, XFS and
 * Btrfs, but not tmpfs, nor a memfd). Any other read is handed to a thread of the kernel, and the number is that of two
 * switches: 5.3 us in place of 1.0. The probe reads in the run's folder, and says so where its file is of that kind.
 *
 * polled: a thread of the kernel on another CPU polls the ring for requests and the program polls for completions, so
 * that neither enters the kernel while the thread is awake. It goes to sleep after 10 ms without a request, and is woken
 * by the first one after that: between two batches of a sample it stays awake, and beside the next visit it is gone. It
 * is pinned: the program spins at real-time priority, and a thread on its CPU would never run.
 *
 * An iteration has about 64 operations at every depth: 64 / depth turns of one entry each. So a batch is too long to be stepped
 * through: how often a program polls while each of its instructions is a stop says nothing of its work.
 */
#define _GNU_SOURCE 1
#include <string.h>
#include <sys/uio.h>

#include "io_ring.h"
#include "medium.h"
#include "toll.h"

enum operation { NOP, READ, READ_FIXED, PREAD };
enum { PAGE = 4096, MOST_DEPTH = 64, IDLE_MS = 10, NO_WAIT = 8 /* RWF_NOWAIT, which not every C library defines */ };

struct requests {
  struct io_ring ring; /* ring of the timed worker's process */
  enum operation operation;
  bool polled;
  uint32_t depth, turns; /* operations of a turn, and turns of an iteration */
  int file;
  char *buffers; /* a page of each request */
  char page[PAGE];
  int error;            /* error of an entry after which not all requests were completed */
  int32_t result;       /* the last that was not as expected */
  uint64_t asked, done; /* operations; a request's user_data is its number */
  uint64_t wrong, strange;
};

static const char *const operations[] = {"nop", "read", "read_fixed", "pread", NULL};

/* ---- the file ---- */

static bool is_of_blocking_reads(const struct requests *q) {
  const struct iovec page = {q->buffers, PAGE};
  return syscall(SYS_preadv2, q->file, &page, 1, 0, 0, NO_WAIT) < 0 && errno == EOPNOTSUPP;
}

static enum toll_status make_file(struct toll_run *r) {
  struct requests *q = r->state;
  const char *folder = toll_folder(r);
  uint64_t random = r->seed;
  const struct toll_buffer_request pages = {.bytes = q->depth * PAGE, .pages = TOLL_PAGES_SMALL, .shared = true};
  for (unsigned i = 0; i < PAGE; i++) q->page[i] = (char)toll_random(&random);
  q->buffers = toll_buffer(r, pages);
  if (!q->buffers) return toll_refused(r);
  q->file = open_nameless(folder, 0);
  if (q->file < 0 || pwrite(q->file, q->page, PAGE, 0) != PAGE) return refuse_file(r, folder, errno);
  if (q->operation == PREAD || !is_of_blocking_reads(q)) return TOLL_OK;
  return toll_skip(r,
                   "the file system of %.160s may block a read, which io_uring then leaves to another thread: "
                   "--folder FOLDER names another one",
                   folder);
}

/* ---- the ring ---- */

/* A thread on the timed worker's core would take execution units from it. */
static int poller_of(const struct toll_run *r) {
  for (unsigned i = 1; i < r->cpu_count; i++)
    if (!toll_share_core(r->cpus[0], r->cpus[i])) return r->cpus[i];
  return r->cpus[1];
}

static enum toll_status register_both(struct toll_run *r) {
  struct requests *q = r->state;
  const struct iovec buffers = {q->buffers, q->depth * PAGE};
  const int ring = q->ring.file;
  if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffers, 1) < 0 ||
      syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &q->file, 1) < 0)
    return io_ring_refuse(r, errno);
  return TOLL_OK;
}

static enum toll_status open_ring(struct toll_run *r) {
  struct requests *q = r->state;
  struct io_uring_params params = {0};
  if (q->polled && r->cpu_count < 2)
    return toll_skip(r, "a thread that polls needs a CPU beside the timed one, and this run may use one");
  if (q->polled) {
    params.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF;
    params.sq_thread_cpu = (uint32_t)poller_of(r);
    params.sq_thread_idle = IDLE_MS;
  }
  if (!io_ring_open(&q->ring, q->depth, &params)) return io_ring_refuse(r, errno);
  if (q->operation == READ && io_ring_needs_reads(r, &q->ring) != TOLL_OK) return toll_refused(r);
  if (q->polled && q->operation == READ && !(q->ring.features & IORING_FEAT_SQPOLL_NONFIXED))
    return toll_skip(r, "a thread that polls reads registered files alone before Linux 5.11");
  return q->operation == READ_FIXED ? register_both(r) : TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct requests *q = r->state;
  const uint64_t depth = toll_number(r, "depth");
  q->operation = toll_choice(r, "operation");
  q->polled = toll_choice(r, "polled");
  if (depth < 1 || depth > MOST_DEPTH)
    return toll_skip(r, "1 to %d operations are submitted at once, not %llu", MOST_DEPTH, (unsigned long long)depth);
  if (q->operation == PREAD && q->polled) return toll_skip(r, "pread has no ring that a thread could poll");
  q->depth = (uint32_t)depth;
  q->turns = MOST_DEPTH / q->depth;
  if (q->operation != NOP && make_file(r) != TOLL_OK) return toll_refused(r);
  return q->operation == PREAD ? TOLL_OK : open_ring(r);
}

/* ---- the work ---- */

static inline void write_requests(struct requests *q) {
  for (uint32_t k = 0; k < q->depth; k++) {
    struct io_uring_sqe *request = io_ring_place(&q->ring, k);
    *request = (struct io_uring_sqe){.opcode = IORING_OP_NOP, .user_data = q->asked + k};
    if (q->operation == NOP) continue;
    request->addr = (uint64_t)(uintptr_t)(q->buffers + k * PAGE);
    request->len = PAGE;
    request->opcode = q->operation == READ ? IORING_OP_READ : IORING_OP_READ_FIXED;
    request->fd = q->operation == READ ? q->file : 0; /* 0: the first registered file */
    request->flags = q->operation == READ ? 0 : IOSQE_FIXED_FILE;
  }
}

/* The thread sets its flag, looks at the tail once more and sleeps: the fence is between the store to the tail and the
 * load of the flag. */
static inline bool await_poller(struct requests *q) {
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(q->ring.flags, memory_order_relaxed) & IORING_SQ_NEED_WAKEUP)
    if (syscall(SYS_io_uring_enter, q->ring.file, q->depth, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) < 0) return false;
  while (io_ring_completed(&q->ring) < q->depth) toll_relax();
  return true;
}

/* Completions may come in any order: each number of the turn once. */
static inline void take_completions(struct requests *q) {
  const int32_t expected = q->operation == NOP ? 0 : PAGE;
  uint64_t seen = 0;
  for (uint32_t k = 0; k < q->depth; k++) {
    const struct io_uring_cqe *completion = io_ring_completion(&q->ring, k);
    const uint64_t number = completion->user_data - q->asked;
    if (number < q->depth) seen |= UINT64_C(1) << number;
    if (completion->res == expected) continue;
    q->wrong++;
    q->result = completion->res;
  }
  io_ring_release(&q->ring, q->depth);
  q->strange += seen != UINT64_MAX >> (MOST_DEPTH - q->depth);
}

static void submit(struct toll_run *r) {
  struct requests *q = r->state;
  for (uint64_t i = r->iterations * q->turns; i && !q->error; i--) {
    errno = 0;
    write_requests(q);
    io_ring_publish(&q->ring, q->depth);
    const bool entered = q->polled ? await_poller(q) : io_ring_enter(&q->ring, q->depth, q->depth) == (long)q->depth;
    if (entered && io_ring_completed(&q->ring) >= q->depth)
      take_completions(q);
    else
      q->error = errno ? errno : EIO;
    q->asked += q->depth;
  }
}

static void read_plainly(struct toll_run *r) {
  struct requests *q = r->state;
  for (uint64_t i = r->iterations * q->turns; i; i--)
    for (uint32_t k = 0; k < q->depth; k++) q->wrong += pread(q->file, q->buffers + k * PAGE, PAGE, 0) != PAGE;
}

static void operate(struct toll_run *r) {
  struct requests *q = r->state;
  if (q->operation == PREAD)
    read_plainly(r);
  else
    submit(r);
  q->done += r->iterations * q->turns * q->depth;
}

/* The buffers are cleared: only new reads fill them for the next check. */
static enum toll_status check(struct toll_run *r) {
  struct requests *q = r->state;
  if (q->error) return toll_fail(r, "io_uring_enter did not complete all requests: %s", strerror(q->error));
  if (q->wrong && q->result < 0) return toll_skip(r, "io_uring refused the request: %s", strerror(-q->result));
  if (q->wrong) return toll_wrong(r, "%llu operations had a wrong result", (unsigned long long)q->wrong);
  if (q->strange) return toll_wrong(r, "%llu turns lost a completion or had one twice", (unsigned long long)q->strange);
  if (q->operation != PREAD && q->asked != q->done)
    return toll_wrong(r, "%llu of %llu operations were submitted", (unsigned long long)q->asked,
                      (unsigned long long)q->done);
  if (q->operation == NOP) return TOLL_OK;
  for (uint32_t k = 0; k < q->depth; k++)
    if (memcmp(q->buffers + k * PAGE, q->page, PAGE) != 0) return toll_wrong(r, "read %u is not the file's bytes", k);
  memset(q->buffers, 0, q->depth * PAGE);
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct requests *q = r->state;
  work->operations = q->turns * q->depth;
}

static const char *const whether[] = {"no", "yes", NULL};
static const uint64_t depths[] = {1, 2, 4, 8, 16, 32, MOST_DEPTH, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "depth",
     .kind = TOLL_COUNT,
     .summary = "operations that one io_uring_enter submits and waits for",
     .values = depths,
     .typical = "1"},
    {.name = "operation",
     .kind = TOLL_CHOICE,
     .summary = "what is asked: nothing, 4 KiB of a file in memory, the same by registered file and buffer, or by the "
                "plain system call",
     .choices = operations},
    {.name = "polled",
     .kind = TOLL_CHOICE,
     .summary = "whether a thread of the kernel polls for requests on another CPU (IORING_SETUP_SQPOLL)",
     .choices = whether,
     .typical = "no"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "operation",
                                              .unit = "ns",
                                              .summary = "one operation of those submitted at once",
                                              .toll = "I/O request, {operation}, {depth} at once"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does an operation through io_uring cost, and how many at once cost less than plain system calls?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct requests),
    .prepare = prepare,
    .body = operate,
    .check = check,
    .work = work,
    .enters = true,
    .spreads = true,
    .revision = 1,
};
