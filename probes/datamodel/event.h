/* SPDX-License-Identifier: Apache-2.0
 *
 * A collision event as physics frameworks keep it: objects with virtual methods that point to each other.
 *
 * An event has vertices, from which particles of several kinds come, which leave hits; its reconstruction links each
 * particle's hits into a track. The analysis asks every track and particle, through virtual methods, for its charge and
 * energy. Energies are integers: what the analysis must find is known when an event is built, to the last bit.
 */
#ifndef TOLL_DATAMODEL_EVENT_H
#define TOLL_DATAMODEL_EVENT_H

#include "heap.h"
#include "toll.h"

namespace {

enum { VERTICES = 8, PARTICLES_OF_VERTEX = 8, HITS_OF_PARTICLE = 4, KINDS = 3 };
/* The objects of one event: itself, its vertices, and each of their particles with its hits and its track. */
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

enum { PLAIN, LEPTON, HADRON };

/* The fields that identify a particle, in memory and in a file: the same bytes under every ABI of one byte order. */
struct Fields {
  int32_t kind, momentum, isolation, charges[HITS_OF_PARTICLE];
};
enum { PARTICLES = VERTICES * PARTICLES_OF_VERTEX };

inline Fields fields_of(uint64_t random) {
  static const int32_t kinds[KINDS] = {LEPTON, HADRON, PLAIN};
  Fields fields = {kinds[(random >> 24 & 0xffff) % KINDS], static_cast<int32_t>(random & 0xffff), 0, {}};
  if (fields.kind == LEPTON) fields.isolation = static_cast<int32_t>(random >> 16 & 0xff);
  for (int i = 0; i < HITS_OF_PARTICLE; i++) fields.charges[i] = static_cast<int32_t>(random >> (40 + i) & 0xff);
  return fields;
}

class Particle {
 public:
  Particle(Particle *following, Vertex *vertex, int32_t momentum)
      : next(following), origin(vertex), track(nullptr), momentum_(momentum) {}
  virtual ~Particle() {}
  TOLL_NOINLINE virtual int64_t energy() const { return momentum_; }
  virtual Fields fields() const { return Fields{PLAIN, momentum_, 0, {}}; }

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
  TOLL_NOINLINE int64_t energy() const override { return 2 * int64_t{momentum_} + isolation_; }
  Fields fields() const override { return Fields{LEPTON, momentum_, isolation_, {}}; }

 private:
  int32_t isolation_;
};

class Hadron : public Particle {
 public:
  Hadron(Particle *following, Vertex *vertex, int32_t momentum, Particle *mother)
      : Particle(following, vertex, momentum), mother_(mother) {}
  TOLL_NOINLINE int64_t energy() const override { return 3 * int64_t{momentum_} + (mother_ ? 1 : 0); }
  Fields fields() const override { return Fields{HADRON, momentum_, 0, {}}; }

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
  TOLL_NOINLINE virtual int64_t charge() const {
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
  /* fields: of its particles, the first first. */
  explicit Event(const Fields *fields) : vertices_(nullptr), particles_(nullptr), hits_(nullptr), tracks_(nullptr) {
    expected_ = 0;
    for (int i = 0; i < VERTICES; i++) {
      vertices_ = new Vertex{vertices_, i, i + 1, i + 2};
      for (int k = 0; k < PARTICLES_OF_VERTEX; k++) add_particle(*fields++);
    }
  }
  ~Event() {
    drop(vertices_);
    drop(particles_);
    drop(hits_);
    drop(tracks_);
  }
  void reconstruct();
  /* Whether the sum over all tracks and their particles equals the expected sum of the event. */
  bool is_as_built() const;
  /* The fields from which an event like this one is built. */
  void tell(Fields *fields) const;

 private:
  void add_particle(const Fields &fields);
  void add_hits(const Fields &fields);
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

inline void Event::add_particle(const Fields &fields) {
  Particle *mother = particles_;
  switch (fields.kind) {
    case LEPTON: particles_ = new Lepton(mother, vertices_, fields.momentum, fields.isolation); break;
    case HADRON: particles_ = new Hadron(mother, vertices_, fields.momentum, mother); break;
    default: particles_ = new Particle(mother, vertices_, fields.momentum);
  }
  expected_ += fields.kind == LEPTON   ? 2 * int64_t{fields.momentum} + fields.isolation
               : fields.kind == HADRON ? 3 * int64_t{fields.momentum} + (mother ? 1 : 0)
                                       : fields.momentum;
  add_hits(fields);
}

inline void Event::add_hits(const Fields &fields) {
  for (int i = 0; i < HITS_OF_PARTICLE; i++) {
    hits_ = new Hit{hits_, nullptr, particles_, fields.charges[i]};
    expected_ += fields.charges[i];
  }
}

/* Lists begin with the element that was added last. */
inline void Event::tell(Fields *fields) const {
  const Hit *hit = hits_;
  Fields *at = fields + PARTICLES;
  for (const Particle *particle = particles_; particle; particle = particle->next) {
    *--at = particle->fields();
    for (int i = HITS_OF_PARTICLE; i; hit = hit->next) at->charges[--i] = hit->charge;
  }
}

inline void Event::reconstruct() {
  for (Particle *particle = particles_; particle; particle = particle->next)
    particle->track = tracks_ = new Track(tracks_, particle);
  for (Hit *hit = hits_; hit; hit = hit->next) hit->left_by->track->take(hit);
}

inline bool Event::is_as_built() const {
  int64_t sum = 0;
  for (const Track *track = tracks_; track; track = track->next) sum += track->charge() + track->candidate->energy();
  return sum == expected_;
}

}  // namespace

#endif
