/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.c"
#include "expect.h"

TOLL_TEST_NAME("test.arena");

static struct toll_visit visit;
static const struct toll_probe probe = {.question = "none"};

static void expect_places(void) {
  struct toll_run r = test_run(&visit, &probe);
  const size_t page = toll_page_bytes();
  for (size_t shift = 0; shift < 9; shift++) {
    char *buffer = toll_buffer(&r, (struct toll_buffer_request){.bytes = 3 * page + 5, .misalign = shift});
    EXPECT(buffer && (uintptr_t)buffer % page == shift);
    if (buffer) memset(buffer, 1, 3 * page + 5);
  }
  char *plain = toll_buffer(&r, (struct toll_buffer_request){.bytes = 100});
  char *coloured = toll_buffer(&r, (struct toll_buffer_request){.bytes = 100, .colour = 1});
  EXPECT((uintptr_t)plain % 4096 != (uintptr_t)coloured % 4096);
  for (int i = 0; i < 100; i++) EXPECT(plain[i] == 0);
}

static void expect_refusal(void) {
  struct toll_run r = test_run(&visit, &probe);
  EXPECT(toll_refused(&r) == TOLL_OK);
  EXPECT(toll_buffer(&r, (struct toll_buffer_request){.bytes = SIZE_MAX - 65536}) == NULL);
  EXPECT(toll_refused(&r) == TOLL_SKIPPED && visit.reason[0] != '\0');
}

static void expect_shared(void) {
  struct toll_run r = test_run(&visit, &probe);
  char *shared = toll_buffer(&r, (struct toll_buffer_request){.bytes = 10, .shared = true});
  char *private = toll_buffer(&r, (struct toll_buffer_request){.bytes = 10});
  EXPECT(shared && private);
  if (!shared || !private) return;
  pid_t child = fork();
  if (child == 0) {
    shared[3] = private[3] = 42;
    _exit(0);
  }
  EXPECT(waitpid(child, NULL, 0) == child);
  EXPECT(shared[3] == 42 && private[3] == 0);
}

static unsigned pages_taken_by(uint64_t seed, size_t pages) {
  struct toll_run r = test_run(&visit, &probe);
  struct rusage before, after;
  r.seed = seed;
  getrusage(RUSAGE_SELF, &before);
  char *drawn = toll_buffer(&r, (struct toll_buffer_request){.bytes = pages * toll_page_bytes(), .drawn = true});
  getrusage(RUSAGE_SELF, &after);
  EXPECT(drawn && (uintptr_t)drawn % toll_page_bytes() == 0);
  if (drawn) memset(drawn, 1, pages * toll_page_bytes());
  return (unsigned)((size_t)(after.ru_minflt - before.ru_minflt) / pages);
}

/* By the kernel's own count: between once and eight times as many pages as are wanted, by the seed alone. */
static void expect_drawn(void) {
  enum { SEEDS = 16, PAGES = 64 };
  unsigned met = 0, kinds = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    unsigned taken = pages_taken_by(seed, PAGES);
    EXPECT(taken >= 1 && taken <= 8 && pages_taken_by(seed, PAGES) == taken);
    met |= 1u << taken;
  }
  for (unsigned taken = 1; taken <= 8; taken++) kinds += met >> taken & 1;
  EXPECT(kinds >= 4);
}

/* Somewhere inside the huge page, and within it. */
static void expect_drawn_in_a_huge_page(void) {
  const size_t unit = toll_huge_page_bytes(), bytes = unit / 4;
  uintptr_t least = unit, most = 0;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    struct toll_run r = test_run(&visit, &probe);
    r.seed = seed;
    char *drawn =
        toll_buffer(&r, (struct toll_buffer_request){.bytes = bytes, .pages = TOLL_PAGES_HUGE, .drawn = true});
    if (!drawn) return; /* where there are none */
    const uintptr_t place = (uintptr_t)drawn % unit;
    EXPECT(place + bytes <= unit && place % toll_page_bytes() == 0);
    if (place < least) least = place;
    if (place > most) most = place;
  }
  EXPECT(most > least);
}

/* Granted and verified, or refused with a reason; never a buffer of small pages under the name of huge ones. */
static void expect_huge_or_reason(void) {
  struct toll_run r = test_run(&visit, &probe);
  char *huge = toll_buffer(&r, (struct toll_buffer_request){.bytes = 5 << 20, .pages = TOLL_PAGES_HUGE});
  if (huge)
    EXPECT((uintptr_t)huge % (2 << 20) == 0 && toll_refused(&r) == TOLL_OK);
  else
    EXPECT(toll_refused(&r) == TOLL_SKIPPED && visit.reason[0] != '\0');
}

/* Makes the kernel refuse prctl(2) from here on, so that what it has switched off stays so. */
static bool refuse_prctl(void) {
  const struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter *)code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum { NO_FILTER = 2, EXPLICIT = 5 };

/* How a buffer of huge pages ends in a process that was started without transparent ones. */
static int huge_pages_of(bool disabled, bool for_good) {
  struct toll_run r = test_run(&visit, &probe);
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    if (disabled) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (for_good && !refuse_prctl()) _exit(NO_FILTER);
    char *huge =
        toll_buffer(&r, (struct toll_buffer_request){.bytes = 5 << 20, .pages = TOLL_PAGES_HUGE, .misalign = 3});
    if (huge) memset(huge, 1, 5 << 20);
    if (!huge) EXPECT(strstr(visit.reason, "hugetlb pages has too few") != NULL);
    _exit(failures ? 3 : !huge ? 4 : visit.hugetlb_bytes ? EXPLICIT : 6);
  }
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void expect_pool(void) {
  static const char pool[] = "/proc/sys/vm/nr_overcommit_hugepages";
  uint64_t before = 0;
  EXPECT(huge_pages_of(true, false) == huge_pages_of(false, false));
  FILE *most = toll_read_number(pool, &before) ? fopen(pool, "w") : NULL;
  if (!most) return; /* only root may change it */
  fprintf(most, "%d\n", 8);
  fflush(most);
  const int found = huge_pages_of(true, true);
  rewind(most);
  fprintf(most, "%llu\n", (unsigned long long)before);
  fclose(most);
  EXPECT(found == EXPLICIT || found == NO_FILTER);
  if (!before) EXPECT(huge_pages_of(true, true) != EXPLICIT);
}

/* One CPU has one last cache; all CPUs have one at least, and no more than one each. */
static void expect_last_caches(void) {
  struct toll_run r = test_run(&visit, &probe);
  const size_t one = toll_last_caches_bytes(&r, 1), all = toll_last_caches_bytes(&r, r.cpu_count);
  EXPECT(one >= 1024 && toll_last_cache_bytes() >= 1024);
  EXPECT(all >= one && toll_last_caches_bytes(&r, r.cpu_count + 1) == all);
  r.cpus = (const int[]){r.cpus[0], r.cpus[0]};
  r.cpu_count = 2;
  EXPECT(toll_last_caches_bytes(&r, 2) == one);
}

/* ---- control groups, from files made for them ---- */

static char groups[] = "/tmp/toll-arena-XXXXXX", vast[] = "/tmp/toll-pages-XXXXXX";

static int forget(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

static void say(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", groups, name);
  for (char *slash = path + strlen(groups) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  EXPECT(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
}

static void expect_left(uint64_t mebibytes, const char *group) {
  const struct memory_left left = memory_left();
  char by[64];
  snprintf(by, sizeof by, "control group %s may use", group);
  EXPECT(left.bytes == mebibytes << 20 && strcmp(left.by, by) == 0);
}

static void expect_sentence(void) {
  struct toll_run r = test_run(&visit, &probe);
  EXPECT(toll_needs_memory(&r, 4 << 20) == TOLL_OK && toll_needs_memory(&r, 8 << 20) == TOLL_SKIPPED);
  EXPECT(strcmp(visit.reason, "needs 8 MiB of memory, and 6 MiB are left of the 8 MiB that control group /a may use") ==
         0);
}

/* What is left when a buffer is begun may be taken by another process before it is touched. */
static void expect_end_of_touch(void) {
  enum { BYTES = 32 << 20 };
  struct toll_run r = test_run(&visit, &probe);
  char *start = map_aligned(BYTES, toll_page_bytes(), false);
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  EXPECT(start && touch(&r, start, BYTES) == TOLL_SKIPPED && strstr(visit.reason, "that control group /a may use"));
  getrusage(RUSAGE_SELF, &after);
  EXPECT((size_t)(after.ru_minflt - before.ru_minflt) <= BYTES / 2 / toll_page_bytes());
  munmap(start, BYTES);
}

static void expect_groups(void) {
  EXPECT(mkdtemp(groups) != NULL);
  static char own[64];
  snprintf(own, sizeof own, "%s/cgroup", groups);
  own_groups = own;
  group_folder = groups;
  EXPECT(memory_left().limit == 0); /* without any file */
  say("memory.max", "12582912\n");
  say("memory.current", "1048576\n");
  expect_left(11, "/"); /* its own group is the root of what is mounted */
  say("cgroup", "1:cpuset:/x\n0::/a/b/c\n");
  say("a/b/c/memory.max", "max\n");
  say("a/b/c/memory.current", "1048576\n");
  say("a/memory.max", "8388608\n");
  say("a/memory.current", "3145728\n");
  expect_left(5, "/a"); /* of a group that is neither the root nor its own */
  say("a/memory.stat", "anon 5\ninactive_file 1048576\n");
  expect_left(6, "/a");
  expect_sentence();
  expect_end_of_touch();
  say("a/b/memory.high", "4194304\n");
  say("a/b/memory.current", "2097152\n");
  expect_left(2, "/a/b");
  say("cgroup", "5:memory_other:/x\n4:cpu,memory:/job/step\n0::/\n");
  say("memory/job/memory.limit_in_bytes", "4194304\n");
  say("memory/job/memory.usage_in_bytes", "1048576\n");
  expect_left(3, "/job");
  nftw(groups, forget, 8, FTW_DEPTH | FTW_PHYS);
}

/* A buffer fits, and the map from which it is cut to begin at a huge page does not. */
static void expect_refused_map(int resource, rlim_t most, const char *by) {
  struct toll_run r = test_run(&visit, &probe);
  setrlimit(resource, &(struct rlimit){most, most});
  EXPECT(!toll_buffer(&r, (struct toll_buffer_request){.bytes = 6 << 20, .pages = TOLL_PAGES_LARGE}));
  EXPECT(strncmp(visit.reason, "the system refused to map 8 MiB", 31) == 0 && strstr(visit.reason, by));
}

/* A limit of this process is named. field: of statm, what counts against it. */
static void expect_limit(int resource, int field, const char *by) {
  struct toll_run r = test_run(&visit, &probe);
  unsigned long long pages[6] = {0};
  char text[128];
  int status = -1;
  toll_read_text("/proc/self/statm", text, sizeof text);
  sscanf(text, "%llu %*u %*u %*u %*u %llu", &pages[0], &pages[5]);
  const rlim_t most = (rlim_t)(pages[field] * toll_page_bytes() + (128 << 20));
  const pid_t child = fork();
  if (child == 0) {
    setrlimit(resource, &(struct rlimit){most, most});
    EXPECT(toll_needs_memory(&r, 32 << 20) == TOLL_OK && toll_needs_memory(&r, 128 << 20) == TOLL_SKIPPED);
    EXPECT(strstr(visit.reason, by) != NULL);
    expect_refused_map(resource, most - (120 << 20) - (1 << 18), by);
    _exit(failures);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

/* Where a huge page has 512 MiB a small buffer touches its own pages alone. */
static void expect_no_vast_pages(void) {
  struct rusage before, after;
  EXPECT(mkdtemp(vast) != NULL);
  static char file[64];
  snprintf(file, sizeof file, "%s/size", vast);
  FILE *said = fopen(file, "w");
  if (!said) return;
  fputs("536870912\n", said);
  fclose(said);
  const char *usual = huge_page_file;
  huge_page_file = file;
  struct toll_run r = test_run(&visit, &probe);
  getrusage(RUSAGE_SELF, &before);
  EXPECT(toll_buffer(&r, (struct toll_buffer_request){.bytes = 16384, .pages = TOLL_PAGES_LARGE}) != NULL);
  getrusage(RUSAGE_SELF, &after);
  EXPECT(after.ru_minflt - before.ru_minflt < 64);
  huge_page_file = usual;
  nftw(vast, forget, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
  expect_last_caches();
  expect_places();
  expect_refusal();
  expect_shared();
  expect_huge_or_reason();
  expect_drawn();
  expect_drawn_in_a_huge_page();
  EXPECT(memory_left().bytes > 0);
  expect_pool();
  expect_limit(RLIMIT_AS, 0, "ulimit -v allows");
  expect_limit(RLIMIT_DATA, 5, "ulimit -d allows");
  expect_groups();
  expect_no_vast_pages();
  return failures;
}
