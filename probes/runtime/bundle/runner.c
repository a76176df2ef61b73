/* SPDX-License-Identifier: Apache-2.0
 *
 * The main program of a bundle: FOLDER [--out DIR] [--budget SECONDS] [--cpus LIST] [--seed N]. FOLDER holds what the
 * bundle's script unpacked: `plan`, `head`, `request` and a folder of probes for each ABI that runs here.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bundle.h"

enum {
  ROUNDS_OF_ALL = 2,
  MOST_FAILURES = 2,
  LATER_PAIRS = 256, /* pairs that a later round visits */
  SERVED_PAIRS = 32, /* pairs that one process serves */
  SAMPLES = 16,
  SAMPLE_NS = 300000,
  MATRIX_SAMPLES = 4,
  MATRIX_SAMPLE_NS = 50000,
  DEADLINE_MS = 15000,
  LARGE_BYTES = 24 << 20,
  MOST_SERVED = 3
};

struct options {
  const char *folder, *out, *cpus;
  double budget_s;
  uint64_t seed;
};

static struct plan plan;
static struct machine machine;
static struct options options;
static unsigned visits;
static double began_s;
static char files[PATH_MAX]; /* the folder of the journal, where probes may make files; empty: none */

static void on_stop(int signal_number) {
  (void)signal_number;
  stop_asked = 1;
}

static void say(const char *format, const char *word) {
  fprintf(stderr, "bundle: ");
  fprintf(stderr, format, word);
  fputc('\n', stderr);
}

static double elapsed_s(void) {
  return now_s() - began_s;
}

static uint64_t hash_of(const char *text, uint64_t from) {
  for (; *text; text++) from = mixed(from ^ (unsigned char)*text);
  return from;
}

/* ---- words of the command line ---- */

static bool is_number(const char *text, double *number) {
  char *rest;
  *number = strtod(text, &rest);
  if (*rest == 'm' && rest[1] == '\0') *number *= 60;
  return rest != text && *number >= 0 && (*rest == '\0' || ((*rest == 's' || *rest == 'm') && rest[1] == '\0'));
}

static bool cpus_read(const char *list) {
  machine.allowed_count = 0;
  while (*list) {
    char *rest;
    const long from = strtol(list, &rest, 10);
    long to = from;
    if (rest == list || from < 0) return false;
    if (*rest == '-') to = strtol(list = rest + 1, &rest, 10);
    if (rest == list || to < from) return false;
    for (long cpu = from; cpu <= to && machine.allowed_count < MOST_CPUS; cpu++)
      machine.allowed[machine.allowed_count++] = (int)cpu;
    if (*rest && *rest != ',') return false;
    list = *rest == ',' ? rest + 1 : rest;
  }
  return machine.allowed_count > 0;
}

/* False with a sentence on standard error. */
static bool words_read(int count, char **words) {
  double number;
  options.folder = words[1];
  for (int i = 2; i < count; i += 2) {
    const char *value = i + 1 < count ? words[i + 1] : NULL;
    if (value && strcmp(words[i], "--out") == 0) {
      options.out = strcmp(value, "-") == 0 ? NULL : value;
    } else if (value && strcmp(words[i], "--cpus") == 0) {
      options.cpus = value;
    } else if (value && strcmp(words[i], "--budget") == 0 && is_number(value, &number) && number > 0) {
      options.budget_s = number;
    } else if (value && strcmp(words[i], "--seed") == 0 && is_number(value, &number)) {
      options.seed = strtoull(value, NULL, 10);
    } else {
      say("unknown word or value: %s; known: --out DIR, --budget SECONDS, --cpus LIST, --seed N", words[i]);
      return false;
    }
  }
  return true;
}

/* ---- the first stream ---- */

static const char usual_machine[] =
    "{\"k\":\"machine\",\"host\":\"unknown\",\"cpu\":\"unknown\",\"kernel\":\"unknown\","
    "\"hypervisor\":null,\"cpus\":1,\"memory_bytes\":0,\"allowed_cpus\":[0]";

struct stream {
  char *text;
  size_t used, room;
  uint64_t records;
};

/* record: a JSON object in one line, with or without its number, checksum and last brace. */
static void stream_add(struct stream *stream, char *record) {
  char *seal = NULL, *end = record + strlen(record);
  for (char *at = record; (at = strstr(at, ",\"n\":")); at++) seal = at;
  while (end > record && (end[-1] == '\n' || end[-1] == ' ')) *--end = '\0';
  if (seal && strstr(seal, ",\"c\":\"") && end - seal < 48)
    *seal = '\0';
  else if (end > record && end[-1] == '}')
    end[-1] = '\0';
  stream->used += sealed(stream->text + stream->used, stream->room - stream->used, record, stream->records++);
}

static void records_of_file(struct stream *stream, const char *name, const char *more) {
  static char line[LONGEST_LINE + 4096];
  char path[1200];
  snprintf(path, sizeof path, "%s/%s", options.folder, name);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, LONGEST_LINE, file)) {
    char *end = strrchr(line, '}');
    if (end) snprintf(end, 4096, "%s}", more);
    stream_add(stream, line);
  }
  if (file) fclose(file);
}

/* The fields of the request that are known on the target, appended to the host's record. */
static void request_more(char *text, size_t room) {
  char when[40] = "";
  const time_t now = time(NULL);
  struct tm *utc = gmtime(&now);
  if (utc && utc->tm_year > 120) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S+00:00", utc);
  size_t used = (size_t)snprintf(text, room, ",\"seed\":%llu,\"budget_seconds\":%g,\"started\":\"%s\",\"abis\":[",
                                 (unsigned long long)options.seed, plan.budget_s, when);
  for (unsigned i = 0; i < plan.abi_count && used < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s\"%s\"", i ? "," : "", plan.abis[i]);
  if (used < room) used += (size_t)snprintf(text + used, room - used, "],\"cpus\":[");
  for (unsigned i = 0; options.cpus && i < machine.allowed_count && used < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s%d", i ? "," : "", machine.allowed[i]);
  if (used < room) snprintf(text + used, room - used, "]");
}

/* A probe of the runner's own ABI, in its folder. */
static bool any_probe(char *path, size_t room, const char *own) {
  static char line[LONGEST_LINE];
  const int folder = (int)(strrchr(own, '/') ? strrchr(own, '/') - own : 0);
  char name[1200];
  bool is_found = false;
  snprintf(name, sizeof name, "%s/plan", options.folder);
  FILE *plan_file = fopen(name, "r");
  while (plan_file && !is_found && fgets(line, sizeof line, plan_file)) {
    if (strncmp(line, "probe\t", 6) != 0) continue;
    snprintf(path, room, "%.*s/%.*s", folder, own, (int)strcspn(line + 6, "\t"), line + 6);
    is_found = is_there(path);
  }
  if (plan_file) fclose(plan_file);
  return is_found;
}

/* The records `machine`, `clock` and `control`, of a probe that answers; else what is known without it. */
static void machine_ask(char *text, size_t room, const char *own) {
  char path[1300] = "";
  char *words[] = {path, "--machine", NULL};
  size_t used = any_probe(path, sizeof path, own) ? output_of(words, text, room, 20) : 0;
  text[used] = '\0';
  if (strncmp(text, "{\"k\":\"machine\"", 14) != 0 || !strchr(text, '\n')) {
    say("%s: this kernel answers too little of what a machine is asked; it is described as unknown", path);
    snprintf(text, room, "%s\n", usual_machine);
  }
  machine_read(&machine, text);
}

static bool head_write(char *answer_text, char *more) {
  struct stream head = {.room = 4 << 20};
  char end[60], *place = NULL;
  head.text = malloc(head.room);
  if (!head.text) return false;
  for (char *line = strtok_r(answer_text, "\n", &place); line; line = strtok_r(NULL, "\n", &place))
    if (strncmp(line, "{\"k\":\"end\"", 10) != 0 && line[0] == '{') stream_add(&head, line);
  records_of_file(&head, "request", more);
  records_of_file(&head, "head", "");
  snprintf(end, sizeof end, "{\"k\":\"end\",\"records\":%llu", (unsigned long long)head.records);
  head.used += sealed(head.text + head.used, head.room - head.used, end, head.records);
  const bool is_written = journal_write(head.text, head.used) && journal_write(head.text, head.used);
  free(head.text);
  return is_written;
}

/* ---- CPUs ---- */

static void cpus_text(char *text, size_t room, enum placement placement, unsigned pair) {
  size_t used = 0;
  const unsigned count = machine.allowed_count;
  text[0] = '\0';
  if (placement == PAIRS && count > 1) {
    for (unsigned one = 0; one + 1 < count; one++)
      for (unsigned two = one + 1; two < count; two++)
        if (pair-- == 0) snprintf(text, room, "%d,%d", machine.allowed[one], machine.allowed[two]);
    return;
  }
  for (unsigned i = 0; i < (placement == ONE_CPU && count ? 1 : count) && used < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s%d", i ? "," : "", machine.allowed[i]);
}

static unsigned placements(const struct point *point) {
  if (plan.probes[point->probe].placement != PAIRS || machine.allowed_count < 2) return 1;
  return pairs_of(&machine);
}

/* Returns whether a point has more pairs of CPUs than a round visits. */
static bool is_matrix(const struct point *point) {
  return placements(point) > FIRST_PAIRS;
}

/* ---- visits ---- */

/* The point's words as a JSON object. */
static void parameters_text(char *text, size_t room, const struct point *point) {
  char words[WORDS_BYTES], *place = NULL;
  size_t used = (size_t)snprintf(text, room, "{");
  snprintf(words, sizeof words, "%s", point->words);
  for (char *word = strtok_r(words, " ", &place); word; word = strtok_r(NULL, " ", &place)) {
    char *value = strchr(word, '='), *rest;
    if (!value) continue;
    *value++ = '\0';
    strtoull(value, &rest, 10);
    const char *quote = *rest || !*value ? "\"" : "";
    used +=
        (size_t)snprintf(text + used, room - used, "%s\"%s\":%s%s%s", used > 1 ? "," : "", word, quote, value, quote);
  }
  snprintf(text + used, room - used, "}");
}

/* The record that replaces the output of a visit that printed nothing. */
static void visit_record(char *text, size_t room, const struct point *point, unsigned round, const char *cpus,
                         uint64_t seed) {
  const struct probe *probe = &plan.probes[point->probe];
  char parameters[2 * WORDS_BYTES];
  parameters_text(parameters, sizeof parameters, point);
  snprintf(text, room,
           "{\"k\":\"visit\",\"visit\":%u,\"round\":%u,\"probe\":\"%s\",\"revision\":%u,\"abi\":\"%s\",\"target\":"
           "\"local\",\"parameters\":%s,\"cpus\":[%s],\"seed\":%llu,\"samples\":%d,\"sample_ns\":%d",
           visits, round, probe->name, probe->revision, plan.abis[point->abi], parameters, cpus,
           (unsigned long long)seed, SAMPLES, SAMPLE_NS);
}

static bool is_plain_path(const char *path) {
  for (; *path; path++)
    if (*path <= ' ' || *path == '%' || *path > '~') return false;
  return true;
}

static void progress(const struct point *point, const struct answer *answer) {
  static double said_s = -9;
  const bool is_terminal = options.out && isatty(STDERR_FILENO);
  if (!is_terminal && elapsed_s() - said_s < 2) return;
  said_s = elapsed_s();
  const struct probe *probe = &plan.probes[point->probe];
  char value[80] = "";
  if (strcmp(answer->status, "ok") != 0)
    snprintf(value, sizeof value, "%.70s", answer->status);
  else if (probe->metrics)
    snprintf(value, sizeof value, "%.4g %s", (double)point->values[(point->visits - 1) % KEPT_VISITS],
             plan.metrics[probe->first_metric].unit);
  fprintf(stderr, "%s%3.0f s of %.0f s, visit %u: %s %s %s: %s%s", is_terminal ? "\r\033[K" : "", said_s, plan.budget_s,
          visits, plan.abis[point->abi], probe->name, point->words, value, is_terminal ? "" : "\n");
}

static void learn(struct point *point, const struct answer *answer) {
  const char *sample = strstr(answer->text, "{\"k\":\"sample\"");
  point->seconds = answer->seconds;
  if (strcmp(answer->status, "ok") == 0) {
    values_keep(&plan, point, answer);
    point->visits++;
    if (sample) point->iterations = (uint64_t)number_of(sample, "iterations", 0);
    if (sample) point->control_iterations = (uint64_t)number_of(sample, "control_iterations", 0);
    return;
  }
  static const char *const final[] = {"unsupported", "wrong_answer", "timeout"};
  for (size_t i = 0; i < sizeof final / sizeof *final; i++) point->is_final |= !strcmp(answer->status, final[i]);
  point->is_final |= ++point->failures >= MOST_FAILURES;
}

/* The line that asks for a visit (docs/protocol.md). */
static size_t request_line(char *text, size_t room, const struct point *point, unsigned round, const char *cpus,
                           uint64_t seed, unsigned visit) {
  const bool is_brief = is_matrix(point);
  size_t used = (size_t)snprintf(
      text, room,
      "--visit=%u --round=%u --target=local --samples=%d --sample-ns=%d --seed=%llu --deadline-ms=%d --iterations=%llu "
      "--control-iterations=%llu --priority=real-time",
      visit, round, is_brief ? MATRIX_SAMPLES : SAMPLES, is_brief ? MATRIX_SAMPLE_NS : SAMPLE_NS,
      (unsigned long long)seed, DEADLINE_MS + (int)(point->bytes >> 15), (unsigned long long)point->iterations,
      (unsigned long long)point->control_iterations);
  if (*cpus) used += (size_t)snprintf(text + used, room - used, " --cpus=%s", cpus);
  if (is_plain_path(files) && *files && strlen(files) < 1000)
    used += (size_t)snprintf(text + used, room - used, " --folder=%s", files);
  return used + (size_t)snprintf(text + used, room - used, " %s\n", point->words);
}

static void path_of(char *path, size_t room, const struct point *point) {
  snprintf(path, room, "%s/%s/%s", options.folder, plan.abis[point->abi], plan.probes[point->probe].name);
}

/* Asks a process for the visits of these lines. False where the journal cannot be written. */
static bool answered(struct point *point, char *option, const char *lines, const char *record) {
  char path[1300];
  char *words[] = {path, option, NULL};
  path_of(path, sizeof path, point);
  struct answer answer = visits_make(words, lines, record, 2 + (DEADLINE_MS + (double)(point->bytes >> 15)) / 1000);
  point->layouts++;
  do {
    if (!journal_write(answer.text, answer.length)) return false;
    visits++;
    learn(point, &answer);
  } while (visits_next(&answer));
  if (point->visits || point->failures) progress(point, &answer);
  return true;
}

static uint64_t seed_of(const struct point *point, unsigned round) {
  return hash_of(point->words, hash_of(plan.probes[point->probe].name, mixed(options.seed) ^ round)) >> 2;
}

/* One process forks for each pair, which takes a third of the time of a new process. */
static bool pairs_visited(struct point *point, unsigned round, const struct pair *pairs, unsigned count) {
  static char lines[SERVED_PAIRS * 3000];
  char cpus[40], record[4096];
  size_t used = 0;
  const uint64_t seed = seed_of(point, round);
  for (unsigned i = 0; i < count; i++) {
    snprintf(cpus, sizeof cpus, "%d,%d", pairs[i].one, pairs[i].two);
    used += request_line(lines + used, sizeof lines - used, point, round, cpus, seed + i, visits + i);
    if (i == 0) visit_record(record, sizeof record, point, round, cpus, seed);
  }
  return answered(point, "--visits", lines, record);
}

/* Visits of one layout, as the host's processes serve several: more where it takes long to set up. False where the journal cannot be written. */
static bool visited(struct point *point, unsigned round, unsigned pair) {
  static char lines[MOST_SERVED * 3000];
  char cpus[1024], record[4096];
  cpus_text(cpus, sizeof cpus, plan.probes[point->probe].placement, pair);
  const uint64_t seed = seed_of(point, round);
  size_t used = 0;
  const unsigned serves = point->bytes > LARGE_BYTES ? MOST_SERVED : round ? 2 : 1;
  for (unsigned i = 0; i < serves; i++)
    used += request_line(lines + used, sizeof lines - used, point, round, cpus, seed, visits + i);
  visit_record(record, sizeof record, point, round, cpus, seed);
  return answered(point, "--stay", lines, record);
}

/* ---- rounds ---- */

static double matrix_s;      /* time that all matrices have taken */
static double matrix_most_s; /* time that they may take until the end of this round */

/* A large layout takes long to set up: its second visit comes after the third visit of all others. */
static bool is_due(const struct point *point, unsigned round) {
  if (is_matrix(point)) return !point->is_final && point->pairs_seen < PASSES * pairs_of(&machine);
  if (point->is_final || (point->bytes > LARGE_BYTES && round == 1)) return false;
  return round < ROUNDS_OF_ALL || half_width(&plan, point) > plan.precision;
}

/* The round's points in seeded order: in the first round those of the toll table first, and large ones last. */
static unsigned order_of(unsigned *order, unsigned round) {
  unsigned count = 0;
  uint64_t state = mixed(options.seed + round);
  for (unsigned group = 0; group < 4; group++) {
    const unsigned first = count;
    for (unsigned i = 0; i < plan.point_count; i++) {
      const struct point *point = &plan.points[i];
      const unsigned own = (point->bytes > LARGE_BYTES ? 2 : 0) + (point->is_typical || round ? 0 : 1);
      if (own == group && is_due(point, round)) order[count++] = i;
    }
    for (unsigned i = count; i > first + 1; i--) {
      state = mixed(state);
      const unsigned other = first + (unsigned)(state % (i - first)), held = order[i - 1];
      order[i - 1] = order[other];
      order[other] = held;
    }
  }
  return count;
}

enum ended { SETTLED, BUDGET, INTERRUPTED, UNWRITABLE };

/* Beside other points, matrices take a quarter of the budget. */
static void share_budget(const unsigned *order, unsigned count) {
  bool is_alone = true;
  for (unsigned i = 0; i < count; i++) is_alone &= is_matrix(&plan.points[order[i]]);
  matrix_most_s = is_alone ? plan.budget_s : plan.budget_s / 4;
}

/* Some pairs of each relation in the first round, later the next ones of all. Sets is_any where one was visited. False where
 * the journal cannot be written. */
static bool matrix_visited(struct point *point, unsigned round, bool *is_any) {
  struct pair pairs[LATER_PAIRS];
  const unsigned count = round ? pairs_next(&machine, options.seed, point->pairs_seen, LATER_PAIRS, pairs)
                               : pairs_of_each_relation(&machine, options.seed, pairs);
  for (unsigned i = 0; i < count && !point->is_final && !stop_asked;) {
    const unsigned served = count - i < SERVED_PAIRS ? count - i : SERVED_PAIRS;
    const double from_s = elapsed_s();
    if (from_s + point->seconds > plan.budget_s || matrix_s + point->seconds > matrix_most_s) break;
    const unsigned before = point->visits + point->failures;
    if (!pairs_visited(point, round, pairs + i, served)) return false;
    matrix_s += elapsed_s() - from_s;
    const unsigned ended = point->visits + point->failures - before;
    if (round) point->pairs_seen += ended;
    i += ended; /* a process that was stopped has not come to the others */
    *is_any = true;
  }
  return true;
}

static enum ended rounds(void) {
  static unsigned order[MOST_POINTS];
  for (unsigned round = 0;; round++) {
    const unsigned count = order_of(order, round);
    bool is_any = false;
    if (!count) return SETTLED;
    share_budget(order, count);
    for (unsigned i = 0; i < count; i++) {
      struct point *point = &plan.points[order[i]];
      if (is_matrix(point) && !matrix_visited(point, round, &is_any)) return UNWRITABLE;
      if (stop_asked) return INTERRUPTED;
      for (unsigned pair = 0; pair < placements(point) && !point->is_final && !is_matrix(point); pair++) {
        if (elapsed_s() + point->seconds > plan.budget_s) break;
        is_any = true;
        if (!visited(point, round, pair)) return UNWRITABLE;
        if (stop_asked) return INTERRUPTED;
      }
    }
    if (!is_any) return BUDGET;
    journal_note("measuring", elapsed_s(), NULL, visits);
  }
}

/* A record for each point without a visit, so that its row states the reason. */
static void leave_sentences(const char *reason) {
  static char stream[8192];
  char cpus[8] = "", record[4096], fail[400], end[60];
  for (unsigned i = 0; i < plan.point_count; i++) {
    const struct point *point = &plan.points[i];
    if (point->visits || point->failures) continue;
    visit_record(record, sizeof record, point, 0, cpus, 0);
    snprintf(fail, sizeof fail, "{\"k\":\"fail\",\"status\":\"interrupted\",\"reason\":\"%s\"", reason);
    snprintf(end, sizeof end, "{\"k\":\"end\",\"records\":2");
    size_t used = sealed(stream, sizeof stream, record, 0);
    used += sealed(stream + used, sizeof stream - used, fail, 1);
    used += sealed(stream + used, sizeof stream - used, end, 2);
    if (!journal_write(stream, used)) return;
    visits++;
  }
}

static void say_pairs(const struct point *point) {
  const unsigned pairs = pairs_of(&machine), seen = point->pairs_seen;
  const unsigned twice = seen > pairs ? seen - pairs : 0, once = seen - 2 * twice;
  if (!is_matrix(point) || twice == pairs) return;
  fprintf(stderr, "bundle: %s %s: of %u pairs of CPUs %u were visited twice, %u once; %u were left out\n",
          plan.probes[point->probe].name, point->words, pairs, twice, once, pairs - twice - once);
}

static int measured(void) {
  static const char *const status[] = {"settled", "budget", "interrupted", "interrupted"};
  const enum ended ended = rounds();
  const int error = errno; /* error of a write that failed, if one did */
  char reason[200] = "";
  if (ended == BUDGET) snprintf(reason, sizeof reason, "the %.0f s for measuring were spent", plan.budget_s);
  if (ended == INTERRUPTED) snprintf(reason, sizeof reason, "it was asked to stop");
  if (options.out && isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  if (ended == UNWRITABLE) {
    say("cannot write the journal: %s. What was written before is kept", strerror(error));
    return EXIT_WRITING;
  }
  leave_sentences(*reason ? reason : "it was not visited");
  journal_note(status[ended], elapsed_s(), *reason ? reason : NULL, visits);
  for (unsigned i = 0; i < plan.point_count; i++) say_pairs(&plan.points[i]);
  report_print(&plan, &machine);
  return ended == INTERRUPTED ? EXIT_INTERRUPTED : EXIT_ANSWERED;
}

static int run(int count, char **words) {
  static char answer_text[1 << 20], more[4096];
  char error[1300];
  began_s = now_s();
  options.seed = mixed((uint64_t)time(NULL) ^ (uint64_t)getpid()) % 1000000;
  if (count < 2 || !words_read(count, words)) return EXIT_USAGE;
  signal(SIGINT, on_stop);
  signal(SIGTERM, on_stop);
  signal(SIGPIPE, SIG_IGN);
  machine_ask(answer_text, sizeof answer_text, words[0]);
  if (options.cpus && !cpus_read(options.cpus)) {
    say("--cpus %s: expected a list such as 0,2 or 4-7", options.cpus);
    return EXIT_USAGE;
  }
  if (!plan_read(&plan, options.folder, &machine, options.budget_s, error, sizeof error)) {
    say("%s", error);
    return 6;
  }
  if (options.out && mkdir(options.out, 0755) != 0 && errno != EEXIST) {
    say("cannot make the folder of the journal: %s", strerror(errno));
    return EXIT_WRITING;
  }
  if (options.out && !realpath(options.out, files)) files[0] = '\0';
  request_more(more, sizeof more);
  if (!journal_open(options.out) || !head_write(answer_text, more)) {
    say("cannot write the journal: %s; --out DIR names another folder", strerror(errno));
    return EXIT_WRITING;
  }
  if (plan.left_out) fprintf(stderr, "bundle: %u points are left out for the budget\n", plan.left_out);
  return measured();
}

/* As process 1, turns the machine off, since a kernel panics when process 1 ends; in a container this is refused,
 * and the process ends. */
int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--runs") == 0) return 0;
  const int status = run(count, words);
  if (getpid() != 1) return status;
  sync();
  if (reboot(RB_POWER_OFF) != 0) return status;
  for (;;) pause();
}
