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

}  // namespace

#endif
