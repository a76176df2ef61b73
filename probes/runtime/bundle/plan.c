/* SPDX-License-Identifier: Apache-2.0
 *
 * From the plan that the host wrote to the points of this machine. Lines of words between tabs:
 *
 *   suite   NAME BUDGET_S PRECISION
 *   probe   NAME REVISION one|all|pairs
 *   metric  NAME UNIT SOURCE MEANS TOLL                  of the probe before it
 *   select  SCOPE PROBE ARCHITECTURES NODES ABI PARAMETER...
 *                                                        SCOPE: 0 every point, 1 curves, 2 the typical ones;
 *                                                        NODES: the fewest memory nodes that a machine must have for it
 *
 * A PARAMETER is NAME;KIND;TYPICAL;VALUE,VALUE... A VALUE is a number, a choice, a size in terms of a cache (0.5xL1,
 * 4xLAST), a number of CPUs (2xCPUS), `memory-nodes` or `cpu-nodes` (the numbers of the nodes with memory, or CPUs), or a
 * sweep FROM..TO/STEPS_IN_A_DOUBLING/COARSE_FROM; with COARSE_FROM only the powers of two times that, and the last.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

enum { MOST_FIELDS = MOST_AXES + 6, SCOPES = 3, LINE_BYTES = 64, LEAST_SHARE = 4 };

/* ---- values ---- */

struct values {
  uint64_t number[MOST_VALUES];
  char choice[MOST_VALUES][24];
  unsigned count;
};

static uint64_t size_in(const struct machine *machine, const char *text) {
  char *rest;
  const double times = strtod(text, &rest);
  if (*rest != 'x') return strtoull(text, NULL, 10);
  if (strncmp(rest, "xCPUS", 5) == 0) return (uint64_t)(times * machine->allowed_count);
  const unsigned level = rest[1] == 'L' && rest[2] >= '1' && rest[2] <= '9' ? (unsigned)(rest[2] - '0') : 0;
  const uint64_t cache = machine->cache_bytes[level], most = machine->memory_bytes / LEAST_SHARE;
  uint64_t bytes = cache ? cache : machine->last_bytes;
  if (!level && times > 1 && bytes < LEAST_LAST_BYTES)
    bytes = LEAST_LAST_BYTES; /* beyond caches that are not reported */
  bytes = (uint64_t)(times * (double)bytes);
  if (most && bytes > most) bytes = most;
  bytes -= bytes % LINE_BYTES;
  return bytes ? bytes : LINE_BYTES;
}

static void value_add(struct values *values, uint64_t number) {
  for (unsigned i = 0; i < values->count; i++)
    if (values->number[i] == number) return;
  if (values->count < MOST_VALUES) values->number[values->count++] = number;
}

static bool is_coarse(uint64_t value, uint64_t from) {
  if (!from) return value == 0 || (value & (value - 1)) == 0;
  return value % from == 0 && (value / from & (value / from - 1)) == 0;
}

/* Steps of equal length inside every doubling, as src/tollmeter/plan/values.py makes them. */
static void sweep_add(struct values *values, const struct machine *machine, const char *text, bool is_size) {
  const char *to = strstr(text, "..") + 2, *steps = strchr(to, '/');
  const uint64_t from = size_in(machine, text), memory = machine->memory_bytes / LEAST_SHARE;
  uint64_t stop = size_in(machine, to), last = UINT64_MAX, greatest = from;
  const unsigned per_octave = steps ? (unsigned)strtoul(steps + 1, NULL, 10) : 1;
  const char *coarse = steps ? strchr(steps + 1, '/') : NULL;
  const uint64_t coarse_from = coarse && coarse[1] ? strtoull(coarse + 1, NULL, 10) : 0;
  const bool is_all = !coarse || !coarse[1];
  if (is_size && memory && stop > memory) stop = memory;
  if (from == 0) value_add(values, 0);
  for (uint64_t base = from ? from : 1; base <= stop; base *= 2)
    for (unsigned step = 0; step < per_octave; step++) {
      const uint64_t value = base + base * step / per_octave;
      if (value > stop || value == last) continue;
      if (is_all || is_coarse(value, coarse_from)) value_add(values, value);
      last = greatest = value;
    }
  if (strstr(to, "xCPUS")) greatest = stop; /* all of them, whether a power of two or not */
  value_add(values, greatest);
}

/* Node 0 alone where the system reports none. */
static void nodes_add(struct values *values, const struct machine *machine, bool with_cpus) {
  for (unsigned i = 0; i < machine->node_count; i++)
    if (with_cpus ? machine->nodes[i].has_cpus : machine->nodes[i].has_memory)
      value_add(values, machine->nodes[i].number);
  if (!values->count) value_add(values, 0);
}

/* list: VALUE,VALUE... */
static void values_read(struct values *values, const struct machine *machine, const char *kind, char *list) {
  char *place = NULL;
  values->count = 0;
  for (char *text = strtok_r(list, ",", &place); text; text = strtok_r(NULL, ",", &place)) {
    if (strcmp(kind, "choice") == 0) {
      if (values->count < MOST_VALUES) snprintf(values->choice[values->count++], sizeof *values->choice, "%s", text);
    } else if (strstr(text, "-nodes")) {
      nodes_add(values, machine, *text == 'c');
    } else if (strstr(text, "..")) {
      sweep_add(values, machine, text, strcmp(kind, "size") == 0);
    } else {
      value_add(values, size_in(machine, text));
    }
  }
}

/* ---- points ---- */

struct draft {
  char words[WORDS_BYTES];
  uint64_t bytes;
  bool is_typical;
};

static void point_add(struct plan *plan, unsigned probe, unsigned abi, const struct draft *draft) {
  struct point *point = &plan->points[plan->point_count];
  for (unsigned i = 0; i < plan->point_count; i++)
    if (plan->points[i].probe == probe && plan->points[i].abi == abi && !strcmp(plan->points[i].words, draft->words))
      return;
  if (plan->point_count == MOST_POINTS) return;
  *point = (struct point){.probe = (uint16_t)probe, .abi = (uint16_t)abi, .bytes = draft->bytes};
  snprintf(point->words, sizeof point->words, "%s", draft->words);
  point->is_typical = draft->is_typical;
  point->seconds = 0.045 + 2e-9 * (double)draft->bytes;
  plan->point_count++;
}

struct selection {
  struct plan *plan;
  const struct machine *machine;
  char **axes;
  unsigned probe, abi, axis_count;
};

/* Every combination of the values of the axes from `axis` on. */
static void product(const struct selection *of, unsigned axis, const struct draft *so_far) {
  if (axis == of->axis_count) {
    point_add(of->plan, of->probe, of->abi, so_far);
    return;
  }
  char text[4096], *place = NULL;
  snprintf(text, sizeof text, "%s", of->axes[axis]);
  struct values *values = malloc(sizeof *values);
  const char *name = strtok_r(text, ";", &place), *kind = strtok_r(NULL, ";", &place),
             *typical = strtok_r(NULL, ";", &place);
  char *list = strtok_r(NULL, ";", &place);
  if (values && list) {
    const bool is_choice = strcmp(kind, "choice") == 0, is_any = strcmp(typical, "*") == 0;
    const uint64_t usual = is_choice || is_any ? 0 : size_in(of->machine, typical);
    values_read(values, of->machine, kind, list);
    for (unsigned i = 0; i < values->count; i++) {
      struct draft draft = *so_far;
      const size_t used = strlen(draft.words);
      if (is_choice)
        snprintf(draft.words + used, sizeof draft.words - used, "%s%s=%s", used ? " " : "", name, values->choice[i]);
      else
        snprintf(draft.words + used, sizeof draft.words - used, "%s%s=%llu", used ? " " : "", name,
                 (unsigned long long)values->number[i]);
      if (strcmp(kind, "size") == 0) draft.bytes += values->number[i];
      draft.is_typical &= is_any || (is_choice ? !strcmp(typical, values->choice[i]) : usual == values->number[i]);
      product(of, axis + 1, &draft);
    }
  }
  free(values);
}

static bool is_in(const char *list, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = list; length && (at = strstr(at, word)); at += length)
    if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return true;
  return strcmp(list, "*") == 0;
}

static int probe_named(const struct plan *plan, const char *name) {
  for (unsigned i = 0; i < plan->probe_count; i++)
    if (strcmp(plan->probes[i].name, name) == 0) return (int)i;
  return -1;
}

/* The index of an ABI that has this probe here; -1 if none has: executables that do not run here are not unpacked. */
static int abi_of(struct plan *plan, const char *folder, const char *abi, const char *probe) {
  char path[1200];
  snprintf(path, sizeof path, "%s/%s/%s", folder, abi, probe);
  if (!is_there(path)) return -1;
  for (unsigned i = 0; i < plan->abi_count; i++)
    if (strcmp(plan->abis[i], abi) == 0) return (int)i;
  if (plan->abi_count == sizeof plan->abis / sizeof *plan->abis) return -1;
  snprintf(plan->abis[plan->abi_count], sizeof *plan->abis, "%s", abi);
  return (int)plan->abi_count++;
}

/* ---- the file ---- */

static unsigned fields_of(char *line, char **fields) {
  unsigned count = 0;
  line[strcspn(line, "\n")] = '\0';
  while (count < MOST_FIELDS) {
    fields[count++] = line;
    line = strchr(line, '\t');
    if (!line) break;
    *line++ = '\0';
  }
  return count;
}

static void probe_read(struct plan *plan, char **fields) {
  struct probe *probe = &plan->probes[plan->probe_count++];
  snprintf(probe->name, sizeof probe->name, "%s", fields[1]);
  probe->revision = (unsigned)strtoul(fields[2], NULL, 10);
  probe->placement = *fields[3] == 'a' ? ALL_CPUS : *fields[3] == 'p' ? PAIRS : ONE_CPU;
  probe->first_metric = plan->metric_count;
}

static void metric_read(struct plan *plan, char **fields) {
  struct metric *metric = &plan->metrics[plan->metric_count++];
  metric->probe = plan->probe_count - 1;
  plan->probes[metric->probe].metrics++;
  snprintf(metric->name, sizeof metric->name, "%s", fields[1]);
  snprintf(metric->unit, sizeof metric->unit, "%s", fields[2]);
  snprintf(metric->source, sizeof metric->source, "%s", fields[3]);
  snprintf(metric->means, sizeof metric->means, "%s", fields[4]);
  snprintf(metric->toll, sizeof metric->toll, "%s", fields[5]);
}

static void line_read(struct plan *plan, const char *folder, const struct machine *machine, char *line,
                      unsigned scope) {
  char *fields[MOST_FIELDS];
  const unsigned count = fields_of(line, fields);
  const bool is_first = scope == 0;
  if (strcmp(fields[0], "suite") == 0 && count == 4) {
    snprintf(plan->suite, sizeof plan->suite, "%s", fields[1]);
    plan->budget_s = strtod(fields[2], NULL);
    plan->precision = strtod(fields[3], NULL);
  } else if (is_first && strcmp(fields[0], "probe") == 0 && count == 4 && plan->probe_count < MOST_PROBES) {
    probe_read(plan, fields);
  } else if (is_first && strcmp(fields[0], "metric") == 0 && count == 6 && plan->metric_count < MOST_METRICS) {
    metric_read(plan, fields);
  } else if (strcmp(fields[0], "select") == 0 && count >= 6 && strtoul(fields[1], NULL, 10) == scope) {
    const int probe = probe_named(plan, fields[2]), abi = abi_of(plan, folder, fields[5], fields[2]);
    if (probe < 0 || abi < 0 || !is_in(fields[3], machine->architecture)) return;
    const unsigned long nodes = strtoul(fields[4], NULL, 10);
    if (nodes > 1 && nodes_with_memory(machine) < nodes) return;
    const struct selection of = {plan, machine, fields + 6, (unsigned)probe, (unsigned)abi, count - 6};
    product(&of, 0, &(struct draft){.is_typical = true});
  }
}

static bool scope_read(struct plan *plan, const char *folder, const struct machine *machine, unsigned scope) {
  static char line[LONGEST_LINE];
  char path[1200];
  snprintf(path, sizeof path, "%s/plan", folder);
  FILE *file = fopen(path, "r");
  plan->point_count = 0;
  if (!file) return false;
  while (fgets(line, sizeof line, file)) line_read(plan, folder, machine, line, scope);
  fclose(file);
  return true;
}

/* Wall time of this number of visits of every point. */
static double seconds_of(const struct plan *plan, unsigned visits) {
  double seconds = 0;
  for (unsigned i = 0; i < plan->point_count; i++) seconds += visits * plan->points[i].seconds;
  return seconds;
}

static bool values_made(struct plan *plan) {
  for (unsigned i = 0; i < plan->point_count; i++) {
    struct point *point = &plan->points[i];
    point->values = calloc((size_t)KEPT_VISITS * (plan->probes[point->probe].metrics + 1), sizeof *point->values);
    if (!point->values) return false;
  }
  return true;
}

bool plan_read(struct plan *plan, const char *folder, const struct machine *machine, double budget_s, char *error,
               size_t room) {
  enum { WANTED = 6, LEAST = 3 };
  unsigned every = 0;
  for (unsigned scope = 0; scope < SCOPES; scope++) {
    if (!scope_read(plan, folder, machine, scope)) {
      snprintf(error, room, "%s/plan cannot be read", folder);
      return false;
    }
    if (budget_s > 0) plan->budget_s = budget_s;
    if (scope == 0) every = plan->point_count;
    if (seconds_of(plan, scope == 0 ? WANTED : LEAST) <= plan->budget_s) break;
  }
  plan->left_out = every - plan->point_count;
  if (plan->point_count && values_made(plan)) return true;
  snprintf(error, room, "nothing of %s can run here: no probe of the bundle starts, or there is no memory",
           plan->suite);
  return false;
}
