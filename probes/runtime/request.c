/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a visit (docs/protocol.md), from the command line or from a line of standard input. The input may come
 * over a wire: every word is checked, and a malformed one is named.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

unsigned toll_parameter_count(const struct toll_probe *probe) {
  unsigned count = 0;
  while (probe->parameters && probe->parameters[count].name) count++;
  return count;
}

/* Decimal digits only; strtoull alone would accept blanks, signs and values that overflow. */
static bool parse_number(const char *text, uint64_t *number) {
  uint64_t value = 0;
  if (!*text) return false;
  for (; *text; text++) {
    if (!isdigit((unsigned char)*text)) return false;
    unsigned digit = (unsigned)(*text - '0');
    if (value > (UINT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *number = value;
  return true;
}

static bool parse_choice(const char *const *choices, const char *text, unsigned *choice) {
  for (unsigned i = 0; choices[i]; i++) {
    if (strcmp(choices[i], text) != 0) continue;
    *choice = i;
    return true;
  }
  return false;
}

static bool parse_setting(const struct toll_parameter *parameter, const char *text, struct toll_setting *setting) {
  if (parameter->kind == TOLL_CHOICE) return parse_choice(parameter->choices, text, &setting->choice);
  return parse_number(text, &setting->number);
}

void toll_request_defaults(const struct toll_probe *probe, struct toll_request *request) {
  memset(request, 0, sizeof *request);
  request->samples = 7;
  request->sample_ns = 1000000;
  request->seed = 1;
  request->deadline_ms = 20000;
  strcpy(request->target, "local");
  strcpy(request->folder, TOLL_USUAL_FOLDER);
  for (unsigned i = 0; i < toll_parameter_count(probe); i++) {
    const struct toll_parameter *parameter = &probe->parameters[i];
    request->settings[i].number = parameter->values ? parameter->values[0] : parameter->from;
    if (parameter->typical) parse_setting(parameter, parameter->typical, &request->settings[i]);
  }
}

static bool parse_cpus(const char *text, int *cpus, unsigned *count) {
  char copy[TOLL_MOST_CPUS * 6], *rest = copy;
  if (strlen(text) >= sizeof copy) return false;
  strcpy(copy, text);
  *count = 0;
  for (char *word; (word = strsep(&rest, ","));) {
    uint64_t cpu;
    if (*count == TOLL_MOST_CPUS || !parse_number(word, &cpu) || cpu > 65535) return false;
    cpus[(*count)++] = (int)cpu;
  }
  return true;
}

static bool parse_text(const char *text, char *field, size_t room) {
  if (!*text || strlen(text) >= room) return false;
  strcpy(field, text);
  return true;
}

/* A byte of a path that would end the word or the line is encoded as % and two hexadecimal digits. */
static bool parse_path(const char *text, char *path, size_t room) {
  size_t length = 0;
  for (; *text && length + 1 < room; text++) {
    unsigned byte = (unsigned char)*text;
    if (*text == '%' && (!isxdigit((unsigned char)text[1]) || sscanf(text + 1, "%2x", &byte) != 1 || !text[2] || !byte))
      return false;
    if (*text == '%') text += 2;
    path[length++] = (char)byte;
  }
  path[length] = '\0';
  return !*text && path[0] == '/';
}

static bool parse_priority(const char *text, struct toll_request *request) {
  bool real_time = strcmp(text, "real-time") == 0;
  request->priority = real_time ? TOLL_PRIORITY_REAL_TIME : TOLL_PRIORITY_NORMAL;
  return real_time || strcmp(text, "normal") == 0;
}

static bool parse_counters(const char *text, struct toll_request *request) {
  request->counters_off = strcmp(text, "off") == 0;
  return request->counters_off || strcmp(text, "on") == 0;
}

static bool parse_ahead(const char *text, struct toll_request *request) {
  uint64_t cpu;
  if (!parse_number(text, &cpu) || cpu > 65535) return false;
  request->ahead = true;
  request->ahead_cpu = (int)cpu;
  return true;
}

/* Finds the option's field. Its upper bound ends a visit whose request was damaged. */
static bool parse_option(const char *name, const char *value, struct toll_request *request) {
  const struct {
    const char *name;
    uint64_t *field, least, most;
  } options[] = {{"visit", &request->visit, 0, UINT64_MAX},
                 {"round", &request->round, 0, UINT64_MAX},
                 {"samples", &request->samples, 1, 100000},
                 {"sample-ns", &request->sample_ns, 1, UINT64_C(60000000000)},
                 {"seed", &request->seed, 0, UINT64_MAX},
                 {"deadline-ms", &request->deadline_ms, 1, 86400000},
                 {"iterations", &request->iterations, 0, UINT64_C(1) << 60},
                 {"control-iterations", &request->control_iterations, 0, UINT64_C(1) << 60},
                 {"full-width", &request->full_width, 0, 1000000},
                 {"wait-ms", &request->wait_ms, 0, 86400000},
                 {"left-ms", &request->left_ms, 1, UINT64_MAX}};
  if (strcmp(name, "cpus") == 0) return parse_cpus(value, request->cpus, &request->cpu_count);
  if (strcmp(name, "also") == 0) return parse_cpus(value, request->also, &request->also_count);
  if (strcmp(name, "ahead") == 0) return parse_ahead(value, request);
  if (strcmp(name, "target") == 0) return parse_text(value, request->target, sizeof request->target);
  if (strcmp(name, "marks") == 0) return parse_text(value, request->marks, sizeof request->marks);
  if (strcmp(name, "folder") == 0) return parse_path(value, request->folder, sizeof request->folder);
  if (strcmp(name, "peer") == 0) return parse_text(value, request->peer, sizeof request->peer);
  if (strcmp(name, "relation") == 0) return parse_text(value, request->relation, sizeof request->relation);
  if (strcmp(name, "priority") == 0) return parse_priority(value, request);
  if (strcmp(name, "counters") == 0) return parse_counters(value, request);
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    if (strcmp(name, options[i].name) != 0) continue;
    return parse_number(value, options[i].field) && *options[i].field >= options[i].least &&
           *options[i].field <= options[i].most;
  }
  return false;
}

static bool parse_parameter(const struct toll_probe *probe, const char *name, const char *value,
                            struct toll_request *request) {
  for (unsigned i = 0; i < toll_parameter_count(probe); i++)
    if (strcmp(probe->parameters[i].name, name) == 0)
      return parse_setting(&probe->parameters[i], value, &request->settings[i]);
  return false;
}

bool toll_request_word(const struct toll_probe *probe, struct toll_request *request, const char *word, char *error,
                       size_t room) {
  char name[64];
  const char *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) : 0;
  if (length > 0 && length < sizeof name) {
    memcpy(name, word, length);
    name[length] = '\0';
    bool option = strncmp(name, "--", 2) == 0;
    if (option ? parse_option(name + 2, equals + 1, request) : parse_parameter(probe, name, equals + 1, request))
      return true;
  }
  snprintf(error, room, "not understood: '%.100s' (an option is --NAME=VALUE, a parameter NAME=VALUE; see --describe)",
           word);
  return false;
}

bool toll_request_line(const struct toll_probe *probe, struct toll_request *request, char *line, char *error,
                       size_t room) {
  toll_request_defaults(probe, request);
  for (char *word; (word = strsep(&line, " \t\r\n"));)
    if (*word && !toll_request_word(probe, request, word, error, room)) return false;
  return true;
}

bool toll_request_same_layout(const struct toll_request *one, const struct toll_request *other) {
  return one->seed == other->seed && one->cpu_count == other->cpu_count &&
         memcmp(one->cpus, other->cpus, one->cpu_count * sizeof one->cpus[0]) == 0 &&
         strcmp(one->folder, other->folder) == 0 && strcmp(one->peer, other->peer) == 0 &&
         memcmp(one->settings, other->settings, sizeof one->settings) == 0;
}
