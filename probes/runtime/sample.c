/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples: the body over n and over 2n iterations, the control likewise, and a witness beside them.
 */
#include <stdlib.h>

#include "internal.h"

static uint64_t shortest(toll_batch *batch, void *context, uint64_t iterations, uint64_t enough_ns) {
  enum { TRIALS = 3 };
  uint64_t least = UINT64_MAX;
  for (int trial = 0; trial < TRIALS; trial++) {
    uint64_t took = batch(context, iterations);
    if (took < least) least = took;
    if (least > 4 * enough_ns) break; /* interrupted or not, a batch of one iteration will do */
  }
  return least ? least : 1;
}

/* Growth is bounded, since one interrupted trial would otherwise make a batch far too short or far too long: doubling
 * on a single trial was seen to stop at 2048 iterations once and at 8192 five times on the same code. */
uint64_t toll_calibrate(toll_batch *batch, void *context, uint64_t quantum, uint64_t target_ns, uint64_t deadline_ns) {
  enum { MOST_GROWTH = 16 };
  uint64_t started = toll_now_ns(), iterations = quantum, took;
  while ((took = shortest(batch, context, iterations, target_ns)) < target_ns / 2) {
    uint64_t growth = target_ns / took + 1;
    if (iterations > UINT64_MAX / (4 * MOST_GROWTH)) break;
    if (toll_now_ns() - started > deadline_ns) break;
    iterations *= growth < MOST_GROWTH ? growth : MOST_GROWTH;
  }
  double scale = (double)target_ns / (double)took;
  iterations = (uint64_t)((double)iterations * (scale < 2 ? scale : 2));
  iterations -= iterations % quantum;
  return iterations ? iterations : quantum;
}

static uint64_t body_batch(void *context, uint64_t iterations) {
  return toll_crew_batch(context, iterations, NULL);
}

struct sample {
  uint64_t index, iterations, body[2], control[2];
  bool controlled;
  unsigned lane_count;
  struct toll_lane *lanes;
};

/* n and 2n change places from sample to sample, so that a drift of the machine does not always lengthen the second. */
static void take(struct toll_run *r, struct sample *s) {
  for (unsigned turn = 0; turn < 2; turn++) {
    unsigned twice = (turn + s->index) & 1;
    uint64_t iterations = s->iterations << twice;
    s->body[twice] = toll_crew_batch(r, iterations, twice ? s->lanes : NULL);
    if (s->controlled) s->control[twice] = toll_timed(r, r->visit->probe->control, iterations);
  }
}

static void emit_pair(const char *key, const uint64_t pair[2]) {
  toll_put_open(key, '[');
  toll_put_count(NULL, pair[0]);
  toll_put_count(NULL, pair[1]);
  toll_put_close(']');
}

static void emit_sample(const struct sample *s) {
  toll_record_open("sample");
  toll_put_count("i", s->index);
  toll_put_count("iterations", s->iterations);
  emit_pair("body", s->body);
  if (s->controlled) emit_pair("control", s->control);
  if (s->lane_count) {
    toll_put_open("lanes", '[');
    for (unsigned i = 0; i < s->lane_count; i++) emit_pair(NULL, (uint64_t[]){s->lanes[i].iterations, s->lanes[i].ns});
    toll_put_close(']');
  }
  toll_record_close();
}

static double control_rate(void) {
  enum { BURST_NS = 20000 };
  struct toll_pace_reading reading = toll_control_measure(1, BURST_NS);
  return reading.ns ? (double)reading.adds * 1e9 / (double)reading.ns : 0;
}

void toll_sample_all(struct toll_run *r, struct toll_clock clock) {
  const struct toll_request *request = &r->visit->request;
  const double bound = clock.cost_ns > clock.resolution_ns ? clock.cost_ns : clock.resolution_ns;
  const uint64_t quantum = r->visit->probe->quantum ? r->visit->probe->quantum : 1;
  uint64_t target_ns = request->sample_ns > 1000 * bound ? request->sample_ns : (uint64_t)(1000 * bound);
  struct sample s = {.controlled = r->visit->probe->control != NULL, .lane_count = toll_crew_lanes()};
  s.lanes = calloc(s.lane_count + 1, sizeof *s.lanes);
  if (!s.lanes) {
    toll_fail(r, "no memory for %u lanes", s.lane_count);
    return;
  }
  s.iterations = toll_calibrate(body_batch, r, quantum, target_ns, request->deadline_ms * 1000000 / 4);
  for (s.index = 0; s.index < request->samples && !toll_stop_asked(); s.index++) {
    struct toll_witness before = toll_witness_read();
    take(r, &s);
    struct toll_witness after = toll_witness_read();
    emit_sample(&s);
    toll_emit_witness(s.index, &before, &after, control_rate());
  }
  free(s.lanes);
}
