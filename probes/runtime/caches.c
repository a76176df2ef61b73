/* SPDX-License-Identifier: Apache-2.0
 *
 * What the system reports of a CPU's caches, from four sources in this order: sysfs, CPUID, the device tree, and
 * /proc/cpuinfo of z/Architecture. Many Arm kernels list caches without sizes in sysfs, others list none, and s390x lists
 * private ones only. A later source fills in what is unknown, and lists the caches where no earlier one did.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { DEFAULT_LINE_BYTES = 64, DEFAULT_LAST_BYTES = 32 << 20 };

/* has_all: no earlier source has listed a cache, or this source lists more caches. */
struct list {
  struct toll_cache *caches;
  unsigned count, room;
  bool has_all;
};

static void fill(uint64_t *known, uint64_t found) {
  if (!*known) *known = found;
}

/* Adds a cache, or what was unknown of the one of this level and kind. */
static void add(struct list *list, const struct toll_cache *found) {
  for (unsigned i = 0; i < list->count; i++) {
    struct toll_cache *cache = &list->caches[i];
    if (cache->level != found->level || strcmp(cache->kind, found->kind) != 0) continue;
    if (!cache->size_bytes && found->size_bytes) cache->source = found->source;
    fill(&cache->size_bytes, found->size_bytes);
    fill(&cache->line_bytes, found->line_bytes);
    fill(&cache->ways, found->ways);
    return;
  }
  if (list->has_all && list->count < list->room) list->caches[list->count++] = *found;
}

/* Whether a further source is needed. If no cache is known, that source lists them. */
static bool lacks_sizes(struct list *list) {
  list->has_all = list->count == 0;
  for (unsigned i = 0; i < list->count; i++)
    if (!list->caches[i].size_bytes) return true;
  return list->has_all;
}

static const char *kind_named(const char *type) {
  return *type == 'D' ? "data" : *type == 'I' ? "instruction" : "unified";
}

static uint64_t bytes_in(const char *text) {
  char *unit;
  const uint64_t number = strtoull(text, &unit, 10);
  return *unit == 'K' ? number << 10 : *unit == 'M' ? number << 20 : number;
}

/* ---- sysfs ---- */

static bool sysfs_text(int cpu, unsigned index, const char *name, char *text, size_t room) {
  char path[128];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%u/%s", cpu, index, name);
  return toll_read_text(path, text, room);
}

static uint64_t sysfs_bytes(int cpu, unsigned index, const char *name) {
  char text[64];
  return sysfs_text(cpu, index, name, text, sizeof text) ? bytes_in(text) : 0;
}

static void add_of_sysfs(struct list *list, int cpu) {
  char type[32];
  for (unsigned index = 0; index < list->room && sysfs_text(cpu, index, "type", type, sizeof type); index++) {
    struct toll_cache *cache = &list->caches[list->count++];
    *cache = (struct toll_cache){.level = (unsigned)sysfs_bytes(cpu, index, "level"),
                                 .kind = kind_named(type),
                                 .size_bytes = sysfs_bytes(cpu, index, "size"),
                                 .line_bytes = sysfs_bytes(cpu, index, "coherency_line_size"),
                                 .ways = sysfs_bytes(cpu, index, "ways_of_associativity")};
    if (cache->size_bytes) cache->source = "sysfs";
    sysfs_text(cpu, index, "shared_cpu_list", cache->shared_cpus, sizeof cache->shared_cpus);
  }
}

/* ---- CPUID ---- */

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* Deterministic cache parameters: leaf 4 on Intel, leaf 8000001DH of the same form on AMD. */
static void add_of_cpuid(struct list *list) {
  static const char *const kinds[] = {"", "data", "instruction", "unified"};
  unsigned a, b, c, d, leaf = (unsigned)__get_cpuid_max(0x80000000u, NULL) >= 0x8000001du ? 0x8000001du : 4;
  for (unsigned index = 0; index < list->room && __get_cpuid_count(leaf, index, &a, &b, &c, &d); index++) {
    const unsigned kind = a & 31, line = (b & 0xfff) + 1, ways = (b >> 22) + 1;
    if (kind == 0 || kind > 3) break;
    add(list, &(struct toll_cache){.level = a >> 5 & 7,
                                   .kind = kinds[kind],
                                   .size_bytes = (uint64_t)ways * ((b >> 12 & 0x3ff) + 1) * line * ((uint64_t)c + 1),
                                   .line_bytes = line,
                                   .ways = ways,
                                   .source = "CPUID"});
  }
}
#else
static void add_of_cpuid(struct list *list) {
  (void)list;
}
#endif

/* ---- the device tree (Devicetree Specification 0.4, 3.8 and 3.9) ---- */

static uint32_t cell(const char *node, const char *name) {
  char path[TOLL_FOLDER_BYTES + 64];
  uint32_t value;
  snprintf(path, sizeof path, "%s/%s", node, name);
  return toll_read_cell(path, &value) ? value : 0;
}

/* The folder of the cache that a phandle means: caches are nodes of /cpus, of a CPU there, or of a bus of the chip. */
static bool find_node(const char *folder, uint32_t phandle, unsigned depth, char *node, size_t room) {
  char moved[TOLL_FOLDER_BYTES], inner[TOLL_FOLDER_BYTES];
  DIR *entries = opendir(toll_system_path(folder, moved, sizeof moved));
  bool found = false;
  for (struct dirent *entry; !found && entries && (entry = readdir(entries));) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    const int length = snprintf(inner, sizeof inner, "%s/%s", folder, entry->d_name);
    if (length < 0 || (size_t)length >= room || (size_t)length >= sizeof inner) continue;
    found = strstr(entry->d_name, "cache") && cell(inner, "phandle") == phandle;
    if (found) memcpy(node, inner, (size_t)length + 1);
    if (!found && depth > 1) found = find_node(inner, phandle, depth - 1, node, room);
  }
  if (entries) closedir(entries);
  return found;
}

/* prefix: of a first cache's properties, "d-" or "i-". The ways follow from the sets. */
static void add_of_node(struct list *list, const char *node, unsigned level, const char *kind, const char *prefix) {
  static const char *const names[] = {"cache-size", "cache-line-size", "cache-block-size", "cache-sets"};
  uint32_t size_line_block_sets[4];
  char name[48];
  for (size_t i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "%s%s", prefix, names[i]);
    size_line_block_sets[i] = cell(node, name);
  }
  const uint32_t size = size_line_block_sets[0], sets = size_line_block_sets[3],
                 line = size_line_block_sets[1] ? size_line_block_sets[1] : size_line_block_sets[2];
  if (size)
    add(list, &(struct toll_cache){.level = level,
                                   .kind = kind,
                                   .size_bytes = size,
                                   .line_bytes = line,
                                   .ways = line && sets ? size / line / sets : 0,
                                   .source = "device tree"});
}

static void add_of_device_tree(struct list *list, int cpu) {
  enum { LEVELS = 4, DEPTH = 3 };
  char node[TOLL_FOLDER_BYTES];
  snprintf(node, sizeof node, "/sys/devices/system/cpu/cpu%d/of_node", cpu);
  add_of_node(list, node, 1, "data", "d-");
  add_of_node(list, node, 1, "instruction", "i-");
  for (unsigned level = 2; level <= LEVELS; level++) {
    const uint32_t next = cell(node, "next-level-cache"), phandle = next ? next : cell(node, "l2-cache");
    if (!phandle || !find_node("/sys/firmware/devicetree/base", phandle, DEPTH, node, sizeof node)) return;
    const uint32_t stated = cell(node, "cache-level");
    add_of_node(list, node, stated ? stated : level, "unified", "");
  }
}

/* ---- /proc/cpuinfo of z/Architecture ---- */

static uint64_t bytes_of(const char *line, const char *key) {
  const char *found = strstr(line, key);
  return found ? bytes_in(found + strlen(key)) : 0;
}

static bool may_be_z(void) {
#ifdef __s390__
  return true;
#else
  return toll_system_is_folder();
#endif
}

/* "cache4 : level=3 type=Unified scope=Shared size=65536K line_size=256 associativity=16" */
static void add_of_cpuinfo(struct list *list) {
  char name[24], line[192];
  list->has_all = true;
  for (unsigned i = 0; i < list->room; i++) {
    snprintf(name, sizeof name, "cache%u ", i);
    if (!toll_find_field("/proc/cpuinfo", name, line, sizeof line)) continue;
    const char *type = strstr(line, "type=");
    add(list, &(struct toll_cache){.level = (unsigned)bytes_of(line, "level="),
                                   .kind = kind_named(type ? type + strlen("type=") : ""),
                                   .size_bytes = bytes_of(line, " size="),
                                   .line_bytes = bytes_of(line, "line_size="),
                                   .ways = bytes_of(line, "associativity="),
                                   .source = "/proc/cpuinfo"});
  }
}

/* ---- all of them ---- */

unsigned toll_caches_of(int cpu, struct toll_cache *caches, unsigned room) {
  struct list list = {caches, 0, room, false};
  if (toll_counts_instructions()) return 0; /* an emulator has no caches, and reports those of its host */
  add_of_sysfs(&list, cpu);
  if (lacks_sizes(&list) && !toll_system_is_folder()) add_of_cpuid(&list);
  if (lacks_sizes(&list)) add_of_device_tree(&list, cpu);
  if (may_be_z()) add_of_cpuinfo(&list);
  return list.count;
}

/* ---- what probes ask: of the CPU that they run on, since a machine may have several kinds ---- */

static unsigned own_caches(struct toll_cache *caches) {
  const int cpu = sched_getcpu();
  return toll_caches_of(cpu < 0 ? 0 : cpu, caches, TOLL_MOST_CACHES);
}

size_t toll_line_bytes(void) {
  struct toll_cache caches[TOLL_MOST_CACHES];
  const unsigned count = own_caches(caches);
  for (unsigned i = 0; i < count; i++)
    if (caches[i].line_bytes >= 8 && caches[i].line_bytes <= 1024) return (size_t)caches[i].line_bytes;
  return DEFAULT_LINE_BYTES;
}

static struct toll_cache largest(const struct toll_cache *caches, unsigned count) {
  struct toll_cache last = {.size_bytes = 0};
  for (unsigned i = 0; i < count; i++)
    if (caches[i].size_bytes > last.size_bytes) last = caches[i];
  if (!last.size_bytes) last.size_bytes = DEFAULT_LAST_BYTES;
  return last;
}

size_t toll_last_cache_bytes(void) {
  struct toll_cache caches[TOLL_MOST_CACHES];
  return (size_t)largest(caches, own_caches(caches)).size_bytes;
}

static bool seen_before(const struct toll_cache *found, unsigned count, const struct toll_cache *cache) {
  for (unsigned i = 0; i < count; i++)
    if (strcmp(found[i].shared_cpus, cache->shared_cpus) == 0) return true;
  return false;
}

/* Two CPUs share a cache if the system reports the same list of sharers for both. Without lists, all of them share
 * one. */
size_t toll_last_caches_bytes(const struct toll_run *r, unsigned cpus) {
  enum { MOST_LAST_CACHES = 128 };
  struct toll_cache found[MOST_LAST_CACHES], caches[TOLL_MOST_CACHES];
  unsigned count = 0;
  size_t bytes = 0;
  for (unsigned i = 0; i < cpus && i < r->cpu_count && count < MOST_LAST_CACHES; i++) {
    found[count] = largest(caches, toll_caches_of(r->cpus ? r->cpus[i] : 0, caches, TOLL_MOST_CACHES));
    if (!seen_before(found, count, &found[count])) bytes += (size_t)found[count++].size_bytes;
  }
  return bytes;
}
