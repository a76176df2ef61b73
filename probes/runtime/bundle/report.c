/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as text, on the machine that was measured. The import of a journal computes them more precisely: here no sample
 * is discarded, intervals contain only the variance between visits, and nothing is inferred.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

enum { MOST_SAMPLES = 256 };

static int compare(const void *one, const void *other) {
  const double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static double median(double *values, unsigned count) {
  qsort(values, count, sizeof *values, compare);
  return count ? (values[(count - 1) / 2] + values[count / 2]) / 2 : NAN;
}

/* ---- values of a visit ---- */

struct taken {
  double body[MOST_SAMPLES], control[MOST_SAMPLES], difference[MOST_SAMPLES];
  unsigned bodies, controls;
};

static bool pair_of(const char *record, const char *key, double *first, double *second) {
  const char *text = value_of(record, key);
  return text && sscanf(text, "[%lf,%lf]", first, second) == 2;
}

/* ns of one iteration, from batches of n and 2n that both pay for reading the clock. */
static double each_ns(double shorter, double longer, double iterations, double once) {
  return ((shorter - once) / iterations + (longer - once) / (2 * iterations)) / 2;
}

static void samples_take(struct taken *taken, const char *stream) {
  const char *clock = strstr(stream, "{\"k\":\"clock\"");
  const double once = clock ? number_of(clock, "cost_ns", 0) : 0;
  for (const char *at = stream; (at = strstr(at, "{\"k\":\"sample\"")) && taken->bodies < MOST_SAMPLES; at++) {
    char record[2048];
    double shorter, longer;
    snprintf(record, sizeof record, "%.*s", (int)strcspn(at, "\n"), at);
    const double iterations = number_of(record, "iterations", 0), own = number_of(record, "control_iterations", 0);
    if (iterations <= 0 || !pair_of(record, "body", &shorter, &longer)) continue;
    const double body = each_ns(shorter, longer, iterations, once);
    if (pair_of(record, "control", &shorter, &longer)) {
      const double control = each_ns(shorter, longer, own > 0 ? own : iterations, once);
      taken->difference[taken->controls] = body - control;
      taken->control[taken->controls++] = control;
    }
    taken->body[taken->bodies++] = body;
  }
}

static double gauge_of(const char *stream, const char *metric) {
  for (const char *at = stream; (at = strstr(at, "{\"k\":\"gauge\"")); at++) {
    char name[48];
    text_of(at, "metric", name, sizeof name);
    if (strcmp(name, metric) == 0) return number_of(at, "value", NAN);
  }
  return NAN;
}

/* A rate counts its work, a cycle the core's clock; all else is a time of one operation. */
static double in_unit(double ns, const char *stream, const char *unit) {
  const double operations = number_of(stream, "operations", 1), each = operations > 0 ? operations : 1;
  const char *core = strstr(stream, "{\"k\":\"control\"");
  if (strcmp(unit, "B/s") == 0) return number_of(stream, "bytes", NAN) / ns * 1e9;
  if (strcmp(unit, "bit/s") == 0) return number_of(stream, "bytes", NAN) * 8 / ns * 1e9;
  if (strcmp(unit, "flop/s") == 0) return number_of(stream, "flops", NAN) / ns * 1e9;
  if (strcmp(unit, "op/s") == 0) return each / ns * 1e9;
  if (strcmp(unit, "cycle") == 0)
    return core ? ns / each * number_of(core, "adds", NAN) / number_of(core, "ns", 1) : NAN;
  return ns / each;
}

void values_keep(const struct plan *plan, struct point *point, const struct answer *answer) {
  static struct taken taken;
  const struct probe *probe = &plan->probes[point->probe];
  taken.bodies = taken.controls = 0;
  samples_take(&taken, answer->text);
  double body = median(taken.body, taken.bodies), control = median(taken.control, taken.controls),
         difference = median(taken.difference, taken.controls);
  for (unsigned i = 0; i < probe->metrics; i++) {
    const struct metric *metric = &plan->metrics[probe->first_metric + i];
    double value = NAN;
    if (strcmp(metric->source, "gauge") == 0)
      value = gauge_of(answer->text, metric->name);
    else if (strcmp(metric->source, "body") == 0)
      value = in_unit(body, answer->text, metric->unit);
    else if (strcmp(metric->source, "control") == 0)
      value = in_unit(control, answer->text, metric->unit);
    else if (strcmp(metric->source, "difference") == 0)
      value = in_unit(difference, answer->text, metric->unit);
    point->values[i * KEPT_VISITS + point->visits % KEPT_VISITS] = (float)value;
  }
}

/* ---- intervals ---- */

/* Median of the visits, and Student's interval of their mean. */
static struct interval interval_of(const struct point *point, unsigned metric) {
  static const double reach[] = {0,    12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20,
                                 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07};
  double values[KEPT_VISITS], sum = 0, squares = 0;
  unsigned count = 0;
  for (unsigned i = 0; i < point->visits && i < KEPT_VISITS; i++) {
    const double value = (double)point->values[metric * KEPT_VISITS + i];
    if (isfinite(value)) values[count++] = value;
  }
  struct interval found = {median(values, count), INFINITY, count};
  for (unsigned i = 0; i < count; i++) sum += values[i];
  for (unsigned i = 0; i < count; i++) squares += (values[i] - sum / count) * (values[i] - sum / count);
  if (count >= 3) found.half = reach[count - 1] * sqrt(squares / (count - 1) / count);
  return found;
}

double half_width(const struct plan *plan, const struct point *point) {
  double widest = 0;
  for (unsigned i = 0; i < plan->probes[point->probe].metrics; i++) {
    const struct interval found = interval_of(point, i);
    if (!found.visits || strcmp(plan->metrics[plan->probes[point->probe].first_metric + i].source, "gauge") == 0)
      continue;
    const double share = found.visits < 3 ? 1 : found.value != 0 ? found.half / fabs(found.value) : 0;
    if (share > widest) widest = share;
  }
  return point->visits < 3 || point->layouts < 2 ? 1 : widest;
}

/* ---- the toll table ---- */

static void number_text(char *text, size_t room, double value, const char *unit) {
  static const struct {
    double from;
    const char *prefix;
  } steps[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {0, ""}};
  if (strcmp(unit, "ns") == 0) {
    const double size = fabs(value);
    const char *name = size >= 1e9 ? "s" : size >= 1e6 ? "ms" : size >= 1e3 ? "us" : "ns";
    snprintf(text, room, "%.4g %s",
             size >= 1e9   ? value / 1e9
             : size >= 1e6 ? value / 1e6
             : size >= 1e3 ? value / 1e3
                           : value,
             name);
    return;
  }
  unsigned i = 0;
  while (strchr(unit, '/') && steps[i].from > 0 && fabs(value) < steps[i].from) i++;
  if (!strchr(unit, '/')) i = 4;
  snprintf(text, room, "%.4g %s%s", steps[i].from > 0 ? value / steps[i].from : value, steps[i].prefix, unit);
}

static void word_of(const struct point *point, const char *name, size_t length, char *text, size_t room) {
  text[0] = '\0';
  for (const char *word = point->words; word && *word; word = strchr(word, ' ')) {
    if (*word == ' ') word++;
    if (strncmp(word, name, length) != 0 || word[length] != '=') continue;
    snprintf(text, room, "%.*s", (int)strcspn(word + length + 1, " "), word + length + 1);
    return;
  }
}

/* A line of the toll table: each {parameter} is replaced by its value. */
static void toll_text(char *text, size_t room, const char *form, const struct point *point) {
  size_t used = 0;
  while (*form && used + 1 < room) {
    const char *stop = *form == '{' ? strchr(form, '}') : NULL;
    if (!stop) {
      text[used++] = *form++;
      continue;
    }
    char value[64];
    word_of(point, form + 1, (size_t)(stop - form - 1), value, sizeof value);
    used += (size_t)snprintf(text + used, room - used, "%s", value);
    form = stop + 1;
  }
  text[used < room ? used : room - 1] = '\0';
}

static void toll_print(const struct plan *plan, const struct point *point, unsigned metric) {
  const struct metric *of = &plan->metrics[plan->probes[point->probe].first_metric + metric];
  const struct interval found = interval_of(point, metric);
  char text[200], value[40], doubt[40] = "one or two visits";
  toll_text(text, sizeof text, of->toll, point);
  number_text(value, sizeof value, found.value, of->unit);
  if (found.visits >= 3 && (found.value == 0 || found.half >= fabs(found.value)))
    snprintf(doubt, sizeof doubt, "not resolved");
  else if (found.visits >= 3)
    snprintf(doubt, sizeof doubt, "+-%.2g %%", 100 * found.half / fabs(found.value));
  printf("  %-58s %14s  %-10s %s\n", text, value, doubt, plan->abi_count > 1 ? plan->abis[point->abi] : "");
}

static void tolls_print(const struct plan *plan) {
  puts("\nRows, with the 95 % interval of the visits");
  for (unsigned i = 0; i < plan->point_count; i++) {
    const struct point *point = &plan->points[i];
    const struct probe *probe = &plan->probes[point->probe];
    for (unsigned m = 0; point->is_typical && m < probe->metrics; m++)
      if (*plan->metrics[probe->first_metric + m].toll && interval_of(point, m).visits) toll_print(plan, point, m);
  }
}

void report_print(const struct plan *plan, const struct machine *machine) {
  printf("\n%s: %s, %u CPUs\n", machine->host, machine->cpu, machine->cpus);
  tolls_print(plan);
  puts("\ntoll import computes caches, findings, and how busy this machine was, from the journal");
  fflush(stdout);
}
