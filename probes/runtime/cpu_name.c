/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of the CPU, as CPUID, /proc/cpuinfo or the board's firmware states it, and of its cores by their numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#else
static bool cpu_says(char *text, size_t room) {
  (void)text, (void)room;
  return false;
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

void toll_put_cpu_name(const char *architecture) {
  char text[128];
  if (toll_counts_instructions()) { /* /proc and CPUID may tell of the machine that runs the emulator */
    snprintf(text, sizeof text, "%.64s, emulated", architecture);
    toll_put_text("cpu", text);
  } else if (cpuinfo_says(text, sizeof text) || arm_says(text, sizeof text) || z_says(text, sizeof text) ||
             cpu_says(text, sizeof text) || board_says(text, sizeof text)) {
    toll_put_text("cpu", text);
  } else {
    toll_put_text("cpu", architecture);
  }
}

/* ---- the names of its cores ---- */

/* "Cortex-A710" of implementer 0x41 and part 0xd47. */
static void name_part(unsigned implementer, unsigned number, char *text, size_t room) {
  const struct part *part = part_of(implementer, number);
  const char *name = part ? strchr(part->name, ' ') : NULL;
  if (name || part)
    snprintf(text, room, "%s", name ? name + 1 : part->name);
  else
    snprintf(text, room, "part-0x%02x-0x%03x", implementer, number);
}

/* Converts a name to a word that can be typed. */
static void make_word(char *name) {
  for (char *other = name; (other = strpbrk(other, " ,"));) *other = '-';
}

bool toll_core_by_midr(int cpu, char *text, size_t room) {
  char path[96], number[32];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", cpu);
  if (!toll_read_text(path, number, sizeof number)) return false;
  const unsigned long long midr = strtoull(number, NULL, 16);
  name_part((unsigned)(midr >> 24 & 0xff), (unsigned)(midr >> 4 & 0xfff), text, room);
  make_word(text);
  return true;
}

/* The name from the lines of a CPU in /proc/cpuinfo: by Arm's part number, or RISC-V's microarchitecture. */
void toll_cores_by_cpuinfo(void (*found)(int cpu, const char *name)) {
  char moved[TOLL_FOLDER_BYTES], line[512], name[64];
  FILE *file = fopen(toll_system_path(cpuinfo, moved, sizeof moved), "r");
  unsigned implementer = 0;
  int cpu = -1;
  while (file && fgets(line, sizeof line, file)) {
    const char *value = after_colon(line);
    value += strspn(value, " \t");
    if (strncmp(line, "processor", 9) == 0) cpu = (int)strtol(value, NULL, 10);
    if (strncmp(line, "CPU implementer", 15) == 0) implementer = (unsigned)strtoul(value, NULL, 16);
    const bool is_part = strncmp(line, "CPU part", 8) == 0, is_named = strncmp(line, "uarch", 5) == 0;
    if (is_part) name_part(implementer, (unsigned)strtoul(value, NULL, 16), name, sizeof name);
    if (is_named) snprintf(name, sizeof name, "%.*s", (int)strcspn(value, " \r\n"), value);
    if (cpu < 0 || !(is_part || is_named)) continue;
    make_word(name);
    found(cpu, name);
  }
  if (file) fclose(file);
}
