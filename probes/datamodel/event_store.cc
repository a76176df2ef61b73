/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of collision events as physics frameworks keep them: objects with virtual methods that point to each other.
 *
 * An event has vertices, from which particles of several kinds come, which leave hits; its reconstruction links each
 * particle's hits into a track. The analysis asks every track and particle, through virtual methods, for its charge and
 * energy. A store of thousands of events has millions of pointers. One iteration drops the oldest event, builds and
 * reconstructs a new one in its place, and analyses one event at random of those that lie in the store, cold: the mixture
 * in which a framework's CPU time and memory were compared between x86-64, x32 and ia32 (suite x32-2013). Nothing in it
 * is 64 bit wide but pointers and sums, so that what differs between ABIs is pointer width, and the code made for it.
 *
 * A store ages. Fresh from malloc its objects lie side by side, and an event costs 19 us of 1000 (on a Zen 4); each turnover
 * scatters them over what others have freed: 24 us after one, 26 after four, 29 after eight, 31 after sixteen, 33 after
 * thirty-two. There is no end to it that a visit could wait for, so it begins at an age of eight turnovers, from which
 * one more adds less than 1 %.
 *
 * Energies are integers: what the analysis must find is known when an event is built, to the last bit.
 */
#include "heap.h"
#include "toll.h"

namespace {

enum { VERTICES = 8, PARTICLES_OF_VERTEX = 8, HITS_OF_PARTICLE = 4, KINDS = 3, TURNOVERS = 8 };
/* Of one event: itself, its vertices, and for each of their particles that, its hits and its track. */
enum { OBJECTS = 1 + VERTICES * (1 + PARTICLES_OF_VERTEX * (2 + HITS_OF_PARTICLE)) };

struct Vertex {
  Vertex *next;
  int32_t x, y, z;
};

class Particle;
class Track;

struct Hit {
  Hit *next, *next_of_track;
  Particle *left_by;
  int32_t charge;
};

class Particle {
 public:
  Particle(Particle *following, Vertex *vertex, int32_t momentum)
      : next(following), origin(vertex), track(nullptr), momentum_(momentum) {}
  virtual ~Particle() {}
  TOLL_APART virtual int64_t energy() const { return momentum_; }

  Particle *next;
  Vertex *origin;
  Track *track;

 protected:
  int32_t momentum_;
};

class Lepton : public Particle {
 public:
  Lepton(Particle *following, Vertex *vertex, int32_t momentum, int32_t isolation)
      : Particle(following, vertex, momentum), isolation_(isolation) {}
  TOLL_APART int64_t energy() const override { return 2 * int64_t{momentum_} + isolation_; }

 private:
  int32_t isolation_;
};

class Hadron : public Particle {
 public:
  Hadron(Particle *following, Vertex *vertex, int32_t momentum, Particle *mother)
      : Particle(following, vertex, momentum), mother_(mother) {}
  TOLL_APART int64_t energy() const override { return 3 * int64_t{momentum_} + (mother_ ? 1 : 0); }

 private:
  Particle *mother_;
};

class Track {
 public:
  Track(Track *following, Particle *particle) : next(following), candidate(particle), first_(nullptr) {}
  virtual ~Track() {}
  void take(Hit *hit) {
    hit->next_of_track = first_;
    first_ = hit;
  }
  TOLL_APART virtual int64_t charge() const {
    int64_t sum = 0;
    for (const Hit *hit = first_; hit; hit = hit->next_of_track) sum += hit->charge;
    return sum;
  }

  Track *next;
  Particle *candidate;

 private:
  Hit *first_;
};

class Event {
 public:
  explicit Event(uint64_t *random) : vertices_(nullptr), particles_(nullptr), hits_(nullptr), tracks_(nullptr) {
    expected_ = 0;
    for (int i = 0; i < VERTICES; i++) {
      vertices_ = new Vertex{vertices_, i, i + 1, i + 2};
      for (int k = 0; k < PARTICLES_OF_VERTEX; k++) add_particle(toll_random(random));
    }
  }
  ~Event() {
    drop(vertices_);
    drop(particles_);
    drop(hits_);
    drop(tracks_);
  }
  void reconstruct();
  /* Whether the sum over all tracks and their particles is the one that was built in. */
  bool is_as_built() const;

 private:
  void add_particle(uint64_t random);
  void add_hits(uint64_t random);
  template <class Linked>
  static void drop(Linked *first) {
    while (first) {
      Linked *next = first->next;
      delete first;
      first = next;
    }
  }

  Vertex *vertices_;
  Particle *particles_;
  Hit *hits_;
  Track *tracks_;
  int64_t expected_;
};

void Event::add_particle(uint64_t random) {
  const int32_t momentum = static_cast<int32_t>(random & 0xffff), isolation = static_cast<int32_t>(random >> 16 & 0xff);
  Particle *mother = particles_;
  switch ((random >> 24 & 0xffff) % KINDS) {
    case 0:
      particles_ = new Lepton(mother, vertices_, momentum, isolation);
      expected_ += 2 * momentum + isolation;
      break;
    case 1:
      particles_ = new Hadron(mother, vertices_, momentum, mother);
      expected_ += 3 * momentum + (mother ? 1 : 0);
      break;
    default: particles_ = new Particle(mother, vertices_, momentum); expected_ += momentum;
  }
  add_hits(random);
}

void Event::add_hits(uint64_t random) {
  for (int i = 0; i < HITS_OF_PARTICLE; i++) {
    const int32_t charge = static_cast<int32_t>(random >> (40 + i) & 0xff);
    hits_ = new Hit{hits_, nullptr, particles_, charge};
    expected_ += charge;
  }
}

void Event::reconstruct() {
  for (Particle *particle = particles_; particle; particle = particle->next)
    particle->track = tracks_ = new Track(tracks_, particle);
  for (Hit *hit = hits_; hit; hit = hit->next) hit->left_by->track->take(hit);
}

bool Event::is_as_built() const {
  int64_t sum = 0;
  for (const Track *track = tracks_; track; track = track->next) sum += track->charge() + track->candidate->energy();
  return sum == expected_;
}

struct Store {
  size_t capacity, oldest;
  Event **events;
  uint64_t random, analysed, asked;
};

Event *make_event(Store *store) {
  Event *event = new Event(&store->random);
  event->reconstruct();
  return event;
}

void replace_oldest(Store *store) {
  delete store->events[store->oldest];
  store->events[store->oldest] = make_event(store);
  store->oldest = (store->oldest + 1) % store->capacity;
}

enum toll_status prepare(struct toll_run *r) {
  Store *store = static_cast<Store *>(r->state);
  store->capacity = static_cast<size_t>(toll_number(r, "events"));
  store->random = r->seed;
  if (!store->capacity) return toll_skip(r, "a store of no events has nothing to analyse");
  if (toll_needs_memory(r, toll_number(r, "events") * OBJECTS * sizeof(Hit)) != TOLL_OK) return toll_refused(r);
  store->events = static_cast<Event **>(calloc(store->capacity, sizeof(Event *)));
  if (!store->events) return toll_skip(r, "no memory for %zu events", store->capacity);
  for (size_t i = 0; i < store->capacity; i++) store->events[i] = make_event(store);
  for (size_t i = 0; i < TURNOVERS * store->capacity; i++) replace_oldest(store);
  return TOLL_OK;
}

void turn_over(struct toll_run *r) {
  Store *store = static_cast<Store *>(r->state);
  for (uint64_t i = r->iterations; i; i--) {
    replace_oldest(store);
    const size_t cold = static_cast<size_t>(toll_random_below(&store->random, store->capacity));
    store->analysed += store->events[cold]->is_as_built();
  }
  store->asked += r->iterations;
}

enum toll_status check(struct toll_run *r) {
  const Store *store = static_cast<const Store *>(r->state);
  if (store->analysed != store->asked) return toll_wrong(r, "an event was not found as it was built");
  for (size_t i = 0; i < store->capacity; i++)
    if (!store->events[i]->is_as_built()) return toll_wrong(r, "event %zu was not found as it was built", i);
  return TOLL_OK;
}

void finish(struct toll_run *r) {
  const double objects = static_cast<double>(heap::account.objects);
  toll_report(r, "objects", objects);
  toll_report(r, "asked", static_cast<double>(heap::account.asked_bytes));
  toll_report(r, "taken", static_cast<double>(heap::account.taken_bytes));
  toll_report(r, "object", static_cast<double>(heap::account.asked_bytes) / objects);
}

const uint64_t event_counts[] = {10, 100, 1000, 4000, TOLL_END};
const struct toll_parameter parameters[] = {
    {.name = "events", .kind = TOLL_COUNT, .summary = "events in the store", .values = event_counts, .typical = "1000"},
    {}};
const struct toll_metric metrics[] = {
    {.name = "event",
     .unit = "ns",
     .summary = "an event dropped, another built and reconstructed, a third analysed",
     .means = "object-store",
     .toll = "build, analyse and drop an event of 393 objects"},
    {.name = "objects",
     .unit = "count",
     .better = TOLL_NEITHER,
     .summary = "objects alive in the store",
     .source = TOLL_GAUGE},
    {.name = "asked", .unit = "B", .summary = "bytes of all objects alive", .source = TOLL_GAUGE},
    {.name = "taken",
     .unit = "B",
     .summary = "bytes that malloc took for them",
     .source = TOLL_GAUGE,
     .means = "footprint"},
    {.name = "object", .unit = "B", .summary = "mean size of an object", .source = TOLL_GAUGE},
    {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does pointer width cost a program whose data are objects that point to each other?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(Store),
    .prepare = prepare,
    .body = turn_over,
    .check = check,
    .finish = finish,
    .faults = true,
    .accounts = true,
    .revision = 2,
};
