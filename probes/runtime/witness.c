/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened beside a sample: switches, faults, migration, time stolen by a hypervisor, the frequency where the
 * system tells it. A sample may later be set aside on this evidence, and on no other.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#ifndef RUSAGE_THREAD
#define RUSAGE_THREAD 1
#endif

static struct {
  int stat_file, frequency_file;
  const int *cpus;
  unsigned cpu_count;
} watched = {-1, -1, NULL, 0};

void toll_witness_open(const int *cpus, unsigned cpu_count) {
  char path[80];
  watched.cpus = cpus;
  watched.cpu_count = cpu_count;
  watched.stat_file = open("/proc/stat", O_RDONLY | O_CLOEXEC);
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu_count ? cpus[0] : 0);
  watched.frequency_file = open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_watched(long cpu) {
  for (unsigned i = 0; i < watched.cpu_count; i++)
    if (watched.cpus[i] == cpu) return true;
  return false;
}

/* `cpuN user nice system idle iowait irq softirq steal ...`, in ticks of USER_HZ (proc(5)). */
static uint64_t steal_of_line(const char *line) {
  enum { STEAL = 8 };
  char *rest;
  long cpu = strtol(line + 3, &rest, 10);
  if (rest == line + 3 || !is_watched(cpu)) return 0;
  uint64_t field = 0;
  for (int i = 0; i < STEAL; i++) field = strtoull(rest, &rest, 10);
  return field;
}

static uint64_t read_steal(void) {
  char text[8192];
  ssize_t got = watched.stat_file < 0 ? 0 : pread(watched.stat_file, text, sizeof text - 1, 0);
  if (got <= 0) return 0;
  text[got] = '\0';
  uint64_t ticks = 0;
  for (char *line = strtok(text, "\n"); line && strncmp(line, "cpu", 3) == 0; line = strtok(NULL, "\n"))
    ticks += steal_of_line(line);
  return ticks;
}

static uint64_t read_frequency(void) {
  char text[32];
  ssize_t got = watched.frequency_file < 0 ? 0 : pread(watched.frequency_file, text, sizeof text - 1, 0);
  if (got <= 0) return 0;
  text[got] = '\0';
  return strtoull(text, NULL, 10);
}

/* Where an emulator counts instructions, switches and faults would be the emulator's own, and mean nothing to a count. */
struct toll_witness toll_witness_read(void) {
  struct rusage use;
  if (toll_counts_instructions()) return (struct toll_witness){.cpu = -1};
  memset(&use, 0, sizeof use);
  getrusage(RUSAGE_THREAD, &use);
  return (struct toll_witness){.involuntary = (uint64_t)use.ru_nivcsw,
                               .voluntary = (uint64_t)use.ru_nvcsw,
                               .minor_faults = (uint64_t)use.ru_minflt,
                               .major_faults = (uint64_t)use.ru_majflt,
                               .steal_ticks = read_steal(),
                               .frequency_khz = read_frequency(),
                               .cpu = sched_getcpu()};
}

void toll_emit_witness(uint64_t index, const struct toll_witness *before, const struct toll_witness *after,
                       double control_hz) {
  toll_record_open("witness");
  toll_put_count("i", index);
  toll_put_count("involuntary", after->involuntary - before->involuntary);
  toll_put_count("voluntary", after->voluntary - before->voluntary);
  toll_put_count("minor_faults", after->minor_faults - before->minor_faults);
  toll_put_count("major_faults", after->major_faults - before->major_faults);
  toll_put_integer("cpu_before", before->cpu);
  toll_put_integer("cpu_after", after->cpu);
  toll_put_count("steal_ticks", after->steal_ticks - before->steal_ticks);
  toll_put_count("frequency_khz", after->frequency_khz);
  toll_put_real("control_hz", control_hz);
  toll_record_close();
}
