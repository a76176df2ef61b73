/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of taken jumps that the branch predictor holds. A chain of jumps, each to the next block, is executed
 * repeatedly: while the branch target buffer holds all of them, the core knows each target before it has fetched the
 * jump. Beyond its capacity a jump waits until the next buffer, or the decoder, provides its target.
 *
 * Spacing decides what else ends. At 16 bytes several jumps share a line, and few bytes hold many: the branch target
 * buffer ends long before the instruction cache. At 64 bytes each jump has its own line. A core may keep fewer jumps of one
 * line than it has entries, so the size of a buffer is the most that any spacing shows.
 *
 * The order is forward. In a random one a core that prefetches the next line would not help, and the cache's latency
 * would be part of the answer; cpu.fetch asks for that. Pages are huge where the system gives them.
 */
#include "code.h"

static enum toll_status prepare(struct toll_run *r) {
  return code_write_chain(r, r->state, toll_number(r, "jumps"), (size_t)toll_number(r, "spacing"), false, true);
}

static void jump(struct toll_run *r) {
  code_run(&((struct code_chain *)r->state)->run, r->iterations, NULL);
}

static enum toll_status check(struct toll_run *r) {
  return code_check_chain(r, r->state);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = (double)((const struct code_chain *)r->state)->run.blocks;
}

static const uint64_t spacings[] = {16, 32, 64, TOLL_END};
static const struct toll_parameter parameters[] = {{.name = "jumps",
                                                    .kind = TOLL_COUNT,
                                                    .summary = "jumps in the chain",
                                                    .from = 64,
                                                    .to = 32768,
                                                    .per_octave = 16,
                                                    .typical = "64",
                                                    .refine = true},
                                                   {.name = "spacing",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes from one jump to the next",
                                                    .values = spacings,
                                                    .typical = "32"},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "jump", .unit = "ns", .summary = "one taken jump to the next block", .toll = "take a jump"},
    {.name = "cycles", .unit = "cycle", .summary = "one taken jump to the next block", .means = "jump-of-chain"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How many taken jumps does the branch predictor remember, and what does one beyond them cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct code_chain),
    .prepare = prepare,
    .body = jump,
    .check = check,
    .work = work,
    .revision = 1,
};
