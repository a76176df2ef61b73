/* SPDX-License-Identifier: Apache-2.0
 *
 * A discrete-event simulation: the earliest event is taken from the queue and handled by the module that it is for, which
 * allocates one or more to come and frees it.
 *
 * Network simulators do this most of the time (omnetpp, in the studies of pointer width): a heap of pointers, small
 * short-lived objects, virtual calls. The queue is a skew heap (Sleator and Tarjan 1986), which is pointers only. A hop
 * moves a packet to another module after a random delay, as the hold model asks (Jones 1986): as many events come as
 * go, so that the queue keeps its length. A queue that was filled in one go is none that the simulation would ever
 * have, so as many events are handled before the first is timed (on a Zen 4, one of 10000 packets costs 199 ns before
 * that and 155 after). Every thousandth packet is answered by a copy and every copy ends, so that objects of two kinds
 * live and die in the same heap.
 */
#include "heap.h"
#include "toll.h"

namespace {

enum { MODULES = 1024, MOST_DELAY = 4096, COPY_EVERY = 1000 };

struct Packet {
  uint32_t id, hops;
};

class Module;

struct Event {
  Event *left, *right;
  Module *target;
  Packet *packet;
  uint32_t due;
};

struct Simulation {
  Event *queue;
  Module **modules;
  uint32_t now;
  uint64_t random, handled, pending, copies, copies_ended, hops, unordered;
};

/* Times wrap around; the earlier of two is the one that is less than half the range before the other. */
bool is_earlier(uint32_t first, uint32_t second) {
  return static_cast<int32_t>(first - second) < 0;
}

Event *merge(Event *first, Event *second) {
  Event *root = nullptr, **link = &root;
  while (first && second) {
    if (is_earlier(second->due, first->due)) {
      Event *other = first;
      first = second;
      second = other;
    }
    Event *rest = first->right;
    *link = first;
    first->right = first->left;
    link = &first->left;
    first = rest;
  }
  *link = first ? first : second;
  return root;
}

void schedule(Simulation *simulation, Module *target, Packet *packet) {
  const uint32_t due = simulation->now + 1 + static_cast<uint32_t>(toll_random_below(&simulation->random, MOST_DELAY));
  simulation->queue = merge(simulation->queue, new Event{nullptr, nullptr, target, packet, due});
  simulation->pending++;
}

class Module {
 public:
  explicit Module(Module **all) : all_(all) {}
  virtual ~Module() {}
  TOLL_NOINLINE virtual void handle(Simulation *simulation, Packet *packet) { forward(simulation, packet); }

 protected:
  void forward(Simulation *simulation, Packet *packet) {
    packet->hops++;
    simulation->hops++;
    schedule(simulation, all_[toll_random_below(&simulation->random, MODULES)], packet);
  }

 private:
  Module **all_;
};

/* Ends copies, and sends a copy as the answer to every thousandth packet. */
class Host : public Module {
 public:
  explicit Host(Module **all) : Module(all), seen_(0) {}
  TOLL_NOINLINE void handle(Simulation *simulation, Packet *packet) override {
    if (packet->id == 0) {
      simulation->copies_ended++;
      delete packet;
      return;
    }
    if (++seen_ % COPY_EVERY == 0) {
      simulation->copies++;
      forward(simulation, new Packet{0, 0});
    }
    forward(simulation, packet);
  }

 private:
  uint32_t seen_;
};

TOLL_NOINLINE void step(Simulation *simulation) {
  Event *event = simulation->queue;
  simulation->queue = merge(event->left, event->right);
  simulation->pending--;
  simulation->unordered += is_earlier(event->due, simulation->now);
  simulation->now = event->due;
  event->target->handle(simulation, event->packet);
  delete event;
  simulation->handled++;
}

enum toll_status prepare(struct toll_run *r) {
  Simulation *simulation = static_cast<Simulation *>(r->state);
  const uint64_t packets = toll_number(r, "packets");
  if (!packets) return toll_skip(r, "without packets nothing ever happens");
  if (toll_needs_memory(r, packets * (sizeof(Event) + sizeof(Packet))) != TOLL_OK) return toll_refused(r);
  simulation->random = r->seed;
  simulation->modules = static_cast<Module **>(calloc(MODULES, sizeof(Module *)));
  if (!simulation->modules) return toll_skip(r, "no memory for %d modules", MODULES);
  for (unsigned i = 0; i < MODULES; i++)
    simulation->modules[i] = i % 2 ? new Module(simulation->modules) : new Host(simulation->modules);
  for (uint64_t i = 0; i < packets; i++)
    schedule(simulation, simulation->modules[i % MODULES], new Packet{static_cast<uint32_t>(i) + 1, 0});
  for (uint64_t i = 0; i < packets; i++) step(simulation);
  return TOLL_OK;
}

void simulate(struct toll_run *r) {
  Simulation *simulation = static_cast<Simulation *>(r->state);
  for (uint64_t i = r->iterations; i; i--) step(simulation);
}

/* Checks that every event came in order, and that the pending events are the packets and the copies that have not
 * ended. */
enum toll_status check(struct toll_run *r) {
  const Simulation *simulation = static_cast<const Simulation *>(r->state);
  const uint64_t alive = toll_number(r, "packets") + simulation->copies - simulation->copies_ended;
  if (simulation->unordered) return toll_wrong(r, "an event was handled after a later one");
  if (simulation->pending != alive) return toll_wrong(r, "events were lost");
  if (simulation->hops != simulation->handled - simulation->copies_ended + simulation->copies)
    return toll_wrong(r, "packets were lost");
  if (heap::account.objects != MODULES + 2 * alive) return toll_wrong(r, "objects were lost");
  return TOLL_OK;
}

const uint64_t packet_counts[] = {100, 10000, 1000000, TOLL_END};
const struct toll_parameter parameters[] = {{.name = "packets",
                                             .kind = TOLL_COUNT,
                                             .summary = "packets under way",
                                             .values = packet_counts,
                                             .typical = "10000"},
                                            {}};
const struct toll_metric metrics[] = {{.name = "event",
                                       .unit = "ns",
                                       .summary = "one event taken, handled and followed by another",
                                       .means = "object-store",
                                       .toll = "simulate an event, {packets} pending"},
                                      HEAP_METRICS,
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does pointer width cost a simulation whose events are small objects in a queue?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(Simulation),
    .prepare = prepare,
    .body = simulate,
    .check = check,
    .finish = heap::report,
    .accounts = true,
    .revision = 3,
};
