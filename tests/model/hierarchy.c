/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels behind each other, and when each operation is done.
 *
 * A request goes down until a level has the line. At each level that has not, it takes one of the places for misses under
 * way and keeps it until the line has come. The level that answers is busy for one transfer. Times are not simulated
 * cycle by cycle: each resource knows when it is free next, which is exact for one core that issues in order.
 */
#include <stdlib.h>
#include <string.h>

#include "../../probes/runtime/toll.h"
#include "model.h"

/* The last so many times at which something ended: a new one may begin when the oldest of them has. */
struct queue {
  double end[MOST_UNDER_WAY];
  uint32_t places, next;
};

struct stream {
  uint32_t line;
  int32_t stride;
  uint32_t seen;
};
struct flight {
  uint32_t line;
  double ready;
};

struct machine {
  struct shape shape;
  const uint32_t *frames;
  struct cache level[MOST_LEVELS], tlb[MOST_TLBS];
  struct queue misses[MOST_LEVELS], window, stores;
  double path_free[MOST_LEVELS + 1];
  double issue, store_commit, last_end, chain[MOST_CHAINS];
  struct stream stream[UINT8_MAX + 1]; /* by operation */
  struct flight flight[FLIGHTS];
  uint64_t hits[MOST_LEVELS + 1];
  uint64_t random;
};

static double later(double a, double b) {
  return a > b ? a : b;
}

static double queue_free(const struct queue *queue) {
  return queue->end[queue->next];
}

static void queue_take(struct queue *queue, double end) {
  queue->end[queue->next] = end;
  queue->next = (queue->next + 1) % queue->places;
}

static void queue_make(struct queue *queue, uint32_t places) {
  queue->places = places < MOST_UNDER_WAY ? places : MOST_UNDER_WAY;
}

/* ---- making and dropping ---- */

static bool make_caches(struct machine *m, uint64_t seed) {
  const struct shape *s = &m->shape;
  bool made = true;
  for (unsigned i = 0; i < s->levels; i++)
    made &= cache_make(&m->level[i], s->level[i].sets, s->level[i].ways, s->level[i].replacement, seed + i);
  for (unsigned i = 0; i < s->tlbs; i++)
    made &= cache_make(&m->tlb[i], s->tlb[i].sets, s->tlb[i].ways, REPLACE_OLDEST, seed);
  return made;
}

struct machine *model_new(const struct shape *shape, const uint32_t *frames, uint64_t seed) {
  struct machine *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->shape = *shape;
  m->frames = frames;
  m->random = seed;
  for (unsigned i = 0; i < shape->levels; i++) queue_make(&m->misses[i], shape->level[i].misses);
  queue_make(&m->window, shape->window);
  queue_make(&m->stores, shape->store_buffer);
  if (make_caches(m, seed)) return m;
  model_free(m);
  return NULL;
}

void model_free(struct machine *m) {
  for (unsigned i = 0; i < m->shape.levels; i++) cache_drop(&m->level[i]);
  for (unsigned i = 0; i < m->shape.tlbs; i++) cache_drop(&m->tlb[i]);
  free(m);
}

void model_hits(const struct machine *m, uint64_t *hits) {
  memcpy(hits, m->hits, (m->shape.levels + 1) * sizeof *hits);
}

/* ---- lines on their way ---- */

static uint32_t physical(const struct machine *m, uint32_t line) {
  return m->frames[line / m->shape.page_lines] * m->shape.page_lines + line % m->shape.page_lines;
}

static double transfer_of(const struct machine *m, unsigned level) {
  return level == m->shape.levels ? m->shape.memory_transfer : m->shape.level[level].transfer;
}

static double latency_of(const struct machine *m, unsigned level) {
  return level == m->shape.levels ? m->shape.memory_latency : m->shape.level[level].latency;
}

/* Waits until the way into or out of a level is free, and keeps it busy for one line. Returns when that began. */
static double keep_busy(struct machine *m, unsigned level, double at) {
  double start = later(at, m->path_free[level]);
  m->path_free[level] = start + transfer_of(m, level);
  return start;
}

static void fill(struct machine *m, unsigned level, uint32_t line, bool dirty, double at);

/* A dirty line arrives from the level above. It is counted when the line that pushes it out is on its way, so that the
 * path's time is spent and nobody waits for what happens later. */
static void take_back(struct machine *m, unsigned level, uint32_t line, double at) {
  keep_busy(m, level, at);
  if (level == m->shape.levels) return;
  bool through = m->shape.level[level].write_through;
  if (!cache_touch(&m->level[level], line))
    fill(m, level, line, !through, at);
  else if (!through)
    cache_dirty(&m->level[level], line);
  if (through) take_back(m, level + 1, line, at);
}

static bool takes_victims(const struct machine *m, unsigned level) {
  return level < m->shape.levels && m->shape.level[level].victims;
}

/* What leaves a level is written back where it is dirty; a level of victims takes it in any case. */
static void fill(struct machine *m, unsigned level, uint32_t line, bool dirty, double at) {
  uint32_t victim;
  bool leaves_dirty = cache_insert(&m->level[level], line, dirty, &victim);
  if (leaves_dirty)
    take_back(m, level + 1, victim, at);
  else if (victim != LINE_NONE && takes_victims(m, level + 1) && !cache_touch(&m->level[level + 1], victim))
    fill(m, level + 1, victim, false, at);
}

static bool happens(struct machine *m, double chance) {
  return (double)(toll_random(&m->random) >> 11) * 0x1p-53 < chance;
}

/* Neighbours bring lines of their own into a cache that they share with us. */
static void neighbours_come(struct machine *m, unsigned level, double at) {
  double lines = m->shape.level[level].neighbours;
  for (; lines > 0 && happens(m, lines); lines -= 1) {
    uint32_t victim;
    bool dirty;
    cache_insert_foreign(&m->level[level], &victim, &dirty);
    if (dirty) take_back(m, level + 1, victim, at);
  }
}

static bool level_has(struct machine *m, unsigned level, uint32_t line, double at) {
  bool there = cache_touch(&m->level[level], line);
  if (m->shape.level[level].neighbours > 0) neighbours_come(m, level, at);
  return there;
}

/* Brings a line into levels first, first+1, ... from wherever it is; returns when its data are there. */
static double fetch(struct machine *m, unsigned first, uint32_t line, double at, bool asked_for) {
  unsigned from = first, levels = m->shape.levels;
  for (; from < levels && !level_has(m, from, line, at); from++) at = later(at, queue_free(&m->misses[from]));
  double start = from == 0 ? at : keep_busy(m, from, at), ready = start + latency_of(m, from);
  if (asked_for) m->hits[from]++;
  for (unsigned i = first; i < from; i++) queue_take(&m->misses[i], ready);
  bool dirty = first < from && takes_victims(m, from) && cache_remove(&m->level[from], line);
  for (unsigned i = from; i-- > first;)
    if (i == first || !takes_victims(m, i)) fill(m, i, line, dirty && i + 1 == from, start);
  return ready;
}

/* ---- prefetching ---- */

static void prefetch(struct machine *m, uint32_t line, double at) {
  if (m->shape.levels < 2 || cache_touch(&m->level[0], line) || cache_touch(&m->level[1], line)) return;
  double ready = fetch(m, 1, line, at, false);
  m->flight[line % FLIGHTS] = (struct flight){line, ready};
}

/* Strides inside a page only: what lies behind its end is another frame. */
static void follow_stride(struct machine *m, struct stream *stream, uint32_t line, double at) {
  uint32_t page = line / m->shape.page_lines;
  for (uint32_t step = 1; step <= m->shape.prefetch_depth; step++) {
    int64_t ahead = (int64_t)line + (int64_t)stream->stride * step;
    if (ahead < 0 || ahead / m->shape.page_lines != page) return;
    prefetch(m, physical(m, (uint32_t)ahead), at);
  }
}

static void watch_stride(struct machine *m, struct stream *stream, uint32_t line, double at) {
  int64_t stride = (int64_t)line - (int64_t)stream->line;
  if (!stride) return;
  stream->seen = stride == stream->stride ? stream->seen + 1 : 0;
  stream->stride = (int32_t)stride;
  stream->line = line;
  bool followed = stride > 0 ? m->shape.prefetch_forward : m->shape.prefetch_backward;
  if (followed && stream->seen >= 2 && llabs(stride) <= m->shape.prefetch_reach) follow_stride(m, stream, line, at);
}

/* ---- operations ---- */

static double translate(struct machine *m, uint32_t page) {
  double cost = 0;
  unsigned level = 0;
  page /= m->shape.translation_pages;
  for (; level < m->shape.tlbs && !cache_touch(&m->tlb[level], page); level++) cost = m->shape.tlb[level].miss;
  for (uint32_t victim; level-- > 0;) cache_insert(&m->tlb[level], page, false, &victim);
  return cost;
}

/* The line that is already under way arrives when it arrives. */
static double wait_for_flight(struct machine *m, uint32_t line, double ready) {
  struct flight *flight = &m->flight[line % FLIGHTS];
  return flight->line == line ? later(ready, flight->ready) : ready;
}

static double load(struct machine *m, uint32_t line, double at, struct stream *stream) {
  uint32_t place = physical(m, line);
  bool second_missed = m->shape.prefetch_pairs && m->shape.levels > 1 && !cache_touch(&m->level[0], place) &&
                       !cache_touch(&m->level[1], place);
  double ready = wait_for_flight(m, place, fetch(m, 0, place, at, true));
  if (second_missed) prefetch(m, place ^ 1, at);
  if (m->shape.prefetch_forward || m->shape.prefetch_backward) watch_stride(m, stream, line, at);
  return ready;
}

/* A store goes on to a level: into it, past it, or both. Returns when it was taken, which is when the next may follow. */
static double send_store(struct machine *m, unsigned level, uint32_t line, double at) {
  double taken = keep_busy(m, level, at);
  if (level == m->shape.levels) return taken;
  const struct level_shape *shape = &m->shape.level[level];
  bool there = cache_touch(&m->level[level], line);
  if (!there && !shape->no_allocate) {
    taken = later(taken, queue_free(&m->misses[level]));
    fetch(m, level, line, taken, false);
    there = true;
  }
  if (there && !shape->write_through) {
    cache_dirty(&m->level[level], line);
    return taken;
  }
  return later(taken, send_store(m, level + 1, line, taken));
}

/* Stores leave the buffer in order, one in a gap; the lines that they miss are asked for as soon as they are known. */
static void store(struct machine *m, uint32_t line, double at) {
  const struct level_shape *first = &m->shape.level[0];
  uint32_t place = physical(m, line);
  double ready = at;
  bool there = cache_touch(&m->level[0], place);
  if (!there && !first->no_allocate) {
    ready = wait_for_flight(m, place, fetch(m, 0, place, at, false));
    there = true;
    if (m->shape.prefetch_forward || m->shape.prefetch_backward) watch_stride(m, &m->stream[OP_STORE], line, at);
  }
  m->store_commit = later(m->store_commit + m->shape.store_gap, ready);
  if (there && !first->write_through)
    cache_dirty(&m->level[0], place);
  else
    m->store_commit = later(m->store_commit, send_store(m, 1, place, at));
  queue_take(&m->stores, m->store_commit);
  m->last_end = later(m->last_end, m->store_commit);
}

static void fence(struct machine *m) {
  m->issue = later(m->issue, m->last_end);
  for (unsigned i = 0; i < MOST_CHAINS; i++) m->chain[i] = later(m->chain[i], m->issue);
}

static void run_load(struct machine *m, uint32_t line, unsigned operation) {
  bool waits = operation < MOST_CHAINS;
  m->issue = later(m->issue + m->shape.load_gap, queue_free(&m->window));
  double at = waits ? later(m->issue, m->chain[operation]) : m->issue;
  double ready = load(m, line, at + translate(m, line / m->shape.page_lines), &m->stream[operation]);
  if (waits) m->chain[operation] = ready;
  queue_take(&m->window, ready);
  m->last_end = later(m->last_end, ready);
}

static void run_store(struct machine *m, uint32_t line) {
  m->issue = later(m->issue, queue_free(&m->stores));
  store(m, line, m->issue + translate(m, line / m->shape.page_lines));
}

double model_run(struct machine *m, const uint32_t *lines, const uint8_t *operations, uint64_t count) {
  fence(m);
  double start = m->issue;
  for (uint64_t i = 0; i < count; i++) {
    if (operations[i] == OP_FENCE)
      fence(m);
    else if (operations[i] == OP_STORE)
      run_store(m, lines[i]);
    else
      run_load(m, lines[i], operations[i]);
  }
  fence(m);
  return m->issue - start;
}

double model_translate(const struct shape *shape, const uint32_t *pages, uint64_t warm, uint64_t count) {
  struct machine m = {.shape = *shape};
  double cost = 0;
  m.shape.levels = 0;
  if (!make_caches(&m, 1)) return -1;
  for (uint64_t i = 0; i < warm; i++) translate(&m, pages[i]);
  for (uint64_t i = warm; i < warm + count; i++) cost += translate(&m, pages[i]);
  for (unsigned i = 0; i < shape->tlbs; i++) cache_drop(&m.tlb[i]);
  return cost;
}
