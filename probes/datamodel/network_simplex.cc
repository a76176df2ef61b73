/* SPDX-License-Identifier: Apache-2.0
 *
 * The cheapest flow through a network, by LEMON's network simplex: what mcf of SPEC CPU computes, whose speed on x32 is
 * the headline of a study of pointer width (suite x32-2013).
 *
 * The method walks a spanning tree of the nodes and looks for an arc that would make the flow cheaper, block by block of
 * all arcs (Dantzig 1951; LEMON's block search, Kiraly and Kovacs 2012): loads over arrays too large for the caches, with
 * hardly anything computed between them. mcf keeps its tree in pointers and its costs and flows in longs. LEMON keeps the
 * tree in indices of 32 bits under every ABI; costs and flows are of the type that it is asked for, which are longs here
 * as there. So x32 and ia32 are spared half of the costs and flows, but nothing of the tree, and what they gain is less
 * than mcf's.
 *
 * The network grows by its arcs, and has five nodes for each of the root of their number: a timetable, as mcf's is, has the
 * more connections a trip the more trips there are, and with as many nodes as arcs a gigabyte of them would take hours. A
 * ring of expensive arcs without bound makes every demand attainable.
 */
#include "heap.h"
#include "library.h"
#include "toll.h"

#if TOLL_CXX_LIBRARY && __has_include(<lemon/network_simplex.h>)
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include <cmath>

namespace {

enum {
  MOST_COST = 1000,
  RING_COST = 20 * MOST_COST,
  MOST_CAPACITY = 100,
  MOST_SUPPLY = 50,
  LEAST_ARCS = 1000,
  NODES_OF_ROOT = 5
};

/* mcf's own type of costs and flows: 64 bits on x86-64, 32 on x32 and ia32. */
using Number = long;
using Graph = lemon::SmartDigraph;
using Simplex = lemon::NetworkSimplex<Graph, Number, Number>;

struct Network {
  Graph graph;
  Graph::ArcMap<Number> cost, capacity;
  Graph::NodeMap<Number> supply;
  Simplex simplex;
  Network() : cost(graph), capacity(graph), supply(graph), simplex(graph) {}
};

struct State {
  Network *network;
  int64_t total; /* cost of the cheapest flow; 0 before it was computed */
  uint64_t solved, asked;
};

/* Bytes for one arc: two indices and two links of the graph, its cost and capacity there; two indices, an index of the
 * original, a state, and cost, flow, capacity, lower and upper bound in the simplex. */
uint64_t bytes_of_arc() {
  return 4 * sizeof(int) + 2 * sizeof(Number) + 3 * sizeof(int) + 1 + 5 * sizeof(Number);
}

void add_arc(Network *network, int from, int to, Number cost, Number capacity) {
  const Graph::Arc arc = network->graph.addArc(Graph::nodeFromId(from), Graph::nodeFromId(to));
  network->cost[arc] = cost;
  network->capacity[arc] = capacity;
}

/* The supplies of two successive nodes cancel, so that the sum of all is zero. */
void add_nodes(Network *network, int nodes, uint64_t *random) {
  network->graph.reserveNode(nodes);
  for (int i = 0; i < nodes; i++) network->graph.addNode();
  for (int i = 0; i + 1 < nodes; i += 2) {
    const Number units = 1 + static_cast<Number>(toll_random_below(random, MOST_SUPPLY));
    network->supply[Graph::nodeFromId(i)] = units;
    network->supply[Graph::nodeFromId(i + 1)] = -units;
  }
}

void add_arcs(Network *network, int nodes, int arcs, uint64_t *random) {
  network->graph.reserveArc(arcs);
  for (int i = 0; i < nodes; i++)
    add_arc(network, i, (i + 1) % nodes, RING_COST, static_cast<Number>(nodes) * MOST_SUPPLY);
  for (int i = nodes; i < arcs; i++) {
    const int from = static_cast<int>(toll_random_below(random, static_cast<uint64_t>(nodes)));
    const int to = static_cast<int>(toll_random_below(random, static_cast<uint64_t>(nodes)));
    const Number cost = 1 + static_cast<Number>(toll_random_below(random, MOST_COST));
    add_arc(network, from, to, cost, 1 + static_cast<Number>(toll_random_below(random, MOST_CAPACITY)));
  }
}

enum toll_status prepare(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  const uint64_t arcs = toll_number(r, "arcs");
  if (arcs < LEAST_ARCS || arcs > INT32_MAX / 2)
    return toll_skip(r, "a network has %d to %d arcs here", LEAST_ARCS, INT32_MAX / 2);
  if (toll_needs_memory(r, arcs * bytes_of_arc()) != TOLL_OK) return toll_refused(r);
  const int nodes = NODES_OF_ROOT * static_cast<int>(std::sqrt(static_cast<double>(arcs)));
  uint64_t random = r->seed;
  Network *network = new Network;
  state->network = network;
  add_nodes(network, nodes, &random);
  add_arcs(network, nodes, static_cast<int>(arcs), &random);
  network->simplex.reset().upperMap(network->capacity).costMap(network->cost).supplyMap(network->supply);
  return TOLL_OK;
}

/* LEMON starts each run from the initial basis. */
void work_on(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  for (uint64_t i = r->iterations; i; i--) {
    if (state->network->simplex.run() != Simplex::OPTIMAL) continue;
    const int64_t total = state->network->simplex.totalCost<int64_t>();
    if (!state->total) state->total = total;
    state->solved += total == state->total;
  }
  state->asked += r->iterations;
}

/* Whether the flow is feasible and optimal: every arc with a negative reduced cost is full, every arc with a positive
 * one is empty (Ahuja, Magnanti and Orlin 1993, theorem 9.4). This proves the optimum independently of the
 * algorithm. */
bool arc_is_optimal(const Network &network, Graph::Arc arc) {
  const int64_t flow = network.simplex.flow(arc);
  const int64_t reduced = int64_t{network.cost[arc]} + network.simplex.potential(network.graph.source(arc)) -
                          network.simplex.potential(network.graph.target(arc));
  if (flow < 0 || flow > network.capacity[arc]) return false;
  return reduced > 0 ? flow == 0 : reduced == 0 || flow == network.capacity[arc];
}

bool node_is_balanced(const Network &network, Graph::Node node) {
  int64_t flow = 0;
  for (Graph::OutArcIt arc(network.graph, node); arc != lemon::INVALID; ++arc) flow += network.simplex.flow(arc);
  for (Graph::InArcIt arc(network.graph, node); arc != lemon::INVALID; ++arc) flow -= network.simplex.flow(arc);
  return flow == network.supply[node];
}

enum toll_status check(struct toll_run *r) {
  const State *state = static_cast<const State *>(r->state);
  const Network &network = *state->network;
  if (state->solved != state->asked) return toll_wrong(r, "the cheapest flow was not found, or not the same each time");
  for (Graph::ArcIt arc(network.graph); arc != lemon::INVALID; ++arc)
    if (!arc_is_optimal(network, arc)) return toll_wrong(r, "the flow is not the cheapest");
  for (Graph::NodeIt node(network.graph); node != lemon::INVALID; ++node)
    if (!node_is_balanced(network, node)) return toll_wrong(r, "the flow does not meet a demand");
  return TOLL_OK;
}

void finish(struct toll_run *r) {
  toll_report(r, "objective", static_cast<double>(static_cast<const State *>(r->state)->total));
  heap::report(r);
}

}  // namespace

#else
#define ABSENT "LEMON"
#include "absent.h"
#endif

namespace {

const uint64_t arc_counts[] = {30000, 300000, 3000000, TOLL_END};
const struct toll_parameter parameters[] = {
    {.name = "arcs", .kind = TOLL_COUNT, .summary = "arcs of the network", .values = arc_counts, .typical = "300000"},
    {}};
const struct toll_metric metrics[] = {{.name = "solve",
                                       .unit = "ns",
                                       .summary = "the cheapest flow found, from no flow at all",
                                       .means = "program",
                                       .toll = "minimum-cost flow, network of {arcs} arcs"},
                                      {.name = "objective",
                                       .unit = "count",
                                       .better = TOLL_NEITHER,
                                       .summary = "cost of the cheapest flow",
                                       .source = TOLL_GAUGE},
                                      HEAP_METRICS,
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does pointer width cost a program that is bound by memory: the cheapest flow through a network?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(State),
    .prepare = prepare,
    .body = work_on,
    .check = check,
    .finish = finish,
    .accounts = true,
    .library = "lemon",
    .revision = 2,
};
