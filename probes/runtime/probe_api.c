/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions by which a probe, and the lower layers of the runtime, query a visit and report to it.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static unsigned index_of(const struct toll_run *r, const char *parameter) {
  const struct toll_parameter *parameters = r->visit->probe->parameters;
  for (unsigned i = 0; parameters && parameters[i].name; i++)
    if (strcmp(parameters[i].name, parameter) == 0) return i;
  fprintf(stderr, "the probe asked for its parameter '%s', which it does not declare\n", parameter);
  _exit(1);
}

uint64_t toll_number(const struct toll_run *r, const char *parameter) {
  return r->visit->request.settings[index_of(r, parameter)].number;
}

unsigned toll_choice(const struct toll_run *r, const char *parameter) {
  return r->visit->request.settings[index_of(r, parameter)].choice;
}

double toll_left_s(const struct toll_run *r) {
  enum { DAY_S = 86400, MS_OF_S = 1000 };
  const uint64_t left_ms = r->visit->request.left_ms;
  return left_ms ? (double)left_ms / MS_OF_S : DAY_S;
}

const char *toll_folder(const struct toll_run *r) {
  return r->visit->request.folder;
}

const char *toll_peer(const struct toll_run *r) {
  return r->visit->request.peer;
}

void toll_report(struct toll_run *r, const char *metric, double value) {
  struct toll_visit *visit = r->visit;
  if (visit->gauge_count < TOLL_MOST_GAUGES) visit->gauges[visit->gauge_count++] = (struct toll_gauge){metric, value};
}

void toll_chose(struct toll_run *r, const char *parameter, const char *choice) {
  r->visit->chosen_parameter = parameter;
  r->visit->chosen = choice;
}

/* The first reason is kept: later ones are often its consequences. */
static enum toll_status settle(struct toll_run *r, enum toll_status status, const char *format, va_list arguments) {
  struct toll_visit *visit = r->visit;
  if (visit->status == TOLL_OK) {
    visit->status = status;
    vsnprintf(visit->reason, sizeof visit->reason, format, arguments);
  }
  return visit->status;
}

#define SETTLE(name, status)                                           \
  enum toll_status name(struct toll_run *r, const char *format, ...) { \
    va_list arguments;                                                 \
    va_start(arguments, format);                                       \
    enum toll_status settled = settle(r, status, format, arguments);   \
    va_end(arguments);                                                 \
    return settled;                                                    \
  }
SETTLE(toll_skip, TOLL_SKIPPED)
SETTLE(toll_wrong, TOLL_WRONG)
SETTLE(toll_fail, TOLL_FAILED)

enum toll_status toll_refused(const struct toll_run *r) {
  return r->visit->status;
}

static volatile sig_atomic_t stop_asked;

void toll_ask_to_stop(void) {
  stop_asked = 1;
}

bool toll_stop_asked(void) {
  return stop_asked;
}
