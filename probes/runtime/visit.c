/* SPDX-License-Identifier: Apache-2.0
 *
 * One visit: prepares, checks, samples, checks again, and emits the records.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "internal.h"

/* ---- signals ---- */

static void on_stop(int signal_number) {
  (void)signal_number;
  toll_ask_to_stop();
}

static void on_deadline(int signal_number) {
  (void)signal_number;
  toll_emit_flush();
  _exit(TOLL_EXIT_DEADLINE);
}

static void watch(uint64_t deadline_ms) {
  struct sigaction stop = {0}, deadline = {0};
  struct itimerval timer = {{0, 0}, {(time_t)(deadline_ms / 1000), (suseconds_t)(deadline_ms % 1000 * 1000)}};
  stop.sa_handler = on_stop;
  stop.sa_flags = SA_RESTART; /* a body that sleeps in the kernel sleeps until its batch ends */
  deadline.sa_handler = on_deadline;
  sigaction(SIGINT, &stop, NULL);
  sigaction(SIGTERM, &stop, NULL);
  sigaction(SIGALRM, &deadline, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- records ---- */

static void emit_parameters(const struct toll_visit *visit) {
  toll_put_open("parameters", '{');
  for (unsigned i = 0; i < toll_parameter_count(visit->probe); i++) {
    const struct toll_parameter *parameter = &visit->probe->parameters[i];
    const struct toll_setting *setting = &visit->request.settings[i];
    if (parameter->kind == TOLL_CHOICE)
      toll_put_text(parameter->name, parameter->choices[setting->choice]);
    else
      toll_put_count(parameter->name, setting->number);
  }
  if (visit->request.relation[0]) toll_put_text("relation", visit->request.relation);
  toll_put_close('}');
  if (!visit->chosen) return;
  toll_put_open("chosen", '{');
  toll_put_text(visit->chosen_parameter, visit->chosen);
  toll_put_close('}');
}

static struct toll_work work_of(const struct toll_run *r) {
  struct toll_work work = {0, 0, 0, 0, 0};
  if (r->visit->status == TOLL_OK && r->visit->probe->work) r->visit->probe->work(r, &work);
  if (work.operations <= 0) work.operations = 1;
  return work;
}

static void emit_work(const struct toll_run *r) {
  const struct toll_work work = work_of(r);
  toll_put_open("work", '{');
  toll_put_real("bytes", work.bytes);
  toll_put_real("flops", work.flops);
  toll_put_real("bus_bytes", work.bus_bytes > 0 ? work.bus_bytes : work.bytes);
  toll_put_real("operations", work.operations);
  toll_put_real("footprint_bytes", work.footprint_bytes);
  toll_put_close('}');
}

static void emit_visit(const struct toll_run *r) {
  const struct toll_request *request = &r->visit->request;
  toll_record_open("visit");
  toll_put_count("visit", request->visit);
  toll_put_count("round", request->round);
  toll_put_text("probe", toll_probe_name);
  toll_put_integer("revision", r->visit->probe->revision);
  toll_put_text("abi", toll_abi_name);
  toll_put_text("target", request->target);
  emit_parameters(r->visit);
  toll_put_open("cpus", '[');
  for (unsigned i = 0; i < r->cpu_count; i++) toll_put_integer(NULL, r->cpus[i]);
  toll_put_close(']');
  toll_crew_put_cpus();
  toll_put_count("seed", request->seed);
  toll_put_count("samples", request->samples);
  toll_put_count("sample_ns", request->sample_ns);
  toll_put_count("at_ns",
                 toll_counts_instructions() ? 0 : toll_now_ns()); /* a count of instructions is no time of day */
  toll_put_bool("pinned", r->visit->pinned);
  toll_put_text("priority", r->visit->real_time ? "real-time" : "normal");
  emit_work(r);
  toll_record_close();
}

static void emit_gauges(const struct toll_visit *visit) {
  for (unsigned i = 0; i < visit->gauge_count; i++) {
    toll_record_open("gauge");
    toll_put_text("metric", visit->gauges[i].metric);
    toll_put_real("value", visit->gauges[i].value);
    toll_record_close();
  }
}

static void emit_trouble(const struct toll_visit *visit) {
  if (visit->status == TOLL_OK) return;
  bool skipped = visit->status == TOLL_SKIPPED;
  toll_record_open(skipped ? "skip" : "fail");
  if (!skipped) toll_put_text("status", visit->status == TOLL_WRONG ? "wrong_answer" : "failed");
  toll_put_text("reason", visit->reason);
  toll_record_close();
}

/* Time of the visit that is no part of its cost: it is spent once, or while another program uses the core. */
static void emit_aside(const struct toll_visit *visit) {
  const uint64_t waited_ns = toll_core_waited_ns();
  if (!waited_ns && !visit->counted_ns) return;
  toll_record_open("aside");
  toll_put_count("waited_ns", waited_ns);
  toll_put_count("counted_ns", visit->counted_ns);
  toll_record_close();
}

static void emit_end(bool stopped, bool stays) {
  const double served_share = toll_is_served() ? toll_served_share() : 0;
  toll_emit_end(stopped, stays, toll_is_served() ? &served_share : NULL);
}

/* ---- the visit ---- */

/* Pinning may be refused (a sandbox, an offline CPU). The visit continues, and its evidence shows any migration. */
static void choose_cpus(struct toll_run *r) {
  struct toll_request *request = &r->visit->request;
  if (!request->cpu_count) request->cpu_count = toll_allowed_cpus(request->cpus, TOLL_MOST_CPUS);
  r->cpus = request->cpus;
  r->cpu_count = request->cpu_count ? request->cpu_count : 1;
  r->visit->pinned = request->cpu_count && toll_pin(request->ahead ? request->ahead_cpu : request->cpus[0]);
}

static enum toll_status make_state(struct toll_run *r) {
  size_t bytes = r->visit->probe->state_bytes;
  if (!bytes) return TOLL_OK;
  r->state = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (r->state == MAP_FAILED) return toll_fail(r, "no memory for the probe's state: %s", strerror(errno));
  memset(r->state, 0, bytes);
  return TOLL_OK;
}

static enum toll_status check(struct toll_run *r) {
  if (toll_timer_was_paused() && !r->visit->probe->pauses)
    return toll_wrong(r, "part of its work is not timed, and the probe does not declare that it pauses");
  return r->visit->probe->check ? r->visit->probe->check(r) : TOLL_OK;
}

/* The shortest possible batch runs first, so that there is a result to check before anything is timed. */
static void prove(struct toll_run *r) {
  uint64_t quantum = r->visit->probe->quantum;
  r->visit->proof_ns = toll_crew_batch(r, quantum ? quantum : 1, NULL);
  toll_account_begin();
  if (r->visit->probe->control) {
    r->iterations = quantum ? quantum : 1;
    r->visit->probe->control(r);
  }
  check(r);
}

static void measure(struct toll_run *r, struct toll_clock clock) {
  enum { TRIALS = 3, TRIAL_NS = 20000 };
  if (!r->visit->proved) prove(r); /* the final check of the last visit is the initial check of this one */
  r->visit->proved = true;
  if (r->visit->status != TOLL_OK || toll_crew_placed(r) != TOLL_OK) return;
  if (toll_marks_open(r) != TOLL_OK) return;
  toll_emit_control("before", toll_control_measure(TRIALS, TRIAL_NS));
  const bool is_first = !r->visit->request.iterations && toll_clock_is_real(); /* the first visit of a point */
  if (!toll_profile_take(r)) toll_sample_all(r, clock);
  const uint64_t began = toll_now_ns();
  if (is_first && r->visit->status == TOLL_OK && r->visit->sampled && !toll_stop_asked()) {
    toll_count(r);
    const uint64_t ended = toll_now_ns();
    r->visit->counted_ns = ended > began ? ended - began : 0; /* a clock may be set back */
  }
  toll_emit_control("after", toll_control_measure(TRIALS, TRIAL_NS));
  check(r);
}

static enum toll_status prepare(struct toll_run *r) {
  choose_cpus(r);
  if (make_state(r) == TOLL_OK && r->visit->probe->prepare) r->visit->probe->prepare(r);
  toll_witness_open(r->cpus, r->cpu_count); /* after the preparation, since a probe may move to another CPU */
  return r->visit->status;
}

/* Gauges of companions are complete only once the companions have ended; then the process can serve no further
 * visit. */
static bool ends_companions(const struct toll_probe *probe) {
  return probe->roles && probe->finish;
}

static bool can_stay(const struct toll_probe *probe) {
  return !ends_companions(probe) && !probe->once;
}

static void finish(struct toll_run *r) {
  if (r->visit->status != TOLL_OK) return;
  if (ends_companions(r->visit->probe)) toll_crew_stop(r);
  if (r->visit->probe->finish) r->visit->probe->finish(r);
  if (r->visit->probe->accounts) toll_account_report(r, work_of(r).operations);
  emit_gauges(r->visit);
}

/* One visit of a prepared layout. stays: whether the process waits for another visit. */
static void visit_once(struct toll_run *r, bool stays) {
  struct toll_visit *visit = r->visit;
  visit->real_time =
      visit->status == TOLL_OK && toll_priority_raise(visit->probe, &visit->request, toll_crew_is_spread());
  if (visit->status == TOLL_OK) toll_core_choose(r);
  emit_visit(r);
  struct toll_clock clock = toll_clock_measure();
  toll_emit_clock(clock); /* a skipped visit records its CPUs too */
  if (visit->status == TOLL_OK) measure(r, clock);
  if (visit->real_time) toll_priority_drop();
  finish(r);
  emit_trouble(visit);
  emit_aside(visit);
  const bool stopped = toll_stop_asked();
  emit_end(stopped, stays && visit->status == TOLL_OK && !stopped);
}

/* Copies what a further visit may change: its number, length and deadline. Its CPUs stay as prepared, or as the probe
 * has changed them. */
static void begin_again(struct toll_run *r, const struct toll_request *request) {
  static struct toll_request before;
  struct toll_request *now = &r->visit->request;
  before = *now;
  *now = *request;
  memcpy(now->cpus, before.cpus, sizeof now->cpus);
  now->cpu_count = before.cpu_count;
  r->visit->gauge_count = 0;
  r->visit->counted_ns = 0;
  watch(request->deadline_ms);
}

/* Pre-stages a layout while another process is timed, including its check, which may take longer than the preparation.
 * Companions run on CPUs of their own, so they and a check that needs them are left to the visit. */
static bool is_ready_ahead(struct toll_run *r, bool stays) {
  if (!stays || r->visit->status != TOLL_OK) return false;
  if (r->visit->probe->roles) return true;
  if (toll_crew_start(r) != TOLL_OK) return false;
  prove(r);
  r->visit->proved = true;
  return r->visit->status == TOLL_OK;
}

/* A pre-staged process reports that it waits, and starts its visit on request, on the visit's CPUs. If the preparation
 * failed, the process ends here, and its visit finds the reason again. */
static bool is_taken_up(struct toll_run *r, const struct toll_request *first, toll_next_visit *next) {
  static struct toll_request asked;
  const bool ready = is_ready_ahead(r, next && can_stay(r->visit->probe));
  emit_end(false, ready);
  watch(0);
  if (!ready || !next(r->visit->probe, &asked) || !toll_request_same_layout(first, &asked)) return false;
  begin_again(r, &asked);
  r->visit->pinned = toll_pin(r->cpus[0]);
  if (r->visit->probe->roles) toll_crew_start(r);
  return true;
}

void toll_visits_serve(const struct toll_probe *probe, const struct toll_request *first, toll_next_visit *next) {
  static struct toll_visit visit;
  static struct toll_request request;
  visit = (struct toll_visit){.probe = probe, .request = *first};
  struct toll_run run = {.seed = first->seed, .workers = 1, .visit = &visit};
  const bool stays = next && can_stay(probe);
  watch(first->deadline_ms);
  prepare(&run);
  if (!first->ahead && visit.status == TOLL_OK) toll_crew_start(&run);
  if (first->ahead && !is_taken_up(&run, first, next)) return;
  visit_once(&run, stays);
  while (stays && visit.status == TOLL_OK && !toll_stop_asked()) {
    watch(0);
    request = *first;
    if (!next(probe, &request) || !toll_request_same_layout(first, &request)) break;
    begin_again(&run, &request);
    visit_once(&run, stays);
  }
  watch(0);
  if (visit.status == TOLL_OK) toll_crew_stop(&run);
}

void toll_visit_make(const struct toll_probe *probe, const struct toll_request *request) {
  toll_visits_serve(probe, request, NULL);
}
