/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts how often batches of n and of 2n iterations enter a page of the probe's buffers, which gives the bytes that an
 * iteration accesses, independently of the probe's declaration. It is meant for a body that processes its buffers page
 * by page.
 *
 * A copy of the process counts. In it only the last few accessed pages are accessible. An access to another page raises
 * a signal, whose handler counts it and opens the page. The pages and their layout stay as they are in the measured
 * process, which shares them with the copy until that ends; its own first store to each costs a fault, in no sample.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

enum { OPEN = 8, LEAST_PAGES = 128, MOST_PAGES = 1024, USUAL_TOUCHES = 4096, MOST_TOUCHES = 32768 };

static struct {
  const struct toll_visit *visit;
  char *open[OPEN]; /* a ring of pages that may be accessed */
  uint64_t touches;
} touch;

/* In memory that the copy shares: once the copy has ended, how often pages were entered. */
struct found {
  uint64_t touches[2];
  bool whole;
};

static size_t page_bytes;

static char *page_of(const void *address) {
  return (char *)((uintptr_t)address / page_bytes * page_bytes);
}

static bool is_ours(const char *address) {
  for (unsigned i = 0; i < touch.visit->buffer_count; i++) {
    const struct toll_stretch *buffer = &touch.visit->buffers[i];
    if (address >= page_of(buffer->start) && address < buffer->start + buffer->bytes) return true;
  }
  return false;
}

/* An access outside of the buffers is an error of the body, and ends the copy. */
static void on_access(int number, siginfo_t *info, void *nothing) {
  (void)number, (void)nothing;
  char **oldest = &touch.open[touch.touches % OPEN], *page = page_of(info->si_addr);
  if (!is_ours(info->si_addr) || touch.touches++ > MOST_TOUCHES) _exit(1);
  if (*oldest && mprotect(*oldest, page_bytes, PROT_NONE) < 0) _exit(1);
  if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) < 0) _exit(1);
  *oldest = page;
}

static void close_pages(void) {
  memset(touch.open, 0, sizeof touch.open);
  touch.touches = 0;
  for (unsigned i = 0; i < touch.visit->buffer_count; i++) {
    const struct toll_stretch *buffer = &touch.visit->buffers[i];
    char *start = page_of(buffer->start), *end = buffer->start + buffer->bytes;
    if (mprotect(start, (size_t)(end - start), PROT_NONE) < 0) _exit(1);
  }
}

static void count_touches(struct toll_run *r, uint64_t iterations, struct found *found) {
  enum { LONGEST_S = 1 };
  const struct sigaction action = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  signal(SIGALRM, SIG_DFL);
  alarm(LONGEST_S);
  for (unsigned i = 0; i < 2; i++) {
    close_pages();
    r->iterations = iterations << i;
    r->visit->probe->body(r);
    found->touches[i] = touch.touches;
  }
  found->whole = true;
}

/* The copy's body has moved on in the state, which the copy shares. */
static void run_copy(struct toll_run *r, uint64_t iterations, struct found *found) {
  const size_t bytes = r->visit->probe->state_bytes;
  void *state = malloc(bytes + 1);
  if (!state) return;
  if (bytes) memcpy(state, r->state, bytes);
  const pid_t copy = fork();
  if (!copy) {
    count_touches(r, iterations, found);
    _exit(0);
  }
  if (copy > 0) waitpid(copy, NULL, 0);
  if (bytes) memcpy(r->state, state, bytes);
  free(state);
}

void toll_touch(struct toll_run *r) {
  const struct toll_visit *visit = r->visit;
  page_bytes = toll_page_bytes();
  const uint64_t pages = visit->buffer_bytes / page_bytes, quantum = visit->probe->quantum ? visit->probe->quantum : 1;
  if (visit->buffer_count > TOLL_MOST_STRETCHES || !visit->buffer_count || visit->chase_bytes) return;
  if (pages < LEAST_PAGES || pages > MOST_PAGES || visit->probe->pauses || visit->probe->faults) return;
  struct found *found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return;
  uint64_t iterations = USUAL_TOUCHES / 3 / pages;
  if (!iterations || iterations > visit->sampled || quantum > 1) iterations = quantum;
  touch.visit = visit;
  run_copy(r, iterations, found);
  if (found->whole) {
    toll_put_open("entered", '[');
    toll_put_count(NULL, iterations);
    for (unsigned i = 0; i < 2; i++) toll_put_count(NULL, found->touches[i] * page_bytes);
    toll_put_close(']');
  }
  munmap(found, sizeof *found);
}
