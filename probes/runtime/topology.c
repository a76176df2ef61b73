/* SPDX-License-Identifier: Apache-2.0
 *
 * The relations between the machine's CPUs and memory nodes, as the system reports them in /sys and /proc. All online
 * CPUs are included, even those that this process may not use. Numbers of CPUs and nodes may have gaps.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { LIST_BYTES = 16384, MOST_CACHE_INDEXES = 16, MOST_NODES_WITH_DISTANCES = 64, WORD_BITS = 64 };
static const char cpu_folder[] = "/sys/devices/system/cpu";
static const char node_folder[] = "/sys/devices/system/node";

/* ---- sets of numbers ---- */

bool toll_set_has(const struct toll_set *set, int number) {
  return number >= 0 && number < TOLL_MOST_LISTED && set->words[number / WORD_BITS] >> (unsigned)number % WORD_BITS & 1;
}

static void add(struct toll_set *set, unsigned long first, unsigned long last) {
  for (unsigned long i = first; i <= last && i < TOLL_MOST_LISTED; i++)
    set->words[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
}

static void add_all(struct toll_set *set, const struct toll_set *others) {
  for (size_t i = 0; i < TOLL_MOST_LISTED / WORD_BITS; i++) set->words[i] |= others->words[i];
}

/* The least member that is not below a number; TOLL_MOST_LISTED if there is none. */
static unsigned next_in(const struct toll_set *set, unsigned from) {
  while (from < TOLL_MOST_LISTED && !toll_set_has(set, (int)from)) from++;
  return from;
}

static unsigned size_of(const struct toll_set *set) {
  unsigned count = 0;
  for (unsigned i = next_in(set, 0); i < TOLL_MOST_LISTED; i = next_in(set, i + 1)) count++;
  return count;
}

/* Reads a list such as "0-3,8". False if it is empty or "(null)". */
bool toll_parse_set(const char *text, struct toll_set *set) {
  bool any = false;
  memset(set, 0, sizeof *set);
  while (*text >= '0' && *text <= '9') {
    char *rest;
    const unsigned long first = strtoul(text, &rest, 10);
    add(set, first, *rest == '-' ? strtoul(rest + 1, &rest, 10) : first);
    any = true;
    text = *rest == ',' ? rest + 1 : rest;
  }
  return any;
}

bool toll_read_set(const char *path, struct toll_set *set) {
  char text[LIST_BYTES]; /* companion threads call this too */
  toll_read_text(path, text, sizeof text);
  return toll_parse_set(text, set);
}

/* "0-3,8-14/2": numbers of equal distance form one term, since some systems number the CPUs of their packages
 * alternately. */
void toll_put_set(const char *key, const struct toll_set *set) {
  static char text[LIST_BYTES];
  size_t used = 0;
  text[0] = '\0';
  for (unsigned first = next_in(set, 0), next; first < TOLL_MOST_LISTED && used + 32 < sizeof text; first = next) {
    const unsigned second = next_in(set, first + 1), step = second - first;
    unsigned last = first, terms = 1;
    for (next = second; next < TOLL_MOST_LISTED && next - last == step; next = next_in(set, next + 1)) {
      last = next;
      terms++;
    }
    const char *comma = used ? "," : "";
    if (terms > 1 && step == 1)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%u-%u", comma, first, last);
    else if (terms > 2)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%u-%u/%u", comma, first, last, step);
    else
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", comma, first), next = second;
  }
  toll_put_text(key, text);
}

/* ---- CPUs ---- */

static bool read_cpu_set(int cpu, const char *name, struct toll_set *set) {
  char path[160];
  snprintf(path, sizeof path, "%s/cpu%d/%s", cpu_folder, cpu, name);
  return toll_read_set(path, set);
}

static bool read_cpu_number(int cpu, const char *name, uint64_t *number) {
  char path[160];
  snprintf(path, sizeof path, "%s/cpu%d/%s", cpu_folder, cpu, name);
  return toll_read_number(path, number);
}

/* Kernels before 5.3 use other names for a core and a package, and report no die. */
bool toll_core_of(int cpu, struct toll_set *set) {
  return read_cpu_set(cpu, "topology/core_cpus_list", set) || read_cpu_set(cpu, "topology/thread_siblings_list", set);
}

static bool package_of(int cpu, struct toll_set *set) {
  return read_cpu_set(cpu, "topology/package_cpus_list", set) || read_cpu_set(cpu, "topology/core_siblings_list", set);
}

/* Cores that share something nearer than the package's cache: since Linux 5.16. Often the core itself. */
static bool cluster_of(int cpu, struct toll_set *set) {
  return read_cpu_set(cpu, "topology/cluster_cpus_list", set);
}

static bool die_of(int cpu, struct toll_set *set) {
  return read_cpu_set(cpu, "topology/die_cpus_list", set);
}

/* CPUs that share the cache of the highest level, where the system reports caches. */
static bool last_cache_of(int cpu, struct toll_set *set) {
  char name[64];
  uint64_t level, highest = 0;
  int last = 0;
  for (int i = 0; i < MOST_CACHE_INDEXES; i++) {
    snprintf(name, sizeof name, "cache/index%d/level", i);
    if (!read_cpu_number(cpu, name, &level)) break;
    if (level > highest) highest = level, last = i;
  }
  snprintf(name, sizeof name, "cache/index%d/shared_cpu_list", last);
  return highest && read_cpu_set(cpu, name, set);
}

bool toll_share_core(int cpu, int other) {
  struct toll_set core;
  return toll_core_of(cpu, &core) && toll_set_has(&core, other);
}

/* folder: of CPUs or of memory nodes. */
static bool read_online(const char *folder, struct toll_set *online) {
  char path[64];
  snprintf(path, sizeof path, "%s/online", folder);
  return toll_read_set(path, online);
}

unsigned toll_online_cpus(void) {
  struct toll_set online;
  return read_online(cpu_folder, &online) ? size_of(&online) : 0;
}

unsigned toll_reported_cpus(int *cpus, unsigned room) {
  static char text[LIST_BYTES];
  struct toll_set allowed, online;
  unsigned count = 0;
  if (!toll_find_field("/proc/self/status", "Cpus_allowed_list", text, sizeof text) || !toll_parse_set(text, &allowed))
    return 0;
  if (!read_online(cpu_folder, &online)) online = allowed;
  for (unsigned i = next_in(&allowed, 0); i < TOLL_MOST_LISTED && count < room; i = next_in(&allowed, i + 1))
    if (toll_set_has(&online, (int)i)) cpus[count++] = (int)i;
  return count;
}

/* Each set that some CPU belongs to, once. */
static void put_sets(const char *key, const struct toll_set *online, bool (*set_of)(int cpu, struct toll_set *set)) {
  struct toll_set listed = {{0}}, set;
  unsigned seen = 0;
  toll_put_open(key, '[');
  for (unsigned cpu = next_in(online, 0); cpu < TOLL_MOST_LISTED && seen < TOLL_MOST_CPUS;
       cpu = next_in(online, cpu + 1), seen++) {
    if (toll_set_has(&listed, (int)cpu) || !set_of((int)cpu, &set)) continue;
    add_all(&listed, &set);
    toll_put_set(NULL, &set);
  }
  toll_put_close(']');
}

/* ---- kinds of cores ---- */

uint64_t toll_most_khz(int cpu) {
  uint64_t khz = 0;
  read_cpu_number(cpu, "cpufreq/cpuinfo_max_freq", &khz);
  return khz;
}

enum { MOST_NAMES = 16, NAME_BYTES = 64 };

/* A core's identity decides its kind: name_of is the place of each CPU's name, plus one; 0 is unknown. */
static struct {
  char names[MOST_NAMES][NAME_BYTES];
  unsigned char name_of[TOLL_MOST_LISTED];
  unsigned count;
} cores;

static void name_core(int cpu, const char *name) {
  unsigned place = 0;
  if (cpu < 0 || cpu >= TOLL_MOST_LISTED) return;
  while (place < cores.count && strcmp(cores.names[place], name) != 0) place++;
  if (place == MOST_NAMES) return;
  if (place == cores.count) snprintf(cores.names[cores.count++], NAME_BYTES, "%s", name);
  cores.name_of[cpu] = (unsigned char)(place + 1);
}

/* Names kinds of cores by their performance counters: x86 hybrids have a folder for each kind, listed here with the
 * fastest first. */
static void name_by_counters(void) {
  static const char *const names[] = {"cpu_core", "cpu_atom", "cpu_lowpower"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char path[64];
    struct toll_set cpus;
    snprintf(path, sizeof path, "/sys/devices/%s/cpus", names[i]);
    if (!toll_read_set(path, &cpus)) continue;
    for (unsigned cpu = next_in(&cpus, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(&cpus, cpu + 1))
      name_core((int)cpu, names[i]);
  }
}

static void name_by_register(const struct toll_set *online) {
  char name[NAME_BYTES];
  for (unsigned cpu = next_in(online, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(online, cpu + 1)) {
    if (!toll_core_by_midr((int)cpu, name, sizeof name)) return;
    name_core((int)cpu, name);
  }
}

/* Kernels for 32-bit Arm before 3.8 name one core for all CPUs: a name of some CPUs only says nothing. */
static void name_cores(const struct toll_set *online) {
  name_by_counters();
  if (!cores.count) name_by_register(online);
  if (!cores.count) toll_cores_by_cpuinfo(name_core);
  for (unsigned cpu = next_in(online, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(online, cpu + 1))
    if (!cores.name_of[cpu]) memset(&cores, 0, sizeof cores);
}

/* is_one_of: there are several kinds of one name, which the rating distinguishes. */
static void put_kind(const char *name, uint64_t capacity, const struct toll_set *cpus, bool is_one_of) {
  char text[NAME_BYTES + 32];
  uint64_t most_khz = 0;
  for (unsigned cpu = next_in(cpus, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(cpus, cpu + 1)) {
    const uint64_t khz = toll_most_khz((int)cpu);
    if (khz > most_khz) most_khz = khz;
  }
  if (*name && is_one_of && capacity)
    snprintf(text, sizeof text, "%s-capacity-%llu", name, (unsigned long long)capacity);
  else if (is_one_of && !capacity)
    snprintf(text, sizeof text, "%s%s%llu-MHz", name, *name ? "-" : "", (unsigned long long)most_khz / 1000);
  else
    snprintf(text, sizeof text, "%s", name);
  toll_put_open(NULL, '{');
  toll_put_text("name", text);
  toll_put_count("capacity", capacity);
  toll_put_count("max_khz", most_khz);
  toll_put_set("cpus", cpus);
  toll_put_close('}');
}

/* Cores of one name may have another clock or cache. The scheduler's CPU capacity, 1024 for the fastest, rates them; it
 * differs by a few per cent among equal cores, as their firmware rates each. Where the system reports none, the highest
 * clock does: a core that may boost further than its neighbours is of their kind, and dense cores lose a third. */
enum { ALIKE_CAPACITY = 95, ALIKE_CLOCK = 80 };
struct ratings {
  uint64_t of[TOLL_MOST_LISTED];
  bool are_capacities;
};

static void rate(struct ratings *ratings, const struct toll_set *online) {
  for (unsigned cpu = next_in(online, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(online, cpu + 1))
    ratings->are_capacities |= read_cpu_number((int)cpu, "cpu_capacity", &ratings->of[cpu]);
  for (unsigned cpu = next_in(online, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(online, cpu + 1))
    if (!ratings->are_capacities) ratings->of[cpu] = toll_most_khz((int)cpu);
}

/* Moves the CPUs of the highest rating. Returns it. */
static uint64_t take_fastest(struct toll_set *left, const struct ratings *ratings, struct toll_set *taken) {
  const uint64_t alike = ratings->are_capacities ? ALIKE_CAPACITY : ALIKE_CLOCK;
  uint64_t most = 0;
  memset(taken, 0, sizeof *taken);
  for (unsigned cpu = next_in(left, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(left, cpu + 1))
    if (ratings->of[cpu] > most) most = ratings->of[cpu];
  for (unsigned cpu = next_in(left, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(left, cpu + 1))
    if (ratings->of[cpu] * 100 >= most * alike) add(taken, cpu, cpu);
  for (size_t i = 0; i < TOLL_MOST_LISTED / WORD_BITS; i++) left->words[i] &= ~taken->words[i];
  return most;
}

/* CPUs that neither a name nor a rating distinguishes have no kind. */
static void put_kinds_of(const char *name, struct toll_set *left, const struct ratings *ratings) {
  struct toll_set taken;
  for (bool is_first = true; next_in(left, 0) < TOLL_MOST_LISTED; is_first = false) {
    const uint64_t most = take_fastest(left, ratings, &taken), capacity = ratings->are_capacities ? most : 0;
    const bool is_one_of = !is_first || next_in(left, 0) < TOLL_MOST_LISTED;
    if (*name || capacity || is_one_of) put_kind(name, capacity, &taken, is_one_of);
  }
}

static void put_core_kinds(const struct toll_set *online) {
  static struct ratings ratings;
  name_cores(online);
  rate(&ratings, online);
  toll_put_open("kinds", '[');
  for (unsigned place = 0; place <= cores.count; place++) {
    struct toll_set left = {{0}};
    for (unsigned cpu = next_in(online, 0); cpu < TOLL_MOST_LISTED; cpu = next_in(online, cpu + 1))
      if (cores.name_of[cpu] == place) add(&left, cpu, cpu);
    put_kinds_of(place ? cores.names[place - 1] : "", &left, &ratings);
  }
  toll_put_close(']');
}

/* ---- memory nodes ---- */

unsigned toll_node_count(void) {
  struct toll_set nodes;
  return read_online(node_folder, &nodes) ? size_of(&nodes) : 0;
}

bool toll_node_exists(unsigned node) {
  struct toll_set nodes;
  return read_online(node_folder, &nodes) && toll_set_has(&nodes, (int)node);
}

static bool cpus_of_node(unsigned node, struct toll_set *cpus) {
  char path[96];
  snprintf(path, sizeof path, "%s/node%u/cpulist", node_folder, node);
  return toll_read_set(path, cpus);
}

bool toll_node_has(unsigned node, int cpu) {
  struct toll_set cpus;
  return cpus_of_node(node, &cpus) && toll_set_has(&cpus, cpu);
}

static uint64_t memory_of_node(unsigned node) {
  char path[96], key[48], text[64];
  snprintf(path, sizeof path, "%s/node%u/meminfo", node_folder, node);
  snprintf(key, sizeof key, "Node %u MemTotal", node);
  return toll_find_field(path, key, text, sizeof text) ? strtoull(text, NULL, 10) * 1024 : 0;
}

static void put_distances(unsigned node) {
  char path[96], text[4 * MOST_NODES_WITH_DISTANCES];
  snprintf(path, sizeof path, "%s/node%u/distance", node_folder, node);
  toll_put_open("distances", '[');
  if (toll_read_text(path, text, sizeof text))
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) toll_put_count(NULL, strtoull(word, NULL, 10));
  toll_put_close(']');
}

static void put_nodes(void) {
  struct toll_set nodes, cpus;
  const bool any = read_online(node_folder, &nodes), near = any && size_of(&nodes) <= MOST_NODES_WITH_DISTANCES;
  toll_put_open("nodes", '[');
  for (unsigned node = any ? next_in(&nodes, 0) : TOLL_MOST_LISTED; node < TOLL_MOST_LISTED;
       node = next_in(&nodes, node + 1)) {
    cpus_of_node(node, &cpus);
    toll_put_open(NULL, '{');
    toll_put_count("node", node);
    toll_put_set("cpus", &cpus);
    toll_put_count("memory_bytes", memory_of_node(node));
    if (near) put_distances(node);
    toll_put_close('}');
  }
  toll_put_close(']');
}

/* ---- pages ---- */

static void put_reserved(const char *name) {
  char path[TOLL_FOLDER_BYTES];
  uint64_t pages = 0;
  snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/%s/nr_hugepages", name);
  toll_read_number(path, &pages);
  toll_put_open(NULL, '{');
  toll_put_count("bytes", strtoull(name + strlen("hugepages-"), NULL, 10) * 1024);
  toll_put_count("pages", pages);
  toll_put_close('}');
}

/* Writes the size of a transparent huge page, 0 without one; and the sizes of pages that a program can reserve. */
static void put_pages(void) {
  char folder[TOLL_FOLDER_BYTES];
  uint64_t huge_bytes = 0;
  toll_read_number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", &huge_bytes);
  toll_put_count("huge_page_bytes", huge_bytes);
  toll_put_open("hugetlb", '[');
  DIR *entries = opendir(toll_system_path("/sys/kernel/mm/hugepages", folder, sizeof folder));
  for (struct dirent *entry; entries && (entry = readdir(entries));)
    if (strncmp(entry->d_name, "hugepages-", strlen("hugepages-")) == 0) put_reserved(entry->d_name);
  if (entries) closedir(entries);
  toll_put_close(']');
}

/* ---- the record ---- */

static void put_list_of(const char *key, const char *name) {
  char path[96];
  struct toll_set cpus;
  snprintf(path, sizeof path, "%s/%s", cpu_folder, name);
  toll_read_set(path, &cpus);
  toll_put_set(key, &cpus);
}

static void put_allowed_nodes(void) {
  static char text[LIST_BYTES];
  struct toll_set nodes;
  toll_find_field("/proc/self/status", "Mems_allowed_list", text, sizeof text);
  toll_parse_set(text, &nodes);
  toll_put_set("allowed_nodes", &nodes);
}

void toll_put_topology(void) {
  struct toll_set online;
  if (!read_online(cpu_folder, &online)) {
    toll_put_null("topology");
    return;
  }
  toll_put_open("topology", '{');
  toll_put_set("online", &online);
  put_list_of("offline", "offline");
  put_list_of("isolated", "isolated");
  put_list_of("nohz_full", "nohz_full");
  put_sets("packages", &online, package_of);
  put_sets("dies", &online, die_of);
  put_sets("last_caches", &online, last_cache_of);
  put_sets("clusters", &online, cluster_of);
  put_sets("cores", &online, toll_core_of);
  put_core_kinds(&online);
  put_nodes();
  put_allowed_nodes();
  put_pages();
  toll_put_close('}');
}
