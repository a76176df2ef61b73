/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the probes over pairs of memory nodes: a CPU of one node, and memory of another or the same node. Memory
 * is bound by policy, and its actual node is read back from the system; the CPU is chosen among those that the visit
 * may use.
 */
#ifndef MEMORY_NUMA_H
#define MEMORY_NUMA_H

#include <sys/syscall.h>
#include <unistd.h>

#include "large.h"

/* Constants of <linux/mempolicy.h>, which a C library need not contain. */
enum { NUMA_DEFAULT = 0, NUMA_BIND = 2, NUMA_ASK_NODE = 1, NUMA_ASK_ADDRESS = 2 };

/* Memory nodes of the kernel's largest configuration. */
enum { MOST_NODES = 1024 };

/* A CPU of the node that this visit may use; -1 where there is none. */
static inline int numa_cpu_on(const struct toll_run *r, unsigned node) {
  for (unsigned i = 0; i < r->cpu_count; i++)
    if (toll_node_has(node, r->cpus[i])) return r->cpus[i];
  return -1;
}

static inline bool numa_bind(unsigned node) {
  if (node >= MOST_NODES) return false;
  unsigned long mask[MOST_NODES / (8 * sizeof(long)) + 1] = {0};
  mask[node / (8 * sizeof(long))] = 1ul << node % (8 * sizeof(long));
  return syscall(SYS_set_mempolicy, NUMA_BIND, mask, (unsigned long)MOST_NODES + 1) == 0;
}

static inline void numa_unbind(void) {
  syscall(SYS_set_mempolicy, NUMA_DEFAULT, NULL, 0ul);
}

/* The node that holds an address; -1 where the system does not say. */
static inline int numa_node_of(const void *address) {
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, NULL, 0ul, address, (unsigned long)(NUMA_ASK_NODE | NUMA_ASK_ADDRESS)))
    return -1;
  return node;
}

/* Memory of node `home` for a worker that now runs on node `node`; NULL after a refusal. */
static inline char *numa_buffer(struct toll_run *r, unsigned node, unsigned home, size_t bytes, enum toll_pages pages) {
  int cpu = numa_cpu_on(r, node);
  if (cpu < 0) return toll_skip(r, "this run may use no CPU of memory node %u", node), NULL;
  if (toll_move(r, cpu) != TOLL_OK) return NULL;
  if (!numa_bind(home)) return toll_skip(r, "the system refused to bind memory to node %u", home), NULL;
  char *memory = (char *)toll_buffer(r, (struct toll_buffer_request){.bytes = bytes, .pages = pages});
  numa_unbind();
  if (!memory) return NULL;
  int first = numa_node_of(memory), last = numa_node_of(memory + bytes - 1);
  if (first == (int)home && last == (int)home) return memory;
  if (first < 0) return toll_skip(r, "the system does not tell which memory node a page is on"), NULL;
  return toll_skip(r, "the memory came from nodes %d and %d in place of %u", first, last, home), NULL;
}

/* Likewise on a machine with one node, which is all of its memory and CPUs: there are no others to bind to. */
static inline char *numa_or_only_memory(struct toll_run *r, unsigned node, unsigned home, size_t bytes) {
  if (toll_node_count() > 1) {
    if (!toll_node_exists(node) || !toll_node_exists(home))
      return toll_skip(r, "this machine has no memory node %u", toll_node_exists(node) ? home : node), NULL;
    return numa_buffer(r, node, home, bytes, TOLL_PAGES_LARGE);
  }
  if (node || home) return toll_skip(r, "this machine has one memory node, number 0"), NULL;
  return large_buffer(r, bytes, 0);
}

/* The two nodes of the point; refused where the machine lacks one. */
static inline enum toll_status numa_pair(struct toll_run *r, unsigned *node, unsigned *home) {
  *node = (unsigned)toll_number(r, "node");
  *home = (unsigned)toll_number(r, "home");
  if (toll_node_count() < 2) return toll_skip(r, "this machine has one memory node");
  if (!toll_node_exists(*node)) return toll_skip(r, "this machine has no memory node %u", *node);
  if (!toll_node_exists(*home)) return toll_skip(r, "this machine has no memory node %u", *home);
  return TOLL_OK;
}

/* The memory that the point asks for; NULL after a refusal. */
static inline char *numa_memory(struct toll_run *r, size_t bytes) {
  unsigned node, home;
  if (numa_pair(r, &node, &home) != TOLL_OK) return NULL;
  return numa_buffer(r, node, home, bytes, TOLL_PAGES_LARGE);
}

#define NUMA_NODES(what_node, what_home)                                                          \
  {.name = "node", .kind = TOLL_COUNT, .summary = what_node, .to_scale = TOLL_NODES_WITH_CPUS}, { \
    .name = "home", .kind = TOLL_COUNT, .summary = what_home, .to_scale = TOLL_NODES_WITH_MEMORY  \
  }

#define NUMA_PARAMETERS                                                                         \
  NUMA_NODES("memory node whose CPU asks", "memory node that holds the memory"), {              \
    .name = "size", .kind = TOLL_SIZE, .summary = "bytes of memory", .from = 64 << 20, .to = 4, \
    .to_scale = TOLL_TIMES_LAST_CACHE, .per_octave = 1, .typical = "4xLAST"                     \
  }

#endif
