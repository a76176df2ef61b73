/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "expect.h"

TOLL_TEST_NAME("test.request");

static const char *const words[] = {"small", "huge", NULL};
static const uint64_t counts[] = {3, 5, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "size", .kind = TOLL_SIZE, .from = 1024, .to = 4096},
    {.name = "pages", .kind = TOLL_CHOICE, .choices = words, .typical = "huge"},
    {.name = "chains", .kind = TOLL_COUNT, .values = counts},
    {0}};
static const struct toll_probe probe = {.question = "none", .parameters = parameters};

static struct toll_request request;
static char error[TOLL_REASON_BYTES];

static bool reads(const char *text) {
  char line[256];
  snprintf(line, sizeof line, "%s", text);
  error[0] = '\0';
  return toll_request_line(&probe, &request, line, error, sizeof error);
}

static void expect_values(void) {
  EXPECT(reads("--visit=17 --round=2 --samples=9 --sample-ns=500 --cpus=3,0 --target=ssh:a size=1280 pages=small\n"));
  EXPECT(request.visit == 17 && request.round == 2 && request.samples == 9 && request.sample_ns == 500);
  EXPECT(request.cpu_count == 2 && request.cpus[0] == 3 && request.cpus[1] == 0);
  EXPECT(strcmp(request.target, "ssh:a") == 0);
  EXPECT(request.settings[0].number == 1280 && request.settings[1].choice == 0 && request.settings[2].number == 3);
}

static void expect_hints(void) {
  EXPECT(reads("--iterations=4096 --control-iterations=99 --priority=real-time"));
  EXPECT(request.iterations == 4096 && request.control_iterations == 99);
  EXPECT(request.priority == TOLL_PRIORITY_REAL_TIME);
  EXPECT(reads("--left-ms=1500") && request.left_ms == 1500 && !reads("--left-ms=0"));
  EXPECT(reads("--full-width=3921 --wait-ms=50 --also=1,0 --cpus=1") && request.full_width == 3921);
  EXPECT(request.wait_ms == 50 && request.also_count == 2 && request.also[1] == 0 && request.cpu_count == 1);
  EXPECT(reads("--priority=normal --iterations=0"));
  EXPECT(request.priority == TOLL_PRIORITY_NORMAL && request.iterations == 0);
}

static void expect_places(void) {
  EXPECT(reads("--folder=/a%20b/%25c --peer=10.0.0.2,7,9"));
  EXPECT(strcmp(request.folder, "/a b/%c") == 0 && strcmp(request.peer, "10.0.0.2,7,9") == 0);
  EXPECT(reads("") && strcmp(request.folder, "/var/tmp") == 0 && !*request.peer);
  EXPECT(reads("--relation=other_node") && strcmp(request.relation, "other_node") == 0);
  EXPECT(reads("") && !*request.relation && !reads("--relation="));
  for (const char *const bad[] = {"--folder=", "--folder=a", "--folder=/%2", "--folder=/%00", "--folder=/%zz", NULL},
                         *const *one = bad;
       *one; one++)
    EXPECT(!reads(*one));
}

/* What a process has prepared serves whatever differs only in how it is sampled. */
static bool serves(const char *text) {
  struct toll_request first;
  EXPECT(reads("--seed=7 --cpus=1,0 size=4096 pages=small"));
  first = request;
  EXPECT(reads(text));
  return toll_request_same_layout(&first, &request);
}

static void expect_layouts(void) {
  EXPECT(serves("--seed=7 --cpus=1,0 size=4096 pages=small"));
  EXPECT(
      serves("--seed=7 --cpus=1,0 size=4096 pages=small --visit=9 --round=3 --samples=4 --sample-ns=5 --iterations=6"));
  EXPECT(!serves("--seed=8 --cpus=1,0 size=4096 pages=small"));
  EXPECT(!serves("--seed=7 --cpus=0,1 size=4096 pages=small"));
  EXPECT(!serves("--seed=7 --cpus=1 size=4096 pages=small"));
  EXPECT(!serves("--seed=7 --cpus=1,0 size=4097 pages=small"));
  EXPECT(!serves("--seed=7 --cpus=1,0 size=4096 pages=huge"));
  EXPECT(!serves("--seed=7 --cpus=1,0 size=4096 pages=small --folder=/tmp"));
}

static void expect_defaults(void) {
  EXPECT(reads("   \n"));
  EXPECT(request.iterations == 0 && request.control_iterations == 0 && request.priority == TOLL_PRIORITY_NORMAL);
  EXPECT(request.settings[0].number == 1024 && request.settings[1].choice == 1 && request.cpu_count == 0);
  EXPECT(reads("size=18446744073709551615"));
  EXPECT(request.settings[0].number == UINT64_MAX);
}

static void expect_refusals(void) {
  static const char *const bad[] = {"size",
                                    "size=",
                                    "=4",
                                    "size=4k",
                                    "size=-1",
                                    "size=+1",
                                    "size= 1",
                                    "pages=medium",
                                    "colour=3",
                                    "--samples=0",
                                    "--samples",
                                    "--nonsense=1",
                                    "--cpus=",
                                    "--cpus=1,,2",
                                    "--cpus=a",
                                    "--cpus=70000",
                                    "--sample-ns=1e6",
                                    "--target=",
                                    "chains=3 huge",
                                    "--seed=0x1",
                                    "--visit=\x01",
                                    "--priority=",
                                    "--priority=high",
                                    "--iterations=-1",
                                    "--iterations=2305843009213693952",
                                    "--control-iterations=1e6",
                                    "size=18446744073709551616"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    EXPECT(!reads(bad[i]));
    EXPECT(error[0] != '\0');
  }
}

static void expect_long_words_refused(void) {
  char line[300];
  memset(line, 'a', sizeof line);
  line[150] = '=';
  line[299] = '\0';
  EXPECT(!toll_request_line(&probe, &request, line, error, sizeof error));
  snprintf(line, sizeof line, "--target=%0200d", 1);
  EXPECT(!toll_request_line(&probe, &request, line, error, sizeof error));
}

int main(void) {
  expect_values();
  expect_hints();
  expect_layouts();
  expect_places();
  expect_defaults();
  expect_refusals();
  expect_long_words_refused();
  return failures;
}
