/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of physics events as experiments exchange them: HepMC3's graphs of particles and vertices, read, walked, written.
 *
 * A particle points to the vertices that it comes from and ends in, a vertex to its particles, all by counted references: two
 * pointers each, and a block of counts beside each object. So this library is made of pointers more than most. The records
 * lie in a store, each replaced by a newly read one in turn when reading is the job, so that its heap is as old as a
 * program's. What is walked or written is chosen at random, and cold.
 *
 * A record is a tree of decays: one particle becomes two. Energies are whole, so that their sum is known to the last bit;
 * and what is written must be the text that was read, letter by letter.
 */
#include "heap.h"
#include "library.h"
#include "toll.h"

#if TOLL_CXX_LIBRARY && __has_include(<HepMC3/GenEvent.h>)
#include <Setup.cc>

#include <GenCrossSection.cc>
#include <GenEvent.cc>
#include <GenHeavyIon.cc>
#include <GenParticle.cc>
#include <GenPdfInfo.cc>
#include <GenRunInfo.cc>
#include <GenVertex.cc>
#include <ReaderAscii.cc>
#include <sstream>
#include <WriterAscii.cc>

namespace {

enum { KINDS = 16, GENERATIONS = 5, MOST_ENERGY = 1 << 16, LEAST_BYTES_OF_RECORD = 12000 };
enum { PARTICLES = (2 << GENERATIONS) - 1 };
enum job { READ, WALK, WRITE };

struct State {
  std::string *texts; /* one for each kind of record */
  double energies[KINDS];
  HepMC3::GenEvent **records; /* the i-th is of kind i % KINDS */
  size_t count, oldest;
  uint64_t random, sound, asked;
};

using Particle = HepMC3::GenParticlePtr;

Particle make_particle(uint64_t *random, double *energy) {
  const double own = 1 + static_cast<double>(toll_random_below(random, MOST_ENERGY));
  *energy += own;
  return std::make_shared<HepMC3::GenParticle>(HepMC3::FourVector(own / 2, 0, -own / 4, own), 22, 1);
}

void decay(HepMC3::GenEvent *record, Particle mother, int generations, uint64_t *random, double *energy) {
  if (!generations) return;
  Particle daughters[2];
  const HepMC3::GenVertexPtr vertex = std::make_shared<HepMC3::GenVertex>();
  vertex->add_particle_in(mother);
  for (Particle &daughter : daughters) vertex->add_particle_out(daughter = make_particle(random, energy));
  record->add_vertex(vertex); /* mothers first: their numbers must be the less */
  for (const Particle &daughter : daughters) decay(record, daughter, generations - 1, random, energy);
}

std::string text_of(const HepMC3::GenEvent &record) {
  std::ostringstream out;
  HepMC3::WriterAscii writer(out);
  writer.write_event(record);
  writer.close();
  return out.str();
}

HepMC3::GenEvent *read(const std::string &text) {
  std::istringstream in(text);
  HepMC3::ReaderAscii reader(in);
  HepMC3::GenEvent *record = new HepMC3::GenEvent;
  reader.read_event(*record);
  return record;
}

double energy_of(const HepMC3::GenEvent &record) {
  double sum = 0;
  for (const HepMC3::ConstGenVertexPtr &vertex : record.vertices())
    for (const HepMC3::ConstGenParticlePtr &particle : vertex->particles_out()) sum += particle->momentum().e();
  return sum + record.particles().front()->momentum().e();
}

void replace(State *state, size_t place) {
  delete state->records[place];
  state->records[place] = read(state->texts[place % KINDS]);
}

/* The text of a record that was read: of one that was made, its numbering may be another. */
void make_kind(State *state, size_t kind) {
  HepMC3::GenEvent made(HepMC3::Units::GEV, HepMC3::Units::MM);
  const Particle first = make_particle(&state->random, &state->energies[kind]);
  decay(&made, first, GENERATIONS, &state->random, &state->energies[kind]);
  HepMC3::GenEvent *record = read(text_of(made));
  state->texts[kind] = text_of(*record);
  delete record;
}

enum toll_status prepare(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  state->count = static_cast<size_t>(toll_number(r, "records"));
  state->random = r->seed;
  if (!state->count) return toll_skip(r, "a store of no records has nothing to walk");
  if (toll_needs_memory(r, toll_number(r, "records") * LEAST_BYTES_OF_RECORD) != TOLL_OK) return toll_refused(r);
  HepMC3::Setup::set_print_warnings(false);
  state->texts = new std::string[KINDS];
  for (size_t kind = 0; kind < KINDS; kind++) make_kind(state, kind);
  state->records = static_cast<HepMC3::GenEvent **>(calloc(state->count, sizeof(HepMC3::GenEvent *)));
  if (!state->records) return toll_skip(r, "no memory for %zu records", state->count);
  for (int turn = 0; turn < 2; turn++)
    for (size_t i = 0; i < state->count; i++) replace(state, i);
  return TOLL_OK;
}

bool is_sound(const State *state, size_t place) {
  return energy_of(*state->records[place]) == state->energies[place % KINDS];
}

bool do_once(State *state, unsigned job) {
  const size_t cold = static_cast<size_t>(toll_random_below(&state->random, state->count));
  if (job == WALK) return is_sound(state, cold);
  if (job == WRITE) return text_of(*state->records[cold]) == state->texts[cold % KINDS];
  const size_t place = state->oldest;
  replace(state, place);
  state->oldest = (place + 1) % state->count;
  return state->records[place]->particles().size() == PARTICLES;
}

void work_on(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  const unsigned job = toll_choice(r, "job");
  for (uint64_t i = r->iterations; i; i--) state->sound += do_once(state, job);
  state->asked += r->iterations;
}

enum toll_status check(struct toll_run *r) {
  const State *state = static_cast<const State *>(r->state);
  if (state->sound != state->asked) return toll_wrong(r, "a record was not found, or written, as it was read");
  for (size_t i = 0; i < state->count; i++)
    if (!is_sound(state, i)) return toll_wrong(r, "record %zu has not the energy that it was made with", i);
  return TOLL_OK;
}

void finish(struct toll_run *r) {
  const State *state = static_cast<const State *>(r->state);
  toll_report(r, "particles", static_cast<double>(PARTICLES * state->count));
  toll_report(r, "energy", state->energies[0]);
  heap::report(r);
}

}  // namespace

#else
#define ABSENT "HepMC3"
#include "absent.h"
#endif

namespace {

const char *const jobs[] = {"read", "walk", "write", nullptr};
const uint64_t record_counts[] = {10, 100, 1000, TOLL_END};
const struct toll_parameter parameters[] = {{.name = "job",
                                             .kind = TOLL_CHOICE,
                                             .summary = "a record read in place of the oldest, walked, or written",
                                             .choices = jobs,
                                             .typical = "walk"},
                                            {.name = "records",
                                             .kind = TOLL_COUNT,
                                             .summary = "records in the store",
                                             .values = record_counts,
                                             .typical = "1000"},
                                            {}};
const struct toll_metric metrics[] = {{.name = "record",
                                       .unit = "ns",
                                       .summary = "one record of 63 particles read, walked or written",
                                       .means = "program",
                                       .toll = "{job} a physics event of 63 particles (HepMC3)"},
                                      {.name = "particles",
                                       .unit = "count",
                                       .better = TOLL_NEITHER,
                                       .summary = "particles in the store",
                                       .source = TOLL_GAUGE},
                                      {.name = "energy",
                                       .unit = "count",
                                       .better = TOLL_NEITHER,
                                       .summary = "energy of the first record",
                                       .source = TOLL_GAUGE},
                                      HEAP_METRICS,
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does pointer width cost a library whose data are graphs of counted references?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(State),
    .prepare = prepare,
    .body = work_on,
    .check = check,
    .finish = finish,
    .faults = true,
    .accounts = true,
    .library = "hepmc3 libstdcxx",
    .revision = 2,
};
