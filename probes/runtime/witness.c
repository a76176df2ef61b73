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
  int stat_file, frequency_file, delay_file;
  const int *cpus;
  unsigned cpu_count;
  char *text;
  size_t room;
} watched = {-1, -1, -1, NULL, 0, NULL, 0};

/* Of the file's lines those of the CPUs are wanted, and they come first; after them stands `intr`. */
static void make_room_for_cpus(void) {
  enum { FIRST_ROOM = 4096, MOST_ROOM = 1 << 20 };
  for (watched.room = FIRST_ROOM; watched.room <= MOST_ROOM; watched.room *= 2) {
    char *larger = realloc(watched.text, watched.room);
    if (!larger) break;
    watched.text = larger;
    ssize_t got = pread(watched.stat_file, watched.text, watched.room - 1, 0);
    if (got <= 0) break;
    watched.text[got] = '\0';
    if (strstr(watched.text, "\nintr") || (size_t)got < watched.room - 1) return;
  }
  close(watched.stat_file);
  watched.stat_file = -1;
}

void toll_witness_open(const int *cpus, unsigned cpu_count) {
  char path[80];
  watched.cpus = cpus;
  watched.cpu_count = cpu_count;
  watched.stat_file = open("/proc/stat", O_RDONLY | O_CLOEXEC);
  if (watched.stat_file >= 0) make_room_for_cpus();
  watched.delay_file = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
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
  ssize_t got = watched.stat_file < 0 ? 0 : pread(watched.stat_file, watched.text, watched.room - 1, 0);
  if (got <= 0) return TOLL_UNSEEN;
  watched.text[got] = '\0';
  uint64_t ticks = 0;
  for (const char *line = watched.text; strncmp(line, "cpu", 3) == 0; line++) {
    ticks += steal_of_line(line);
    line = strchr(line, '\n');
    if (!line) break;
  }
  return ticks;
}

static bool read_line(int file, char *text, size_t room) {
  ssize_t got = file < 0 ? 0 : pread(file, text, room - 1, 0);
  if (got <= 0) return false;
  text[got] = '\0';
  return true;
}

static uint64_t read_frequency(void) {
  char text[32];
  return read_line(watched.frequency_file, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

/* `on_cpu waited slices`, the first two in ns (Documentation/scheduler/sched-stats.rst); all zero where it is off. */
static uint64_t read_delay(void) {
  char text[80], *rest;
  if (!read_line(watched.delay_file, text, sizeof text)) return TOLL_UNSEEN;
  if (strtoull(text, &rest, 10) == 0) return TOLL_UNSEEN;
  return strtoull(rest, NULL, 10);
}

/* Where an emulator counts instructions, switches and faults would be the emulator's own, and mean nothing to a count. */
struct toll_witness toll_witness_read(void) {
  struct rusage use;
  if (toll_counts_instructions()) return (struct toll_witness){.cpu = -1, .delay_ns = TOLL_UNSEEN};
  const bool told =
      getrusage(RUSAGE_THREAD, &use) == 0; /* a sandbox may refuse it, and a zero would say that all was calm */
  return (struct toll_witness){.involuntary = told ? (uint64_t)use.ru_nivcsw : TOLL_UNSEEN,
                               .voluntary = told ? (uint64_t)use.ru_nvcsw : TOLL_UNSEEN,
                               .minor_faults = told ? (uint64_t)use.ru_minflt : TOLL_UNSEEN,
                               .major_faults = told ? (uint64_t)use.ru_majflt : TOLL_UNSEEN,
                               .steal_ticks = read_steal(),
                               .frequency_khz = read_frequency(),
                               .delay_ns = read_delay(),
                               .cpu = sched_getcpu()};
}

static void emit_growth(const char *key, uint64_t before, uint64_t after) {
  if (before == TOLL_UNSEEN || after == TOLL_UNSEEN)
    toll_put_null(key);
  else
    toll_put_count(key, after - before);
}

void toll_emit_witness(uint64_t index, const struct toll_look *first, const struct toll_look *last,
                       double width_between_hz) {
  const struct toll_witness *before = &first->witness, *after = &last->witness;
  toll_record_open("witness");
  toll_put_count("i", index);
  emit_growth("involuntary", before->involuntary, after->involuntary);
  emit_growth("voluntary", before->voluntary, after->voluntary);
  emit_growth("minor_faults", before->minor_faults, after->minor_faults);
  emit_growth("major_faults", before->major_faults, after->major_faults);
  toll_put_integer("cpu_before", before->cpu);
  toll_put_integer("cpu_after", after->cpu);
  emit_growth("steal_ticks", before->steal_ticks, after->steal_ticks);
  toll_put_count("frequency_khz", after->frequency_khz);
  emit_growth("delay_ns", before->delay_ns, after->delay_ns);
  toll_put_real("control_before_hz", first->burst.chain_hz);
  toll_put_real("control_hz", last->burst.chain_hz);
  toll_put_real("width_before_hz", first->burst.width_hz);
  toll_put_real("width_between_hz", width_between_hz);
  toll_put_real("width_hz", last->burst.width_hz);
  toll_record_close();
}
