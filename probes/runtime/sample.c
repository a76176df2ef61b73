/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples: the body over n and over 2n iterations, the control likewise, and a witness beside them.
 */
#include <stdlib.h>

#include "internal.h"

/* ---- how many iterations ---- */

static uint64_t shortest(toll_batch *batch, void *context, uint64_t iterations, uint64_t enough_ns) {
  enum { TRIALS = 3 };
  uint64_t least = UINT64_MAX;
  for (int trial = 0; trial < TRIALS; trial++) {
    uint64_t took = batch(context, iterations);
    if (took < least) least = took;
    if (least > 4 * enough_ns) break; /* a batch of one iteration is enough, interrupted or not */
  }
  return least ? least : 1;
}

/* The time of n iterations without the fixed cost of a batch: the wake-up of companions would otherwise count as
 * work. */
static uint64_t growth(toll_batch *batch, void *context, uint64_t iterations, uint64_t enough_ns) {
  uint64_t once = shortest(batch, context, iterations, enough_ns);
  if (once > 4 * enough_ns) return once;
  uint64_t twice = shortest(batch, context, 2 * iterations, enough_ns);
  return twice > once ? twice - once : 1;
}

/* Growth is bounded, since one interrupted trial would otherwise make a batch far too short or far too long. Doubling
 * on a single trial stopped at 2048 iterations once and at 8192 five times on the same code. */
static uint64_t calibrate(toll_batch *batch, void *context, uint64_t quantum, uint64_t target_ns,
                          uint64_t deadline_ns) {
  enum { MOST_GROWTH = 16 };
  uint64_t started = toll_now_ns(), iterations = quantum, took;
  while ((took = growth(batch, context, iterations, target_ns)) < target_ns / 2) {
    uint64_t factor = target_ns / took + 1;
    if (iterations > UINT64_MAX / (4 * MOST_GROWTH)) break;
    if (toll_now_ns() - started > deadline_ns) break;
    iterations *= factor < MOST_GROWTH ? factor : MOST_GROWTH;
  }
  double scale = (double)target_ns / (double)took;
  iterations = (uint64_t)((double)iterations * (scale < 2 ? scale : 2));
  iterations -= iterations % quantum;
  return iterations ? iterations : quantum;
}

/* A body that is slow at first (untouched pages, cold code) seems to need few iterations. A disturbance can only
 * lengthen a batch, so a batch that takes too little time has too few iterations. */
uint64_t toll_calibrate(toll_batch *batch, void *context, uint64_t quantum, uint64_t target_ns, uint64_t deadline_ns) {
  enum { MOST_TRIES = 4 };
  uint64_t found = calibrate(batch, context, quantum, target_ns, deadline_ns);
  for (int tries = 0; tries < MOST_TRIES; tries++) {
    uint64_t once = batch(context, found);
    if (once >= target_ns / 2) return found;
    found = calibrate(batch, context, found, target_ns, deadline_ns);
  }
  return found;
}

/* The number of an earlier visit, if its batch still has about the wanted length. The first batch may take several
 * times as long, by a disturbance or because other programs used the caches since the layout's last visit. It takes
 * much less only if the number is wrong. */
static uint64_t settled_on(toll_batch *batch, void *context, uint64_t known, uint64_t target_ns, uint64_t quantum) {
  enum { TRIALS = 3 };
  if (!known || known % quantum) return 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    uint64_t took = batch(context, known);
    if (took <= target_ns / 4) return 0;
    if (took < 4 * target_ns || known == quantum) return known;
  }
  return 0;
}

static uint64_t body_batch(void *context, uint64_t iterations) {
  return toll_crew_batch(context, iterations, NULL);
}

static uint64_t control_batch(void *context, uint64_t iterations) {
  struct toll_run *r = context;
  return toll_timed(r, r->visit->probe->control, iterations);
}

static uint64_t iterations_of(struct toll_run *r, toll_batch *batch, uint64_t known, uint64_t target_ns) {
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  uint64_t kept = settled_on(batch, r, known, target_ns, quantum);
  return kept ? kept : toll_calibrate(batch, r, quantum, target_ns, r->visit->request.deadline_ms * 1000000 / 4);
}

/* ---- one sample ---- */

struct times {
  uint64_t iterations, ns[2], counts[2][TOLL_MOST_COUNTED];
};
enum { MOST_MARKS = 8 };
struct sample {
  uint64_t index, at_ns, first_mark, marked_ns[MOST_MARKS];
  unsigned mark_count;
  struct times body, control;
  double width_between_hz;
  bool controlled, counted; /* counted: all of its events were counted for the whole time */
  unsigned lane_count;
  struct toll_lane *lanes;
};

/* The code that ran last (the evidence, the other body) has left its data in the caches and branch predictors. So a
 * part of a batch runs untimed first. */
static void warm(struct toll_run *r, toll_batch *batch, uint64_t iterations) {
  enum { SHARE = 8 };
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  uint64_t some = iterations / SHARE - iterations / SHARE % quantum;
  if (some) batch(r, some);
}

static void mark(struct sample *s) {
  s->marked_ns[s->mark_count++] = toll_mark();
}

/* A batch with its events: they are read on both sides of it, outside of its time. */
static void run_batch(struct times *times, unsigned twice, struct toll_run *r, toll_batch *batch,
                      struct toll_lane *lanes) {
  uint64_t before[TOLL_MOST_COUNTED] = {0}, after[TOLL_MOST_COUNTED] = {0};
  toll_counters_read(before);
  times->ns[twice] =
      lanes ? toll_crew_batch(r, times->iterations << twice, lanes) : batch(r, times->iterations << twice);
  toll_counters_read(after);
  for (unsigned i = 0; i < TOLL_MOST_COUNTED; i++) times->counts[twice][i] = after[i] - before[i];
}

/* n and 2n change their order from sample to sample, so that drift does not always lengthen the second. The width loop
 * runs once more between the two, since a sibling's workload may start and stop within a millisecond. It uses registers
 * only, and does not disturb the caches. Marks are sent outside of the timed batches. */
static void take(struct toll_run *r, struct sample *s) {
  const bool accounts = r->visit->probe->accounts;
  s->first_mark = toll_marks_made();
  s->mark_count = 0;
  mark(s);
  mark(s); /* after an empty test: the time between two marks without a batch */
  toll_marks_let_pass(r);
  warm(r, body_batch, s->body.iterations);
  const struct toll_account before = accounts ? toll_account_read() : (struct toll_account){0, 0, 0};
  mark(s);
  for (unsigned turn = 0; turn < 2; turn++) {
    unsigned twice = (turn + s->index) & 1;
    if (turn && !s->controlled) s->width_between_hz = toll_width_measure();
    const uint64_t cpu_ns = accounts ? toll_account_cpu_ns() : 0;
    const struct toll_served served = toll_served_read();
    run_batch(&s->body, twice, r, body_batch, twice ? s->lanes : NULL);
    toll_served_add(served, s->body.ns[twice]);
    if (accounts) toll_account_batch(cpu_ns);
    mark(s);
  }
  if (accounts) toll_account_body(&before, 3 * s->body.iterations);
  if (!s->controlled) return;
  s->width_between_hz = toll_width_measure();
  warm(r, control_batch, s->control.iterations);
  mark(s);
  for (unsigned turn = 0; turn < 2; turn++) {
    unsigned twice = (turn + s->index) & 1;
    const struct toll_served served = toll_served_read();
    run_batch(&s->control, twice, r, control_batch, NULL);
    toll_served_add(served, s->control.ns[twice]);
    mark(s);
  }
}

static void emit_pair(const char *key, const uint64_t pair[2]) {
  toll_put_open(key, '[');
  toll_put_count(NULL, pair[0]);
  toll_put_count(NULL, pair[1]);
  toll_put_close(']');
}

static void emit_counts(const char *key, const struct times *times) {
  toll_put_open(key, '[');
  for (unsigned i = 0; i < toll_counters_many(); i++)
    emit_pair(NULL, (uint64_t[]){times->counts[0][i], times->counts[1][i]});
  toll_put_close(']');
}

static void emit_marks(const struct sample *s) {
  toll_put_count("mark", s->first_mark);
  toll_put_open("marked", '[');
  for (unsigned i = 0; i < s->mark_count; i++) toll_put_count(NULL, s->marked_ns[i]);
  toll_put_close(']');
}

static void emit_sample(const struct sample *s) {
  toll_record_open("sample");
  toll_put_count("i", s->index);
  toll_put_count("at_ns", toll_counts_instructions() ? 0 : s->at_ns);
  toll_put_count("iterations", s->body.iterations);
  emit_pair("body", s->body.ns);
  if (s->controlled) {
    toll_put_count("control_iterations", s->control.iterations);
    emit_pair("control", s->control.ns);
  }
  if (s->counted) emit_counts("counts", &s->body);
  if (s->counted && s->controlled) emit_counts("control_counts", &s->control);
  if (toll_marks_are_on()) emit_marks(s);
  if (s->lane_count) {
    toll_put_open("lanes", '[');
    for (unsigned i = 0; i < s->lane_count; i++) emit_pair(NULL, (uint64_t[]){s->lanes[i].iterations, s->lanes[i].ns});
    toll_put_close(']');
  }
  toll_record_close();
}

/* ---- all samples ---- */

/* A first iteration of a second or more is longer than any sample and needs no trial (a program that fills a
 * gigabyte). */
static uint64_t body_iterations(struct toll_run *r, uint64_t target_ns) {
  enum { VERY_LONG_NS = 1000000000 };
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  return r->visit->proof_ns > VERY_LONG_NS ? quantum
                                           : iterations_of(r, body_batch, r->visit->request.iterations, target_ns);
}

/* The first visit of a point takes about a hundred batches and must end in time: with a clock of 10 ms, batches are
 * shorter than its steps would require. */
static void calibrate_both(struct toll_run *r, struct sample *s, struct toll_clock clock) {
  enum { LEAST_READINGS = 2000, MOST_BATCHES = 128, NS_OF_MS = 1000000 };
  const struct toll_request *request = &r->visit->request;
  const double bound = clock.cost_ns > clock.resolution_ns ? clock.cost_ns : clock.resolution_ns;
  const double careful_ns = LEAST_READINGS * bound; /* half a batch has half of them */
  const double most_ns = (double)request->deadline_ms * NS_OF_MS / MOST_BATCHES;
  const double least_ns = careful_ns < most_ns ? careful_ns : most_ns;
  uint64_t target_ns = request->sample_ns > least_ns ? request->sample_ns : (uint64_t)least_ns;
  s->body.iterations = body_iterations(r, target_ns);
  if (!s->controlled) return;
  s->control.iterations = r->visit->probe->alike
                              ? s->body.iterations
                              : iterations_of(r, control_batch, request->control_iterations, target_ns);
}

/* No core runs a thousand iterations of a loop in a nanosecond. */
static bool takes_time(struct toll_run *r, const struct times *found) {
  const uint64_t most = 1ull << 40;
  if (found->iterations < most) return true;
  toll_fail(r, "%llu iterations take no more time than a few: its loop was deleted, or does not do what it is asked",
            (unsigned long long)found->iterations);
  return false;
}

/* Twice the requested time of all samples, of all workers that are timed one after another. One iteration, or its untimed part, may take longer. Such a point gets fewer
 * samples per visit. */
static uint64_t enough_ns(const struct toll_run *r, const struct sample *s) {
  enum { BATCHES = 4, TWICE = 2, BESIDE_NS = 500000 };
  uint64_t timed_ns = r->visit->request.sample_ns * BATCHES * (s->controlled ? 2 : 1);
  return r->visit->request.samples * TWICE * (timed_ns * toll_crew_turns() + BESIDE_NS);
}

static struct toll_look look(void) {
  struct toll_look seen = {.witness = toll_witness_read()};
  seen.burst = toll_burst_measure();
  return seen;
}

/* The n of a sample. One pair of samples in four uses half of it: three lengths show whether a cost is linear; with
 * two, a fixed cost cannot be distinguished from a nonlinear one. The first sample always uses the full n, which later
 * visits reuse. */
static uint64_t length_of(uint64_t n, uint64_t quantum, uint64_t index) {
  enum { HALVED_IN = 4 };
  const uint64_t half = n / 2 - n / 2 % quantum;
  return half && index / 2 % HALVED_IN == 1 ? half : n;
}

static void set_lengths(struct toll_run *r, struct sample *s, const struct sample *found) {
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  s->body.iterations = length_of(found->body.iterations, quantum, s->index);
  s->control.iterations = length_of(found->control.iterations, quantum, s->index);
}

/* A negative time: CLOCK_MONOTONIC_RAW must not go backwards, but that of an incomplete kernel may. */
static bool clock_went_back(const struct sample *s) {
  bool any = false;
  for (unsigned i = 0; i < 2; i++) any |= s->body.ns[i] > INT64_MAX || (s->controlled && s->control.ns[i] > INT64_MAX);
  return any;
}

/* Counts of the samples so far. */
struct tally {
  uint64_t whole, contended;
};

static void count(const struct toll_run *r, const struct sample *s, const struct toll_look *before,
                  const struct toll_look *after, struct tally *tally) {
  const struct toll_burst between = {after->burst.chain_hz, s->width_between_hz};
  const bool is_whole = toll_core_is_whole(r, before->burst) && toll_core_is_whole(r, after->burst) &&
                        (!s->width_between_hz || toll_core_is_whole(r, between));
  tally->whole += is_whole;
  tally->contended += !is_whole;
}

/* Beside a busy sibling half of the samples suffice, if the core was uncontended throughout: a visit's median of 8 has
 * a variance 1.3 times that of 16, and so short a spell is twice as frequent. */
static bool has_enough(const struct toll_run *r, const struct tally *tally, bool even) {
  enum { LEAST = 4 };
  const uint64_t asked = r->visit->request.samples, half = asked / 2 > LEAST ? asked / 2 : LEAST;
  if (tally->whole >= asked || tally->whole + tally->contended >= 2 * asked) return true;
  return even && tally->contended && tally->whole >= half;
}

/* A few contended samples show the cost on a contended core; then the visit waits. Programs that ran meanwhile have
 * filled the caches, so a batch runs untimed first. False if the core stays contended: the visit ends. */
static bool may_go_on(struct toll_run *r, uint64_t iterations, const struct tally *tally, struct toll_look *before) {
  enum { FEW = 4 };
  if (tally->contended < FEW || toll_core_is_whole(r, before->burst)) return true;
  if (!toll_core_await(r, before->burst)) return false;
  body_batch(r, iterations);
  *before = look();
  return true;
}

/* The number of samples is even, so that n and 2n come first equally often, unless one sample takes many seconds. The
 * control and width loops after a sample also serve as those before the next. */
static void take_all(struct toll_run *r, struct sample *s) {
  enum { MOST_SECONDS = 10 };
  const struct sample found = *s;
  const uint64_t began = toll_now_ns(), enough = enough_ns(r, s);
  struct tally tally = {0, 0};
  struct toll_look before = look();
  for (s->index = 0; !toll_stop_asked(); s->index++) {
    const bool even = s->index % 2 == 0 || toll_now_ns() - began > (uint64_t)MOST_SECONDS * 1000000000;
    if (has_enough(r, &tally, even)) break;
    if (even && !may_go_on(r, found.body.iterations, &tally, &before)) break;
    s->at_ns = toll_now_ns();
    if (s->index && even && toll_clock_is_real() && s->at_ns - began - toll_core_waited_ns() > enough) break;
    set_lengths(r, s, &found);
    take(r, s);
    s->counted = toll_counters_many() && toll_counters_were_whole();
    if (clock_went_back(s)) {
      toll_fail(r, "the clock went back while a sample was taken");
      return;
    }
    struct toll_look after = look();
    emit_sample(s);
    toll_emit_witness(s->index, &before, &after, s->width_between_hz);
    count(r, s, &before, &after, &tally);
    before = after;
  }
}

void toll_sample_all(struct toll_run *r, struct toll_clock clock) {
  struct sample s = {.controlled = r->visit->probe->control != NULL, .lane_count = toll_crew_lanes()};
  s.lanes = calloc(s.lane_count + 1, sizeof *s.lanes);
  if (!s.lanes) {
    toll_fail(r, "no memory for %u lanes", s.lane_count);
    return;
  }
  calibrate_both(r, &s, clock);
  r->visit->sampled = s.body.iterations;
  toll_counters_open(r);
  toll_counters_emit();
  if (takes_time(r, &s.body) && (!s.controlled || takes_time(r, &s.control))) take_all(r, &s);
  toll_counters_close();
  free(s.lanes);
}
