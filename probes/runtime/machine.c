/* SPDX-License-Identifier: Apache-2.0
 *
 * What the system and the CPU report about the machine. Nothing here is measured. A fact that cannot be read is left
 * out. Without /proc and /sys, CPUID is used where it exists.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "internal.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* Three leaves of sixteen characters each (Intel SDM vol. 2, CPUID 80000002H to 80000004H; AMD APM vol. 3). */
static bool cpu_says(char *text, size_t room) {
  unsigned words[13] = {0};
  if (toll_system_is_folder() || room < sizeof words || (unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
    return false;
  for (unsigned leaf = 0; leaf < 3; leaf++) {
    unsigned *w = words + 4 * leaf;
    __cpuid(0x80000002u + leaf, w[0], w[1], w[2], w[3]);
  }
  memcpy(text, words, sizeof words);
  return text[0] != '\0';
}

/* Leaf 1 ECX bit 31 is set under a hypervisor, which then names itself in leaf 40000000H. */
static bool hypervisor_says(char *text, size_t room) {
  unsigned a, b, c, d, name[4] = {0};
  if (room < sizeof name || !__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31)) return false;
  __cpuid(0x40000000u, a, name[0], name[1], name[2]);
  memcpy(text, name, sizeof name);
  return true;
}
#else
static bool cpu_says(char *text, size_t room) {
  (void)text, (void)room;
  return false;
}

static bool hypervisor_says(char *text, size_t room) {
  return toll_read_text("/sys/hypervisor/type", text, room) ||
         toll_read_text("/proc/device-tree/hypervisor/compatible", text, room);
}
#endif

/* ---- the CPU's name ---- */

static const char cpuinfo[] = "/proc/cpuinfo";

/* The implementer and part numbers of Arm cores in MIDR_EL1, from the manuals of the cores. */
static const struct part {
  unsigned implementer, part;
  const char *name;
} parts[] = {
    {0x41, 0xc05, "Arm Cortex-A5"},      {0x41, 0xc07, "Arm Cortex-A7"},    {0x41, 0xc08, "Arm Cortex-A8"},
    {0x41, 0xc09, "Arm Cortex-A9"},      {0x41, 0xc0e, "Arm Cortex-A17"},   {0x41, 0xc0f, "Arm Cortex-A15"},
    {0x41, 0xd03, "Arm Cortex-A53"},     {0x41, 0xd04, "Arm Cortex-A35"},   {0x41, 0xd05, "Arm Cortex-A55"},
    {0x41, 0xd07, "Arm Cortex-A57"},     {0x41, 0xd08, "Arm Cortex-A72"},   {0x41, 0xd09, "Arm Cortex-A73"},
    {0x41, 0xd0a, "Arm Cortex-A75"},     {0x41, 0xd0b, "Arm Cortex-A76"},   {0x41, 0xd0c, "Arm Neoverse-N1"},
    {0x41, 0xd0d, "Arm Cortex-A77"},     {0x41, 0xd40, "Arm Neoverse-V1"},  {0x41, 0xd41, "Arm Cortex-A78"},
    {0x41, 0xd42, "Arm Cortex-A78AE"},   {0x41, 0xd44, "Arm Cortex-X1"},    {0x41, 0xd46, "Arm Cortex-A510"},
    {0x41, 0xd47, "Arm Cortex-A710"},    {0x41, 0xd48, "Arm Cortex-X2"},    {0x41, 0xd49, "Arm Neoverse-N2"},
    {0x41, 0xd4a, "Arm Neoverse-E1"},    {0x41, 0xd4b, "Arm Cortex-A78C"},  {0x41, 0xd4d, "Arm Cortex-A715"},
    {0x41, 0xd4e, "Arm Cortex-X3"},      {0x41, 0xd4f, "Arm Neoverse-V2"},  {0x41, 0xd80, "Arm Cortex-A520"},
    {0x41, 0xd81, "Arm Cortex-A720"},    {0x41, 0xd82, "Arm Cortex-X4"},    {0x41, 0xd84, "Arm Neoverse-V3"},
    {0x41, 0xd85, "Arm Cortex-X925"},    {0x41, 0xd87, "Arm Cortex-A725"},  {0x41, 0xd8e, "Arm Neoverse-N3"},
    {0x42, 0x516, "Broadcom ThunderX2"}, {0x43, 0x0a1, "Cavium ThunderX"},  {0x43, 0x0af, "Cavium ThunderX2"},
    {0x46, 0x001, "Fujitsu A64FX"},      {0x48, 0xd01, "HiSilicon TSV110"}, {0x4e, 0x004, "NVIDIA Carmel"},
    {0x50, 0x000, "APM X-Gene"},         {0x51, 0x001, "Qualcomm Oryon"},   {0x51, 0xc00, "Qualcomm Falkor"},
    {0x61, 0x022, "Apple Icestorm"},     {0x61, 0x023, "Apple Firestorm"},  {0x6d, 0xd49, "Microsoft Azure Cobalt 100"},
    {0x70, 0x662, "Phytium FTC662"},     {0x70, 0x663, "Phytium FTC663"},   {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1a"},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static const struct part *part_of(unsigned implementer, unsigned number) {
  for (size_t i = 0; i < PARTS; i++)
    if (parts[i].implementer == implementer && parts[i].part == number) return &parts[i];
  return NULL;
}

static const char *after_colon(const char *line) {
  const char *colon = strchr(line, ':');
  return colon ? colon + 1 : line;
}

/* Names each kind of core, in the order of the CPUs. False if one is not in the table. */
static bool arm_says(char *text, size_t room) {
  enum { WHOLE = 16384 };
  static char lines[WHOLE];
  bool is_named[PARTS] = {false};
  unsigned implementer = 0;
  size_t used = 0;
  char *rest;
  toll_read_text(cpuinfo, lines, sizeof lines);
  for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    if (strncmp(line, "CPU implementer", 15) == 0) implementer = (unsigned)strtoul(after_colon(line), NULL, 16);
    if (strncmp(line, "CPU part", 8) != 0) continue;
    const struct part *part = part_of(implementer, (unsigned)strtoul(after_colon(line), NULL, 16));
    if (!part) return false;
    if (is_named[part - parts] || used + 64 > room) continue;
    is_named[part - parts] = true;
    used += (size_t)snprintf(text + used, room - used, "%s%s", used ? " + " : "", part->name);
  }
  return used > 0;
}

/* On z/Architecture, the line of a CPU ends with the machine type, as in IBM's announcements. */
static bool z_says(char *text, size_t room) {
  static const struct {
    unsigned type;
    const char *name;
  } machines[] = {{2964, "z13"}, {2965, "z13s"}, {3906, "z14"}, {3907, "z14 ZR1"}, {8561, "z15"},
                  {8562, "z15"}, {3931, "z16"},  {3932, "z16"}, {9175, "z17"}};
  char line[160];
  if (!toll_find_field(cpuinfo, "processor 0", line, sizeof line)) return false;
  const char *found = strstr(line, "machine = ");
  if (!found) return false;
  const unsigned type = (unsigned)strtoul(found + 10, NULL, 10);
  const char *name = "Z";
  for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
    if (machines[i].type == type) name = machines[i].name;
  snprintf(text, room, "IBM %s (%u)", name, type);
  return true;
}

/* A field of /proc/cpuinfo: of x86 and others, MIPS, LoongArch, RISC-V; POWER and SPARC, where units follow a comma. */
static bool cpuinfo_says(char *text, size_t room) {
  static const char *const fields[] = {"model name", "cpu model", "Model Name", "uarch", "cpu\t"};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (toll_find_field(cpuinfo, fields[i], text, room)) {
      char *units = strstr(text, ", altivec");
      if (units) *units = '\0';
      return true;
    }
  return false;
}

/* The board's name, or the system's where its firmware has ACPI tables, with the core's number where it has one. */
static bool board_says(char *text, size_t room) {
  char part[32];
  const bool is_named = toll_read_text("/proc/device-tree/model", text, room) ||
                        toll_read_text("/sys/class/dmi/id/product_name", text, room);
  if (!is_named && toll_find_field(cpuinfo, "isa", text, room)) return true;
  if (!toll_find_field(cpuinfo, "CPU part", part, sizeof part)) return is_named;
  const size_t used = strlen(text);
  snprintf(text + used, room - used, "%sCPU part %s", used ? ", " : "", part);
  return true;
}

static void put_cpu(const struct utsname *system) {
  char text[128];
  if (toll_counts_instructions()) { /* /proc and CPUID may tell of the machine that runs the emulator */
    snprintf(text, sizeof text, "%.64s, emulated", system->machine);
    toll_put_text("cpu", text);
  } else if (cpuinfo_says(text, sizeof text) || arm_says(text, sizeof text) || z_says(text, sizeof text) ||
             cpu_says(text, sizeof text) || board_says(text, sizeof text)) {
    toll_put_text("cpu", text);
  } else {
    toll_put_text("cpu", system->machine);
  }
}

static const char *known_hypervisor(const char *signature) {
  static const char *const names[][2] = {
      {"KVMKVMKVM", "KVM"},    {"Linux KVM Hv", "KVM"},      {"VMwareVMware", "VMware"}, {"Microsoft Hv", "Hyper-V"},
      {"XenVMMXenVMM", "Xen"}, {"TCGTCGTCGTCG", "QEMU TCG"}, {"bhyve bhyve ", "bhyve"},  {" lrpepyh  vr", "Parallels"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(signature, names[i][0]) == 0) return names[i][1];
  return signature;
}

static void put_hypervisor(void) {
  char text[64];
  toll_put_text("hypervisor", hypervisor_says(text, sizeof text) ? known_hypervisor(text) : NULL);
}

/* ---- caches ---- */

enum { MOST_INDEXES = 16 };
static const char cpu_folder[] = "/sys/devices/system/cpu";

static bool cache_text(int cpu, int index, const char *name, char *text, size_t room) {
  char path[256];
  snprintf(path, sizeof path, "%s/cpu%d/cache/index%d/%s", cpu_folder, cpu, index, name);
  return toll_read_text(path, text, room);
}

static uint64_t cache_number(int cpu, int index, const char *name) {
  char text[64], *unit;
  if (!cache_text(cpu, index, name, text, sizeof text)) return 0;
  uint64_t number = strtoull(text, &unit, 10);
  return *unit == 'K' ? number << 10 : *unit == 'M' ? number << 20 : number;
}

static void put_cache(int cpu, int index, const char *type) {
  char shared[1024];
  toll_put_open(NULL, '{');
  toll_put_count("level", cache_number(cpu, index, "level"));
  toll_put_text("kind", *type == 'D' ? "data" : *type == 'I' ? "instruction" : "unified");
  toll_put_count("size_bytes", cache_number(cpu, index, "size"));
  toll_put_count("line_bytes", cache_number(cpu, index, "coherency_line_size"));
  toll_put_count("ways", cache_number(cpu, index, "ways_of_associativity"));
  toll_put_text("shared_cpus", cache_text(cpu, index, "shared_cpu_list", shared, sizeof shared) ? shared : "");
  toll_put_close('}');
}

#if defined(__x86_64__) || defined(__i386__)
/* Deterministic cache parameters: leaf 4 on Intel, leaf 8000001DH of the same form on AMD. */
static void put_caches_of_cpuid(void) {
  static const char *const kinds[] = {"", "data", "instruction", "unified"};
  unsigned a, b, c, d, leaf = (unsigned)__get_cpuid_max(0x80000000u, NULL) >= 0x8000001du ? 0x8000001du : 4;
  for (unsigned index = 0; index < 8 && __get_cpuid_count(leaf, index, &a, &b, &c, &d); index++) {
    unsigned kind = a & 31, line = (b & 0xfff) + 1, ways = (b >> 22) + 1;
    if (kind == 0 || kind > 3) break;
    toll_put_open(NULL, '{');
    toll_put_count("level", a >> 5 & 7);
    toll_put_text("kind", kinds[kind]);
    toll_put_count("size_bytes", (uint64_t)ways * ((b >> 12 & 0x3ff) + 1) * line * ((uint64_t)c + 1));
    toll_put_count("line_bytes", line);
    toll_put_count("ways", ways);
    toll_put_text("shared_cpus", "");
    toll_put_close('}');
  }
}
#else
static void put_caches_of_cpuid(void) {}
#endif

static void put_caches(int cpu) {
  char type[32];
  int index = 0;
  bool any = !toll_counts_instructions(); /* an emulator has no caches, and reports those of its host */
  toll_put_open("caches", '[');
  for (; any && index < MOST_INDEXES && cache_text(cpu, index, "type", type, sizeof type); index++)
    put_cache(cpu, index, type);
  if (any && index == 0) put_caches_of_cpuid();
  toll_put_close(']');
}

/* Writes the core of cpus[first], unless an earlier CPU is of the same core or no other CPU is. */
static void put_core(const int *cpus, unsigned count, unsigned first) {
  struct toll_set core;
  unsigned others = 0;
  if (!toll_core_of(cpus[first], &core)) return;
  for (unsigned i = 0; i < first; i++)
    if (toll_set_has(&core, cpus[i])) return;
  for (unsigned i = first + 1; i < count; i++) others += toll_set_has(&core, cpus[i]);
  if (!others) return;
  toll_put_open(NULL, '[');
  for (unsigned i = first; i < count; i++)
    if (toll_set_has(&core, cpus[i])) toll_put_integer(NULL, cpus[i]);
  toll_put_close(']');
}

/* CPUs that are hardware threads of one core: two workers on them share its caches and its execution units. */
static void put_cores(const int *cpus, unsigned count) {
  toll_put_open("cores", '[');
  for (unsigned i = 0; i < count; i++) put_core(cpus, count, i);
  toll_put_close(']');
}

static bool have_same_caches(int cpu, int other) {
  static const char *const names[] = {"type", "level", "size", "ways_of_associativity", "coherency_line_size"};
  for (int index = 0; index < MOST_INDEXES; index++)
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
      char one[32] = "", two[32] = "";
      bool is_there = cache_text(cpu, index, names[i], one, sizeof one);
      if (is_there != cache_text(other, index, names[i], two, sizeof two) || strcmp(one, two) != 0) return false;
      if (!is_there && i == 0) return true;
    }
  return true;
}

static void put_kind(int first, const int *cpus, unsigned count) {
  toll_put_open(NULL, '{');
  toll_put_open("cpus", '[');
  for (unsigned i = 0; i < count; i++)
    if (have_same_caches(first, cpus[i])) toll_put_integer(NULL, cpus[i]);
  toll_put_close(']');
  put_caches(first);
  toll_put_close('}');
}

/* Cores of one machine may have different caches. Writes each kind of core with its CPUs, for the host to choose from;
 * nothing if all cores are alike. */
static void put_kinds(const int *cpus, unsigned count) {
  enum { MOST_KINDS = 8 };
  int firsts[MOST_KINDS];
  unsigned kinds = 0;
  for (unsigned i = 0; i < count && kinds < MOST_KINDS; i++) {
    bool is_new = true;
    for (unsigned k = 0; k < kinds; k++) is_new = is_new && !have_same_caches(firsts[k], cpus[i]);
    if (is_new) firsts[kinds++] = cpus[i];
  }
  toll_put_open("kinds", '[');
  for (unsigned k = 0; kinds > 1 && k < kinds; k++) put_kind(firsts[k], cpus, count);
  toll_put_close(']');
}

/* ---- facts ---- */

static void put_fact(const char *name, const char *path) {
  char text[512];
  if (toll_read_text(path, text, sizeof text)) toll_put_text(name, text);
}

static void put_field(const char *name, const char *path, const char *key) {
  char text[512];
  if (toll_find_field(path, key, text, sizeof text)) toll_put_text(name, text);
}

static void put_vulnerabilities(void) {
  static const char folder[] = "/sys/devices/system/cpu/vulnerabilities";
  char path[384], name[288], moved[TOLL_FOLDER_BYTES];
  DIR *entries = opendir(toll_system_path(folder, moved, sizeof moved));
  for (struct dirent *entry; entries && (entry = readdir(entries));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    snprintf(name, sizeof name, "vulnerability_%s", entry->d_name);
    put_fact(name, path);
  }
  if (entries) closedir(entries);
}

static void put_facts(void) {
  static const char *const files[][2] = {
      {"clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
      {"transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"},
      {"governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
      {"frequency_driver", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"},
      {"boost", "/sys/devices/system/cpu/cpufreq/boost"},
      {"no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"},
      {"smt", "/sys/devices/system/cpu/smt/active"},
      {"isolated_cpus", "/sys/devices/system/cpu/isolated"},
      {"numa_nodes", "/sys/devices/system/node/online"},
      {"numa_balancing", "/proc/sys/kernel/numa_balancing"},
      {"address_space_randomization", "/proc/sys/kernel/randomize_va_space"},
      {"split_lock_mitigation", "/proc/sys/kernel/split_lock_mitigate"},
      {"cpu_quota", "/sys/fs/cgroup/cpu.max"},
      {"load_average", "/proc/loadavg"},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) put_fact(files[i][0], files[i][1]);
  put_field("cpu_family", "/proc/cpuinfo", "cpu family");
  put_field("cpu_model_number", "/proc/cpuinfo", "model\t");
  put_field("cpu_stepping", "/proc/cpuinfo", "stepping");
  put_field("microcode", "/proc/cpuinfo", "microcode");
  put_field("swap_total", "/proc/meminfo", "SwapTotal");
  put_vulnerabilities();
}

/* ---- the record ---- */

static uint64_t memory_bytes(void) {
  char text[64];
  struct sysinfo info;
  if (toll_find_field("/proc/meminfo", "MemTotal", text, sizeof text)) return strtoull(text, NULL, 10) * 1024;
  return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
}

/* Read from /proc if a sandbox denies uname(2). Older kernels do not report the architecture there; then it is the one
 * that the probe was compiled for. */
static void name_system(struct utsname *system) {
  if (uname(system) == 0) return;
  memset(system, 0, sizeof *system);
  toll_read_text("/proc/sys/kernel/ostype", system->sysname, sizeof system->sysname);
  toll_read_text("/proc/sys/kernel/hostname", system->nodename, sizeof system->nodename);
  toll_read_text("/proc/sys/kernel/osrelease", system->release, sizeof system->release);
  if (toll_read_text("/proc/sys/kernel/arch", system->machine, sizeof system->machine)) return;
#if defined __x86_64__
  strcpy(system->machine, "x86_64");
#elif defined __aarch64__
  strcpy(system->machine, "aarch64");
#endif
}

void toll_machine(void) {
  static int cpus[TOLL_MOST_CPUS];
  unsigned count =
      toll_system_is_folder() ? toll_reported_cpus(cpus, TOLL_MOST_CPUS) : toll_allowed_cpus(cpus, TOLL_MOST_CPUS);
  unsigned online_cpus = toll_online_cpus();
  long online = online_cpus ? (long)online_cpus : sysconf(_SC_NPROCESSORS_ONLN);
  char kernel[160];
  struct utsname system;
  name_system(&system);
  snprintf(kernel, sizeof kernel, "%s %s", system.sysname, system.release);
  toll_record_open("machine");
  toll_put_text("host", system.nodename);
  put_cpu(&system);
  toll_put_text("kernel", kernel);
  put_hypervisor();
  toll_put_count("cpus", online > 0 ? (uint64_t)online : 1);
  toll_put_count("memory_bytes", memory_bytes());
  put_caches(count ? cpus[0] : 0);
  put_kinds(cpus, toll_counts_instructions() ? 0 : count);
  put_cores(cpus, toll_counts_instructions() ? 0 : count);
  if (!toll_counts_instructions()) toll_put_topology();
  toll_put_open("allowed_cpus", '[');
  for (unsigned i = 0; i < count; i++) toll_put_integer(NULL, cpus[i]);
  toll_put_close(']');
  toll_put_count("page_bytes", toll_page_bytes());
  toll_put_text("architecture", system.machine);
  toll_put_open("facts", '{');
  if (!toll_counts_instructions()) put_facts();
  toll_put_close('}');
  toll_record_close();
  toll_emit_clock(toll_clock_measure());
  if (count) toll_pin(cpus[count - 1]);
  if (toll_clock_is_real()) toll_emit_control("before", toll_control_measure(20, 1000000));
  toll_emit_end(false, false);
}
