/* SPDX-License-Identifier: Apache-2.0
 *
 * The evidence of a sample: context switches, page faults, migration, time stolen by a hypervisor, and the frequency if
 * the system reports it. The analysis discards samples on this evidence only.
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

/* The lines of the CPUs come first in the file; the line `intr` follows them. */
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

static int opened(int before, const char *path) {
  if (before >= 0) close(before);
  return open(path, O_RDONLY | O_CLOEXEC);
}

void toll_witness_open(const int *cpus, unsigned cpu_count) {
  char path[80];
  watched.cpus = cpus;
  watched.cpu_count = cpu_count;
  watched.stat_file = opened(watched.stat_file, "/proc/stat");
  if (watched.stat_file >= 0) make_room_for_cpus();
  watched.delay_file = opened(watched.delay_file, "/proc/self/schedstat");
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu_count ? cpus[0] : 0);
  watched.frequency_file = opened(watched.frequency_file, path);
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

/* Under an emulator that counts instructions, switches and faults are those of the emulator, and do not affect a
 * count. */
struct toll_witness toll_witness_read(void) {
  struct rusage use;
  if (toll_counts_instructions()) return (struct toll_witness){.cpu = -1, .delay_ns = TOLL_UNSEEN};
  const bool known = getrusage(RUSAGE_THREAD, &use) ==
                     0; /* a sandbox may refuse the call, and zeros would look like an undisturbed sample */
  return (struct toll_witness){.involuntary = known ? (uint64_t)use.ru_nivcsw : TOLL_UNSEEN,
                               .voluntary = known ? (uint64_t)use.ru_nvcsw : TOLL_UNSEEN,
                               .minor_faults = known ? (uint64_t)use.ru_minflt : TOLL_UNSEEN,
                               .major_faults = known ? (uint64_t)use.ru_majflt : TOLL_UNSEEN,
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
