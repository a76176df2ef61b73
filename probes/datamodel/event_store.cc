/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of collision events (event.h), and three jobs of an experiment's framework.
 *
 * A store of thousands of events has millions of pointers. One iteration of the reconstruction drops the oldest event, builds
 * and reconstructs a new one in its place, and analyses one event at random of those that lie in the store, cold. One of the
 * analysis asks all tracks and particles of one event, at random, and changes nothing. One of storing writes an event, at
 * random, to its place in a file, reads it back, and puts what it has read in the place of what it wrote: the file lies in
 * memory, so that no disk is part of it. These are the mixtures in which a
 * framework's CPU time and memory were compared between x86-64, x32 and ia32 (suite x32-2013). Nothing in it is 64 bit wide
 * but pointers and sums, so that what differs between ABIs is pointer width, and the code made for it.
 *
 * A store ages. Fresh from malloc its objects lie side by side, and an event costs 19 us of 1000 (on a Zen 4); each turnover
 * scatters them over what others have freed: 24 us after one, 26 after four, 29 after eight, 31 after sixteen, 33 after
 * thirty-two. There is no end to it that a visit could wait for, so it begins at an age of eight turnovers, from which
 * one more adds less than 1 %. Where time is counted a store has no age: its objects are as many, and as large, after one.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "event.h"

namespace {

enum { TURNOVERS = 8, TURNOVERS_COUNTED = 1 };
enum job { RECONSTRUCT, ANALYSE, STORE };

struct Store {
  size_t capacity, oldest;
  Event **events;
  uint64_t random, analysed, asked;
  size_t looked_at; /* events, by the checks */
  int file;
};

Event *make_event(const Fields *fields) {
  Event *event = new Event(fields);
  event->reconstruct();
  return event;
}

Event *new_event(Store *store) {
  Fields fields[PARTICLES];
  for (Fields &one : fields) one = fields_of(toll_random(&store->random));
  return make_event(fields);
}

void replace_oldest(Store *store) {
  delete store->events[store->oldest];
  store->events[store->oldest] = new_event(store);
  store->oldest = (store->oldest + 1) % store->capacity;
}

enum toll_status prepare(struct toll_run *r) {
  Store *store = static_cast<Store *>(r->state);
  store->capacity = static_cast<size_t>(toll_number(r, "events"));
  store->random = r->seed;
  if (!store->capacity) return toll_skip(r, "a store of no events has nothing to analyse");
  if (toll_needs_memory(r, toll_number(r, "events") * OBJECTS * sizeof(Hit)) != TOLL_OK) return toll_refused(r);
  store->file = memfd_create("events", MFD_CLOEXEC);
  if (store->file < 0) return toll_skip(r, "the system gives no file in memory: %s", strerror(errno));
  store->events = static_cast<Event **>(calloc(store->capacity, sizeof(Event *)));
  if (!store->events) return toll_skip(r, "no memory for %zu events", store->capacity);
  for (size_t i = 0; i < store->capacity; i++) store->events[i] = new_event(store);
  const size_t turnovers = toll_clock_is_real() ? TURNOVERS : TURNOVERS_COUNTED;
  for (size_t i = 0; i < turnovers * store->capacity; i++) replace_oldest(store);
  return TOLL_OK;
}

/* Compares the event that was read with the written one, which still exists. */
bool write_and_read(Store *store, size_t place) {
  Fields written[PARTICLES], found[PARTICLES];
  const off_t at = static_cast<off_t>(place) * static_cast<off_t>(sizeof written);
  store->events[place]->tell(written);
  if (pwrite(store->file, written, sizeof written, at) != static_cast<ssize_t>(sizeof written)) return false;
  if (pread(store->file, found, sizeof found, at) != static_cast<ssize_t>(sizeof found)) return false;
  delete store->events[place];
  store->events[place] = make_event(found);
  return memcmp(written, found, sizeof found) == 0;
}

void work_on(struct toll_run *r) {
  Store *store = static_cast<Store *>(r->state);
  const unsigned job = toll_choice(r, "job");
  for (uint64_t i = r->iterations; i; i--) {
    if (job == RECONSTRUCT) replace_oldest(store);
    const size_t cold = static_cast<size_t>(toll_random_below(&store->random, store->capacity));
    store->analysed += (job != STORE || write_and_read(store, cold)) && store->events[cold]->is_as_built();
  }
  store->asked += r->iterations;
}

/* Checks every event before anything is timed. After a visit, which has itself checked hundreds of events, it checks
 * a different eighth each time: checking all of them, none in a cache, took a third of a visit. */
enum toll_status check(struct toll_run *r) {
  enum { SHARE = 8 };
  Store *store = static_cast<Store *>(r->state);
  if (store->analysed != store->asked) return toll_wrong(r, "an event was not found as it was built");
  for (size_t left = store->looked_at ? store->capacity / SHARE + 1 : store->capacity; left; left--) {
    const size_t i = store->looked_at++ % store->capacity;
    if (!store->events[i]->is_as_built()) return toll_wrong(r, "event %zu was not found as it was built", i);
  }
  return TOLL_OK;
}

void finish(struct toll_run *r) {
  const double objects = static_cast<double>(heap::account.objects);
  toll_report(r, "objects", objects);
  heap::report(r);
  toll_report(r, "object", static_cast<double>(heap::account.asked_bytes) / objects);
}

const uint64_t event_counts[] = {10, 100, 1000, 4000, TOLL_END};
const char *const jobs[] = {"reconstruct", "analyse", "store", nullptr};
const struct toll_parameter parameters[] = {
    {.name = "job",
     .kind = TOLL_CHOICE,
     .summary = "events replaced and analysed, analysed alone, or written to a file and read back",
     .choices = jobs,
     .typical = "reconstruct"},
    {.name = "events", .kind = TOLL_COUNT, .summary = "events in the store", .values = event_counts, .typical = "1000"},
    {}};
const struct toll_metric metrics[] = {
    {.name = "event",
     .unit = "ns",
     .summary = "an event analysed, and before it another one built, or this one written and read, as the job is",
     .means = "object-store",
     .toll = "{job} an event of 393 objects"},
    {.name = "objects",
     .unit = "count",
     .better = TOLL_NEITHER,
     .summary = "objects alive in the store",
     .source = TOLL_GAUGE},
    HEAP_METRICS,
    {.name = "object", .unit = "B", .summary = "mean size of an object", .source = TOLL_GAUGE},
    {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does pointer width cost a program whose data are objects that point to each other?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(Store),
    .prepare = prepare,
    .body = work_on,
    .check = check,
    .finish = finish,
    .faults = true,
    .accounts = true,
    .revision = 4,
};
