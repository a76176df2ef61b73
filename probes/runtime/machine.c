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

/* Leaf 1 ECX bit 31 is set under a hypervisor, which then names itself in leaf 40000000H. */
static bool hypervisor_says(char *text, size_t room) {
  unsigned a, b, c, d, name[4] = {0};
  if (room < sizeof name || !__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31)) return false;
  __cpuid(0x40000000u, a, name[0], name[1], name[2]);
  memcpy(text, name, sizeof name);
  return true;
}
#else
static bool hypervisor_says(char *text, size_t room) {
  return toll_read_text("/sys/hypervisor/type", text, room) ||
         toll_read_text("/proc/device-tree/hypervisor/compatible", text, room);
}
#endif

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

static const char cpu_folder[] = "/sys/devices/system/cpu";

static void put_known(const char *key, uint64_t value) {
  if (value)
    toll_put_count(key, value);
  else
    toll_put_null(key);
}

static void put_caches(int cpu) {
  struct toll_cache caches[TOLL_MOST_CACHES];
  const unsigned count = toll_caches_of(cpu, caches, TOLL_MOST_CACHES);
  toll_put_open("caches", '[');
  for (unsigned i = 0; i < count; i++) {
    struct toll_set sharers;
    toll_put_open(NULL, '{');
    toll_put_count("level", caches[i].level);
    toll_put_text("kind", caches[i].kind);
    put_known("size_bytes", caches[i].size_bytes);
    put_known("line_bytes", caches[i].line_bytes);
    put_known("ways", caches[i].ways);
    toll_parse_set(caches[i].shared_cpus, &sharers);
    toll_put_set("shared_cpus", &sharers);
    toll_put_text("source", caches[i].source);
    toll_put_close('}');
  }
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
  struct toll_cache one[TOLL_MOST_CACHES], two[TOLL_MOST_CACHES];
  const unsigned count = toll_caches_of(cpu, one, TOLL_MOST_CACHES);
  bool alike = toll_caches_of(other, two, TOLL_MOST_CACHES) == count;
  for (unsigned i = 0; alike && i < count; i++)
    alike = one[i].level == two[i].level && strcmp(one[i].kind, two[i].kind) == 0 &&
            one[i].size_bytes == two[i].size_bytes && one[i].ways == two[i].ways &&
            one[i].line_bytes == two[i].line_bytes;
  return alike;
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

/* x86's matrix extensions (AMX), which tell two cores apart whose model numbers a hypervisor hides. */
static void put_matrix_extensions(void) {
  char flags[8192], words[128] = "", *rest;
  toll_find_field("/proc/cpuinfo", "flags", flags, sizeof flags);
  for (char *word = strtok_r(flags, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    const size_t used = strlen(words);
    if (strncmp(word, "amx_", 4) == 0) snprintf(words + used, sizeof words - used, "%s%s", used ? " " : "", word);
  }
  if (*words) toll_put_text("matrix_extensions", words);
}

/* The checks of a kernel that is built for debugging, by their files, whose existence any program can test. */
static void put_debugging(void) {
  static const char *const files[][2] = {{"lockdep", "/proc/lockdep_stats"},
                                         {"lock statistics", "/proc/lock_stat"},
                                         {"page owners", "/sys/kernel/debug/page_owner"},
                                         {"kmemleak", "/sys/kernel/debug/kmemleak"},
                                         {"KCSAN", "/sys/module/kcsan"}};
  char moved[TOLL_FOLDER_BYTES], words[128] = "";
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (access(toll_system_path(files[i][1], moved, sizeof moved), F_OK) != 0) continue;
    const size_t used = strlen(words);
    snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "", files[i][0]);
  }
  if (*words) toll_put_text("debugging", words);
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

/* Writes each distinct word of a file of the CPUs: cpufreq's files belong to a CPU's policy, and CPU 0 may be
 * offline or have another policy. */
static void put_cpufreq(const char *name, const char *file, const int *cpus, unsigned count) {
  char path[96], text[64], words[256] = "";
  for (unsigned i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/cpu%d/cpufreq/%s", cpu_folder, cpus[i], file);
    if (!toll_read_text(path, text, sizeof text) || strstr(words, text)) continue;
    const size_t used = strlen(words);
    snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "", text);
  }
  if (*words) toll_put_text(name, words);
}

/* The highest clock that cpufreq states for one of the CPUs. */
static void put_most_khz(const int *cpus, unsigned count) {
  char text[32];
  uint64_t most = 0;
  for (unsigned i = 0; i < count; i++) {
    const uint64_t khz = toll_most_khz(cpus[i]);
    if (khz > most) most = khz;
  }
  snprintf(text, sizeof text, "%llu", (unsigned long long)most);
  if (most) toll_put_text("frequency_max_khz", text);
}

static void put_facts(const int *cpus, unsigned count) {
  static const char *const files[][2] = {
      {"clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
      {"transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"},
      {"boost", "/sys/devices/system/cpu/cpufreq/boost"},
      {"no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"},
      {"smt", "/sys/devices/system/cpu/smt/active"},
      {"isolated_cpus", "/sys/devices/system/cpu/isolated"},
      {"numa_nodes", "/sys/devices/system/node/online"},
      {"numa_balancing", "/proc/sys/kernel/numa_balancing"},
      {"address_space_randomization", "/proc/sys/kernel/randomize_va_space"},
      {"zone_reclaim_mode", "/proc/sys/vm/zone_reclaim_mode"},
      {"timer_slack_ns", "/proc/self/timerslack_ns"},
      {"traced_events", "/sys/kernel/tracing/events/enable"},
      {"tracer", "/sys/kernel/tracing/current_tracer"},
      {"idle_driver", "/sys/devices/system/cpu/cpuidle/current_driver"},
      {"split_lock_mitigation", "/proc/sys/kernel/split_lock_mitigate"},
      {"cpu_quota", "/sys/fs/cgroup/cpu.max"},
      {"load_average", "/proc/loadavg"},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) put_fact(files[i][0], files[i][1]);
  put_cpufreq("governor", "scaling_governor", cpus, count);
  put_cpufreq("frequency_driver", "scaling_driver", cpus, count);
  put_most_khz(cpus, count);
  put_field("cpu_family", "/proc/cpuinfo", "cpu family");
  put_field("cpu_model_number", "/proc/cpuinfo", "model\t");
  put_field("cpu_stepping", "/proc/cpuinfo", "stepping");
  put_matrix_extensions();
  put_field("microcode", "/proc/cpuinfo", "microcode");
  put_field("swap_total", "/proc/meminfo", "SwapTotal");
  put_debugging();
  toll_put_memory_modules();
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
  toll_put_cpu_name(system.machine);
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
  if (!toll_counts_instructions()) put_facts(cpus, count);
  toll_put_close('}');
  toll_record_close();
  toll_emit_clock(toll_clock_measure());
  if (count) toll_pin(cpus[count - 1]);
  if (toll_clock_is_real()) toll_emit_control("before", toll_control_measure(20, 1000000));
  toll_emit_end(false, false, NULL);
}
