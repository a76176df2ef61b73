/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of moving a page to another memory node: move_pages(2), from the node of the calling CPU and back. The
 * kernel allocates a page there, unmaps the old one, flushes its translation, copies and maps the new one.
 *
 * The pages of one call lie side by side; the next call takes the next ones. All pages together are twice the last cache,
 * so that a page's data come from memory, as those of a program that is moved. After a lap the pages go back: a time is the
 * mean of both directions. Each call has a fixed cost, since the kernel first empties the lists of recent pages of all
 * CPUs, and waits for them. The control asks for the same pages on the node that they are on, and nothing is moved.
 *
 * Base pages alone: a huge page is moved whole, or split. The policy of the process stays bound to one node, since the
 * kernel's automatic balancing moves pages of processes without a policy.
 */
#include <errno.h>
#include <string.h>

#include "kernels.h"
#include "numa.h"

enum { MOVE = 2, MOST_PAGES = 256 };

struct moves {
  char *memory;
  size_t pages, calls; /* pages of one call; calls for all the memory */
  unsigned node, home;
  uint64_t made, asked; /* calls of the body; how many it was asked for */
  void *address[MOST_PAGES];
  int to[MOST_PAGES], status[MOST_PAGES];
};

static size_t bytes_of(const struct moves *m) {
  return m->calls * m->pages * toll_page_bytes();
}

/* The node that holds the pages of call number `call`, after `made` calls. */
static unsigned node_after(const struct moves *m, size_t call, uint64_t made) {
  const uint64_t moved = made / m->calls + (call < made % m->calls);
  return moved % 2 ? m->home : m->node;
}

/* Returns 0 if each page is on the node afterwards. */
static long move_to(struct moves *m, size_t call, unsigned node) {
  char *first = m->memory + call * m->pages * toll_page_bytes();
  for (size_t i = 0; i < m->pages; i++) {
    m->address[i] = first + i * toll_page_bytes();
    m->to[i] = (int)node;
  }
  return syscall(SYS_move_pages, 0, (unsigned long)m->pages, m->address, m->to, m->status, MOVE);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct moves *m = r->state;
  if (numa_pair(r, &m->node, &m->home) != TOLL_OK) return toll_refused(r);
  if (m->node == m->home) return toll_skip(r, "a page of memory node %u is on that node already", m->node);
  m->pages = (size_t)toll_number(r, "pages");
  if (!m->pages || m->pages > MOST_PAGES) return toll_fail(r, "pages is from 1 to %d", (int)MOST_PAGES);
  m->calls = 2 * toll_last_cache_bytes() / (m->pages * toll_page_bytes()) + 1;
  m->memory = numa_buffer(r, m->node, m->node, bytes_of(m), TOLL_PAGES_SMALL);
  if (!m->memory) return toll_refused(r);
  numa_bind(m->node);
  span_mark(m->memory, bytes_of(m));
  const bool moved = move_to(m, 0, m->home) == 0 && move_to(m, 0, m->node) == 0;
  return moved ? TOLL_OK : toll_skip(r, "the system refused to move pages: %s", strerror(errno));
}

static void move(struct toll_run *r) {
  struct moves *m = r->state;
  for (uint64_t left = r->iterations; left; left--) {
    const size_t call = m->made % m->calls;
    move_to(m, call, node_after(m, call, m->made) == m->node ? m->home : m->node);
    m->made++;
  }
  m->asked += r->iterations;
}

static void stay(struct toll_run *r) {
  struct moves *m = r->state;
  for (uint64_t i = 0; i < r->iterations; i++) {
    const size_t call = (m->made + i) % m->calls;
    move_to(m, call, node_after(m, call, m->made));
  }
}

static enum toll_status check(struct toll_run *r) {
  const struct moves *m = r->state;
  for (size_t page = 0; page < m->calls * m->pages; page++) {
    const int found = numa_node_of(m->memory + page * toll_page_bytes());
    const unsigned wanted = node_after(m, page / m->pages, m->asked);
    if (found != (int)wanted) return toll_wrong(r, "page %zu is on node %d in place of %u", page, found, wanted);
  }
  const uint32_t *words = (const uint32_t *)(const void *)m->memory;
  for (size_t i = 0; i < bytes_of(m) / sizeof *words; i++)
    if (words[i] != mark_of(i)) return toll_wrong(r, "a page changed when it was moved");
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  const struct moves *m = r->state;
  work->operations = (double)m->pages;
}

static const uint64_t pages[] = {1, 16, MOST_PAGES, TOLL_END};
static const struct toll_parameter parameters[] = {
    NUMA_NODES("memory node of the CPU and the pages", "memory node that the pages go to, and come back from"),
    {.name = "pages", .kind = TOLL_COUNT, .summary = "pages that one call moves", .values = pages, .typical = "256"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "move", .unit = "ns", .summary = "one page moved to another memory node", .means = "move-of-page"},
    {.name = "call",
     .unit = "ns",
     .summary = "one page of the same call where the pages are on that node already",
     .source = TOLL_CONTROL},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to move a page to another memory node?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct moves),
    .prepare = prepare,
    .body = move,
    .control = stay,
    .check = check,
    .work = work,
    .switches = true,
    .revision = 1,
};
