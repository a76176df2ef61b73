/* SPDX-License-Identifier: Apache-2.0
 *
 * What a machine says of its caches, from files made for it: two large cores and two small ones.
 */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "expect.h"
#include "machine.c"

TOLL_TEST_NAME("test.machine");

static char root[] = "/tmp/toll-machine-XXXXXX";

static int forget(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

static void say(int cpu, int index, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cache/index%d/%s", root, cpu, index, name);
  for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
}

static void say_core(int cpu, const char *size) {
  say(cpu, 0, "type", "Data\n");
  say(cpu, 0, "level", "1\n");
  say(cpu, 0, "size", "48K\n");
  say(cpu, 1, "type", "Unified\n");
  say(cpu, 1, "level", "2\n");
  say(cpu, 1, "size", size);
}

/* What is printed of these CPUs. */
static const char *reported_by(void (*put)(const int *cpus, unsigned count), const int *cpus, unsigned count) {
  static char report[4 * TOLL_LONGEST_LINE];
  int saved = dup(STDOUT_FILENO), ends[2];
  EXPECT(pipe(ends) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0);
  toll_record_open("machine");
  put(cpus, count);
  toll_record_close();
  toll_emit_end(false, false, NULL);
  dup2(saved, STDOUT_FILENO);
  ssize_t got = read(ends[0], report, sizeof report - 1);
  report[got > 0 ? got : 0] = '\0';
  close(ends[0]);
  close(ends[1]);
  close(saved);
  return report;
}

static void expect_kinds(void) {
  const int all[] = {0, 1, 2, 3};
  const char *report = reported_by(put_kinds, all, 4);
  EXPECT(strstr(report, "\"kinds\":[{\"cpus\":[0,1],\"caches\":[{\"level\":1,") != NULL);
  const char *small = strstr(report, "{\"cpus\":[2,3],\"caches\":[");
  EXPECT(small && strstr(small, "\"size_bytes\":4194304,") && !strstr(small, "\"size_bytes\":2097152,"));
  EXPECT(strstr(reported_by(put_kinds, all, 2), "\"kinds\":[]") != NULL);
}

static void say_threads(int cpu, const char *list) {
  char path[256];
  snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology", root, cpu);
  mkdir(path, 0700);
  strcat(path, "/thread_siblings_list");
  int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT(file >= 0 && write(file, list, strlen(list)) == (ssize_t)strlen(list));
  close(file);
}

static void expect_cores(void) {
  const int all[] = {0, 1, 2, 3}, some[] = {0, 1, 3};
  EXPECT(strstr(reported_by(put_cores, all, 4), "\"cores\":[]") != NULL);
  for (int cpu = 0; cpu < 4; cpu++) say_threads(cpu, cpu % 2 ? "1,3\n" : "0,2-2\n");
  EXPECT(strstr(reported_by(put_cores, all, 4), "\"cores\":[[0,2],[1,3]]") != NULL);
  EXPECT(strstr(reported_by(put_cores, some, 3), "\"cores\":[[1,3]]") != NULL);
  EXPECT(toll_share_core(0, 2) && !toll_share_core(0, 1) && !toll_share_core(7, 0));
}

int main(void) {
  EXPECT(mkdtemp(root) != NULL);
  setenv("TOLL_SYSTEM_ROOT", root, 1);
  for (int cpu = 0; cpu < 2; cpu++) say_core(cpu, "2048K\n");
  for (int cpu = 2; cpu < 4; cpu++) say_core(cpu, "4096K\n");
  EXPECT(have_same_caches(0, 1) && have_same_caches(2, 3) && !have_same_caches(0, 2) && !have_same_caches(3, 1));
  expect_kinds();
  expect_cores();
  say(1, 2, "type", "Unified\n");
  EXPECT(!have_same_caches(0, 1)); /* one level more */
  nftw(root, forget, 8, FTW_DEPTH | FTW_PHYS);
  return failures;
}
