/* SPDX-License-Identifier: Apache-2.0
 *
 * A probe's description of itself, and how it was built.
 */
#include "internal.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char *const betters[] = {"less", "more", "neither"};
static const char *const sources[] = {"body", "control", "difference", "companions", "together", "gauge"};
static const char *const kinds[] = {"size", "count", "choice"};
static const char *const scales[] = {"absolute", "last-cache", "cpus", "cpu-nodes", "memory-nodes"};

static void put_each_metric(const struct toll_metric *metric) {
  for (; metric && metric->name; metric++) {
    toll_put_open(NULL, '{');
    toll_put_text("name", metric->name);
    toll_put_text("unit", metric->unit);
    toll_put_text("better", betters[metric->better]);
    toll_put_text("summary", metric->summary);
    toll_put_text("source", sources[metric->source]);
    toll_put_text("means", metric->means);
    toll_put_text("toll", metric->toll);
    toll_put_close('}');
  }
}

static void put_metrics(const struct toll_probe *probe) {
  toll_put_open("metrics", '[');
  put_each_metric(probe->metrics);
  if (probe->accounts) put_each_metric(toll_account_metrics);
  toll_put_close(']');
}

static void put_values(const struct toll_parameter *parameter) {
  toll_put_open("values", '[');
  for (const uint64_t *value = parameter->values; value && *value != TOLL_END; value++) toll_put_count(NULL, *value);
  toll_put_close(']');
  toll_put_open("choices", '[');
  for (const char *const *choice = parameter->choices; choice && *choice; choice++) toll_put_text(NULL, *choice);
  toll_put_close(']');
}

static void put_parameters(const struct toll_parameter *parameter) {
  toll_put_open("parameters", '[');
  for (; parameter && parameter->name; parameter++) {
    toll_put_open(NULL, '{');
    toll_put_text("name", parameter->name);
    toll_put_text("kind", kinds[parameter->kind]);
    toll_put_text("summary", parameter->summary);
    toll_put_count("start", parameter->from);
    toll_put_count("stop", parameter->to);
    toll_put_text("stop_scale", scales[parameter->to_scale]);
    toll_put_count("per_octave", parameter->per_octave ? parameter->per_octave : 1);
    put_values(parameter);
    toll_put_text("typical", parameter->typical);
    toll_put_bool("refine", parameter->refine);
    toll_put_close('}');
  }
  toll_put_close(']');
}

static const char *const paces[] = {"lockstep", "background", "in turn"}; /* names of enum toll_pace */

static void put_roles(const struct toll_role *role) {
  toll_put_open("roles", '[');
  for (; role && role->name; role++) {
    toll_put_open(NULL, '{');
    toll_put_text("name", role->name);
    toll_put_text("worker", role->worker == TOLL_THREAD ? "thread" : "process");
    toll_put_text("pace", paces[role->pace]);
    toll_put_close('}');
  }
  toll_put_close(']');
}

static void emit_build(void) {
  toll_record_open("build");
  toll_put_text("probe", toll_probe_name);
  toll_put_text("abi", toll_abi_name);
  toll_put_text("compiler", COMPILER);
  toll_put_text("flags", toll_build_flags);
  toll_record_close();
}

const char *toll_description_lacks(const struct toll_probe *probe) {
  if (!probe->body) return "no body: there is nothing to time";
  if (!probe->check) return "no check: a wrong answer must have no number";
  if (!probe->metrics || !probe->metrics->name) return "no metric: what its time is of is unknown";
  return NULL;
}

void toll_describe(const struct toll_probe *probe) {
  toll_record_open("probe");
  toll_put_count("protocol", TOLL_PROTOCOL);
  toll_put_text("probe", toll_probe_name);
  toll_put_integer("revision", probe->revision);
  toll_put_text("question", probe->question);
  toll_put_bool("control", probe->control != NULL);
  toll_put_bool("switches", probe->switches);
  toll_put_count("calls", probe->calls);
  toll_put_count("control_calls", probe->control_calls);
  toll_put_bool("faults", probe->faults);
  toll_put_bool("enters", probe->enters);
  toll_put_bool("spreads", probe->spreads);
  toll_put_bool("serves", probe->serves);
  toll_put_bool("pauses", probe->pauses);
  if (probe->library) toll_put_text("library", probe->library);
  put_metrics(probe);
  put_parameters(probe->parameters);
  put_roles(probe->roles);
  toll_record_close();
  emit_build();
  toll_emit_end(false, false, NULL);
}
