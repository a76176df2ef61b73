/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's record as the runner needs it: caches, memory nodes, and the CPUs in the order in which workers take them.
 */
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

/* Assumed cache sizes of a machine that reports none, as in src/tollmeter/plan/values.py. */
enum { ASSUMED_L1_BYTES = 32 << 10, ASSUMED_L2_BYTES = 256 << 10 };

/* The first object of an array; NULL where it is empty or missing. */
static const char *first_of(const char *line, const char *key) {
  const char *array = value_of(line, key);
  return array && array[0] == '[' && array[1] == '{' ? array + 1 : NULL;
}

/* The object after this one; NULL after the last. None here contains another. */
static const char *next_of(const char *object) {
  const char *end = strchr(object, '}');
  return end && end[1] == ',' ? end + 2 : NULL;
}

static void caches_read(struct machine *machine, const char *line) {
  for (const char *cache = first_of(line, "caches"); cache; cache = next_of(cache)) {
    char kind[16];
    const unsigned level = (unsigned)number_of(cache, "level", 0);
    text_of(cache, "kind", kind, sizeof kind);
    if (level == 0 || level > 9 || strcmp(kind, "instruction") == 0) continue;
    machine->cache_bytes[level] = (uint64_t)number_of(cache, "size_bytes", 0);
    if (machine->cache_bytes[level] > machine->last_bytes) machine->last_bytes = machine->cache_bytes[level];
  }
  if (machine->last_bytes) return;
  machine->cache_bytes[1] = ASSUMED_L1_BYTES;
  machine->cache_bytes[2] = ASSUMED_L2_BYTES;
  machine->cache_bytes[3] = machine->last_bytes = LEAST_LAST_BYTES;
}

static void nodes_read(struct machine *machine, const char *line) {
  for (const char *node = first_of(line, "nodes"); node && machine->node_count < MOST_NODES; node = next_of(node)) {
    char cpus[4];
    text_of(node, "cpus", cpus, sizeof cpus);
    machine->nodes[machine->node_count++] =
        (struct node){(unsigned)number_of(node, "node", 0), cpus[0] != '\0', number_of(node, "memory_bytes", 0) > 0};
  }
}

unsigned nodes_with_memory(const struct machine *machine) {
  unsigned count = 0;
  for (unsigned i = 0; i < machine->node_count; i++) count += machine->nodes[i].has_memory;
  return count;
}

/* ---- CPUs ---- */

static void allowed_read(struct machine *machine, const char *line) {
  const char *cpu = value_of(line, "allowed_cpus");
  if (cpu) cpu++;
  while (cpu && *cpu >= '0' && *cpu <= '9' && machine->allowed_count < MOST_CPUS) {
    char *rest;
    machine->allowed[machine->allowed_count++] = (int)strtol(cpu, &rest, 10);
    cpu = *rest == ',' ? rest + 1 : rest;
  }
}

/* list: 0-3,8-14/2 up to the quote that ends it. */
static bool is_listed(const char *list, int cpu) {
  while (*list >= '0' && *list <= '9') {
    char *rest;
    const long first = strtol(list, &rest, 10);
    const long last = *rest == '-' ? strtol(rest + 1, &rest, 10) : first;
    const long step = *rest == '/' ? strtol(rest + 1, &rest, 10) : 1;
    if (cpu >= first && cpu <= last && step > 0 && (cpu - first) % step == 0) return true;
    list = *rest == ',' ? rest + 1 : rest;
  }
  return false;
}

/* Ranks a kind of core by the scheduler's capacity, then by the highest clock, then by the record's order, which
 * lists kinds without either by speed, the fastest first. 0 where the system reports no kinds. */
static double speed_of(const char *topology, int cpu) {
  const char *kind = first_of(topology, "kinds");
  for (unsigned place = 0; kind; kind = next_of(kind), place++) {
    const char *cpus = value_of(kind, "cpus");
    if (cpus && is_listed(cpus + 1, cpu))
      return number_of(kind, "capacity", 0) * 1e8 + number_of(kind, "max_khz", 0) - 1e-3 * place;
  }
  return 0;
}

/* The index of the set that contains the CPU, such as its core among the sets of threads; -1 if none does. */
static int set_of(const char *topology, const char *kind, int cpu) {
  const char *set = value_of(topology, kind);
  for (int place = 0; set && (*set == '[' || *set == ',') && set[1] == '"'; place++) {
    if (is_listed(set + 2, cpu)) return place;
    set = strchr(set + 2, '"');
    if (set) set++;
  }
  return -1;
}

static void sets_read(struct machine *machine, const char *line) {
  static const char *const kinds[SETS] = {"cores", "last_caches", "packages"};
  const char *topology = value_of(line, "topology");
  for (unsigned kind = 0; kind < SETS; kind++) {
    for (int cpu = 0; cpu < SET_CPUS; cpu++) machine->sets[kind][cpu] = -1;
    for (unsigned i = 0; topology && i < machine->allowed_count; i++) {
      const int cpu = machine->allowed[i];
      if (cpu < SET_CPUS) machine->sets[kind][cpu] = (short)set_of(topology, kinds[kind], cpu);
    }
  }
}

struct cpu {
  int number, core;
  double speed;
};

/* The fastest first; of equal ones the highest, since interrupts land on low CPUs more often. */
static int by_speed(const void *one, const void *other) {
  const struct cpu *a = one, *b = other;
  if (a->speed != b->speed) return a->speed < b->speed ? 1 : -1;
  return a->number < b->number ? 1 : -1;
}

static bool is_core_taken(const struct cpu *cpus, unsigned before) {
  for (unsigned i = 0; i < before; i++)
    if (cpus[before].core >= 0 && cpus[i].core == cpus[before].core) return true;
  return false;
}

/* Orders CPUs as src/tollmeter/plan/placement.py does, without its relations: one CPU of each core before its other
 * threads. Where there are more than two, the last by speed is left to the system. */
static void cpus_order(struct machine *machine, const char *line) {
  struct cpu cpus[MOST_CPUS];
  const char *topology = value_of(line, "topology");
  unsigned count = machine->allowed_count, placed = 0;
  for (unsigned i = 0; i < count; i++) {
    const int number = machine->allowed[i];
    cpus[i] = (struct cpu){number, topology ? set_of(topology, "cores", number) : -1,
                           topology ? speed_of(topology, number) : 0};
  }
  qsort(cpus, count, sizeof *cpus, by_speed);
  if (count > 2) count--;
  for (unsigned other_threads = 0; other_threads < 2; other_threads++)
    for (unsigned i = 0; i < count; i++)
      if (is_core_taken(cpus, i) == other_threads) machine->allowed[placed++] = cpus[i].number;
  machine->allowed_count = placed;
}

void machine_read(struct machine *machine, const char *line) {
  text_of(line, "architecture", machine->architecture, sizeof machine->architecture);
  text_of(line, "host", machine->host, sizeof machine->host);
  text_of(line, "cpu", machine->cpu, sizeof machine->cpu);
  text_of(line, "kernel", machine->kernel, sizeof machine->kernel);
  const char *control = strstr(line, "{\"k\":\"control\"");
  if (control) machine->core_hz = number_of(control, "adds", 0) / number_of(control, "ns", 1) * 1e9;
  machine->cpus = (unsigned)number_of(line, "cpus", 1);
  machine->memory_bytes = (uint64_t)number_of(line, "memory_bytes", 0);
  caches_read(machine, line);
  nodes_read(machine, line);
  allowed_read(machine, line);
  sets_read(machine, line);
  cpus_order(machine, line);
}
