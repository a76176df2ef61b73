/* SPDX-License-Identifier: Apache-2.0
 *
 * The first access to a page, served by pagers at increasing distance.
 *
 *   kernel           finds a page of zeros by itself
 *   signal           the program's own handler opens the page by a change of its protection, as garbage collectors and
 *                    checkpointers do
 *   userfault_signal the kernel asks the program's handler for a page, which it gives through a file (userfaultfd)
 *   userfault        the same asked of another thread, which the program sleeps for: pagers of migrating virtual machines
 *   userfault_copy   that thread gives a copy of a page that it has, as such a pager does (UFFDIO_COPY)
 *   userfault_move   it gives the page itself (UFFDIO_MOVE, Linux 6.8), as a garbage collector that compacts a heap does
 *   userfault_write_protect
 *                    the page is there and protected, and that thread permits the store: snapshots and write barriers
 *
 * Zeros are cheap to give and are paid for twice: the kernel maps its one page of zeros, and the store that goes on takes
 * a second fault to get a page of its own. A page that is copied or moved is written to at once.
 *
 * A microkernel's external pager is the last of them, and "Speed limits" entered its kernel by such an abort for every
 * call. The pages are given back with the watch stopped. Pager and program share a CPU; the pager's wake-up is then a
 * switch and no more.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toll.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFDIO_MOVE
#define UFFD_FEATURE_MOVE (1 << 16)
#define UFFDIO_MOVE       _IOWR(UFFDIO, 0x05, struct uffdio_move)
struct uffdio_move {
  __u64 dst, src, len, mode;
  __s64 move;
};
#endif

enum by { KERNEL, SIGNAL, USERFAULT_SIGNAL, USERFAULT, USERFAULT_COPY, USERFAULT_MOVE, USERFAULT_WRITE_PROTECT };
enum { PAGES = 64, MARK = 0x3c, GIVEN = 0x5a };

struct paged {
  char *start;
  size_t next;
  uint64_t asked, served;
  int refused; /* why the system took no page back, or 0 */
};

/* The handler's data, since a signal has no other argument. */
static struct {
  unsigned by;
  int file;
  size_t page_bytes;
  char *start, *source; /* bytes of the program's pages, and of the pages that are copied or moved there */
  volatile uint64_t served;
  volatile int refused; /* why the kernel took no page from the pager, or 0 */
} pager;

/* ---- giving a page ---- */

static char *page_of(uintptr_t address) {
  return (char *)(address & ~(uintptr_t)(pager.page_bytes - 1));
}

/* The kernel refuses while a page is in use elsewhere, as by compaction, and then asks for another try. */
static bool ask(unsigned long request, void *what) {
  enum { MOST_TRIES = 1000 };
  for (unsigned tries = 0; tries < MOST_TRIES; tries++) {
    if (ioctl(pager.file, request, what) == 0) return true;
    if (errno != EAGAIN && errno != EBUSY) break;
  }
  pager.refused = errno;
  return false;
}

static bool give_zeros(char *page) {
  struct uffdio_zeropage zeros = {.range = {(uintptr_t)page, pager.page_bytes}};
  return ask(UFFDIO_ZEROPAGE, &zeros);
}

static bool give_copy(char *page) {
  struct uffdio_copy copy = {.dst = (uintptr_t)page, .src = (uintptr_t)pager.source, .len = pager.page_bytes};
  return ask(UFFDIO_COPY, &copy);
}

static bool give_own(char *page) {
  const uintptr_t own = (uintptr_t)(pager.source + (page - pager.start));
  struct uffdio_move move = {.dst = (uintptr_t)page, .src = own, .len = pager.page_bytes};
  return ask(UFFDIO_MOVE, &move);
}

static bool protect(char *start, size_t bytes, uint64_t mode) {
  struct uffdio_writeprotect range = {.range = {(uintptr_t)start, bytes}, .mode = mode};
  return ask(UFFDIO_WRITEPROTECT, &range);
}

static bool answer(const struct uffd_msg *message) {
  char *page = page_of((uintptr_t)message->arg.pagefault.address);
  const bool is_protected = message->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP;
  if (is_protected != (pager.by == USERFAULT_WRITE_PROTECT)) return false;
  switch (pager.by) {
    case USERFAULT_COPY: return give_copy(page);
    case USERFAULT_MOVE: return give_own(page);
    case USERFAULT_WRITE_PROTECT: return protect(page, pager.page_bytes, 0);
    default: return give_zeros(page);
  }
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number, (void)context;
  char *page = page_of((uintptr_t)info->si_addr);
  const bool given =
      pager.by == SIGNAL ? mprotect(page, pager.page_bytes, PROT_READ | PROT_WRITE) == 0 : give_zeros(page);
  if (!given) _exit(1); /* it would fault again for ever */
  pager.served++;
}

/* ---- putting a pager in charge ---- */

static long open_userfaults(uint64_t features) {
  struct uffdio_api api = {.api = UFFD_API, .features = features};
  pager.file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  return pager.file < 0 ? -1 : ioctl(pager.file, UFFDIO_API, &api);
}

static long watch(char *start) {
  const uint64_t mode = pager.by == USERFAULT_WRITE_PROTECT ? UFFDIO_REGISTER_MODE_WP : UFFDIO_REGISTER_MODE_MISSING;
  struct uffdio_register range = {.range = {(uintptr_t)start, PAGES * pager.page_bytes}, .mode = mode};
  return ioctl(pager.file, UFFDIO_REGISTER, &range);
}

static void catch_faults(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
}

static enum toll_status take_charge(struct toll_run *r, char *start) {
  if (pager.by == SIGNAL || pager.by == USERFAULT_SIGNAL) catch_faults();
  if (pager.by < USERFAULT_SIGNAL) return TOLL_OK;
  static const uint64_t features[] = {[USERFAULT_SIGNAL] = UFFD_FEATURE_SIGBUS,
                                      [USERFAULT_MOVE] = UFFD_FEATURE_MOVE,
                                      [USERFAULT_WRITE_PROTECT] = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
  if (open_userfaults(features[pager.by]) < 0 || watch(start) < 0)
    return toll_skip(r, "the kernel lets no program serve its own faults in this way: %s", strerror(errno));
  return TOLL_OK;
}

static void fill(char *start, char byte) {
  for (size_t i = 0; i < PAGES; i++) memset(start + i * pager.page_bytes, byte, 2);
}

/* Without pages, or without permission for them. */
static void start_again(struct paged *paged) {
  const size_t bytes = PAGES * pager.page_bytes;
  toll_timer_pause();
  if (pager.by == USERFAULT_WRITE_PROTECT) {
    fill(paged->start, GIVEN);
    if (!protect(paged->start, bytes, UFFDIO_WRITEPROTECT_MODE_WP)) paged->refused = errno;
  } else if (madvise(paged->start, bytes, MADV_DONTNEED) < 0)
    paged->refused = errno;
  if (pager.by == SIGNAL) mprotect(paged->start, bytes, PROT_NONE);
  if (pager.by == USERFAULT_MOVE) fill(pager.source, GIVEN);
  paged->next = 0;
  toll_timer_resume();
}

static char *map_pages(void) {
  char *start = mmap(NULL, PAGES * pager.page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return NULL;
  madvise(start, PAGES * pager.page_bytes, MADV_NOHUGEPAGE); /* refused where there are none */
  return start;
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct paged *paged = r->state;
  pager.by = toll_choice(r, "by");
  pager.page_bytes = toll_page_bytes();
  paged->start = pager.start = map_pages();
  pager.source = map_pages();
  if (!pager.start || !pager.source) return toll_skip(r, "the system refused a map: %s", strerror(errno));
  /* A page that a forked copy of the program has too cannot be moved. */
  madvise(pager.source, PAGES * pager.page_bytes, MADV_DONTFORK);
  fill(pager.source, GIVEN);
  paged->next = PAGES;
  return take_charge(r, paged->start);
}

static void touch(struct toll_run *r) {
  struct paged *paged = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    if (paged->next == PAGES) start_again(paged);
    *(volatile char *)(paged->start + paged->next++ * pager.page_bytes) = MARK;
  }
  paged->asked += r->iterations;
}

/* The thread that pages: one message, one page. */
static void serve(struct toll_run *r) {
  struct paged *paged = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    struct uffd_msg message;
    if (read(pager.file, &message, sizeof message) != (ssize_t)sizeof message) return;
    if (answer(&message))
      paged->served++;
    else
      give_zeros(page_of((uintptr_t)message.arg.pagefault.address)); /* the program would sleep for ever */
  }
}

static unsigned pagers(const struct toll_run *r) {
  return toll_choice(r, "by") >= USERFAULT;
}
static unsigned same_cpu(const struct toll_run *r, unsigned worker) {
  (void)r, (void)worker;
  return 0;
}

static enum toll_status check(struct toll_run *r) {
  const struct paged *paged = r->state;
  if (paged->refused) return toll_skip(r, "the system takes no pages back: %s", strerror(paged->refused));
  const uint64_t served = pager.by >= USERFAULT ? paged->served : pager.served;
  const char second = pager.by >= USERFAULT_COPY ? GIVEN : 0;
  if (pager.refused) return toll_skip(r, "the kernel takes no page from the pager: %s", strerror(pager.refused));
  if (pager.by != KERNEL && served != paged->asked)
    return toll_wrong(r, "%llu of %llu touches were served by the pager", (unsigned long long)served,
                      (unsigned long long)paged->asked);
  for (size_t i = 0; i < paged->next; i++) {
    const char *page = paged->start + i * pager.page_bytes;
    if (page[0] != MARK || page[1] != second) return toll_wrong(r, "page %zu does not hold what was stored", i);
  }
  return TOLL_OK;
}

static const struct toll_role roles[] = {
    {.name = "pager", .body = serve, .worker = TOLL_THREAD, .pace = TOLL_LOCKSTEP, .count = pagers, .cpu = same_cpu},
    {0}};
static const char *const names[] = {"kernel",         "signal",         "userfault_signal",        "userfault",
                                    "userfault_copy", "userfault_move", "userfault_write_protect", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "by", .kind = TOLL_CHOICE, .summary = "what serves the fault", .choices = names}, {0}};
static const struct toll_metric metrics[] = {{.name = "fault",
                                              .unit = "ns",
                                              .summary = "the first store to one page, served",
                                              .means = "supervised-fault",
                                              .toll = "page fault served by {by}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a page fault cost when a program pages for itself?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct paged),
    .prepare = prepare,
    .body = touch,
    .check = check,
    .roles = roles,
    .quantum = PAGES, /* whole regions */
    .switches = true,
    .faults = true,
    .pauses = true,
    .revision = 1,
};
