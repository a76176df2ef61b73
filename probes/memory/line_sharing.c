/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of two CPUs that write different words of one line (false sharing), over the distance of the words: the line
 * moves back and forth although no datum is shared. Where the words are a line or more apart each CPU keeps its own,
 * and a count costs what it costs alone; so this finds the line as the coherence protocol has it, which memory.line
 * finds as the cache fills it.
 *
 * A count is an atomic addition, as programs count: it needs the line at once. Plain additions hide what happens, since
 * a core hands the stored word to the next load from its store buffer and never looks at the line.
 */
#include <stdatomic.h>

#include "asked.h"

#define PAGE 4096

struct counters {
  _Atomic unsigned long *mine, *others;
  uint64_t counted[2];
};

static enum toll_status prepare(struct toll_run *r) {
  struct counters *c = r->state;
  size_t distance;
  if (asked(r, "distance", &distance) != TOLL_OK) return toll_refused(r);
  if (distance < sizeof(long) || distance > PAGE / 2 || distance % sizeof(long))
    return toll_fail(r, "a distance is a multiple of %zu up to %d bytes", sizeof(long), PAGE / 2);
  char *page = toll_buffer(r, (struct toll_buffer_request){.bytes = PAGE, .pages = TOLL_PAGES_SMALL});
  if (!page) return toll_refused(r);
  c->mine = (_Atomic unsigned long *)(void *)page;
  c->others = (_Atomic unsigned long *)(void *)(page + distance);
  return TOLL_OK;
}

static void count(_Atomic unsigned long *word, uint64_t times) {
  for (; times; times--) atomic_fetch_add_explicit(word, 1, memory_order_relaxed);
}

static void count_mine(struct toll_run *r) {
  struct counters *c = r->state;
  count(c->mine, r->iterations);
  c->counted[0] += r->iterations;
}

static void count_beside(struct toll_run *r) {
  struct counters *c = r->state;
  count(c->others, r->iterations);
  c->counted[1] += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct counters *c = r->state;
  if (atomic_load(c->mine) != (unsigned long)c->counted[0] || atomic_load(c->others) != (unsigned long)c->counted[1])
    return toll_wrong(r, "a count was lost");
  return c->counted[1] ? TOLL_OK : toll_wrong(r, "the other CPU did not count");
}

static const struct toll_role roles[] = {{.name = "neighbour",
                                          .body = count_beside,
                                          .worker = TOLL_THREAD,
                                          .pace = TOLL_BACKGROUND,
                                          .background_iterations = 1024},
                                         {0}};
static const uint64_t distances[] = {8, 16, 32, 48, 56, 64, 72, 96, 120, 128, 192, 256, 512, 1024, TOLL_END};
static const struct toll_parameter parameters[] = {{.name = "distance",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes from one counter to the other",
                                                    .values = distances,
                                                    .typical = "8"},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "count", .unit = "ns", .summary = "one count while another CPU counts beside"}, {0}};

const struct toll_probe toll_probe = {
    .question = "How far apart must the words be that two CPUs write?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct counters),
    .prepare = prepare,
    .body = count_mine,
    .check = check,
    .roles = roles,
    .revision = 1,
};
