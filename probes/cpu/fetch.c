/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a core gets instructions, by how much code it runs through again and again. Code that is straight is fetched
 * ahead: what ends at each cache is the bandwidth.
 *
 * `moves` are 16 instructions of 4 bytes in each line, from one register to another, which a core executes without a unit
 * or with any of them. As long as the cache of decoded instructions holds them, where a core has one, they are executed
 * as fast as they can be renamed; behind it the decoders set the pace. No nops: some cores join two of them (Zen 4
 * executes 11.6 nops of 2 bytes in a cycle), so that their number is not that of entries. `nops`, of 8 bytes, need little
 * of the decoders, and the caches of bytes show.
 *
 * `jumps` goes from line to line in a random order, one line after the other: nothing can be prefetched, and as soon as
 * the branch predictor no longer holds all targets, each step waits for its line (Zen 4: 8192 jumps, 512 KiB).
 *
 * Each line of 64 bytes counts itself, and is filled up. Pages are huge where the system gives them.
 */
#include "code.h"

enum { LINE = 64, NOP_BYTES = 8 };
enum { MOVES, NOPS, JUMPS };

static enum toll_status write_straight(struct toll_run *r, struct code_chain *j, uint64_t lines, bool moves) {
  if (code_open(r, &j->code, (size_t)lines * LINE + 2 * LINE, true) != TOLL_OK) return toll_refused(r);
  struct code *c = &j->code;
  j->run.blocks = lines;
  j->run.entry = (code_entry)(uintptr_t)c->base;
  code_begin(c);
  code_fill(c, c->base + LINE, CODE_NOP);
  for (uint64_t i = 0; i < lines; i++) {
    code_count(c, i);
    const uint8_t *end = c->base + (i + 2) * LINE;
    if (!moves) code_fill(c, end, NOP_BYTES);
    while (c->at < end) code_move(c);
  }
  code_end(c, c->base + LINE);
  return code_seal(r, c);
}

static enum toll_status prepare(struct toll_run *r) {
  const uint64_t lines = toll_number(r, "size") / LINE;
  const unsigned code = toll_choice(r, "code");
  if (!lines) return toll_fail(r, "the size holds no line of code");
  if (code == JUMPS) return code_write_chain(r, r->state, lines, LINE, true, true);
  return write_straight(r, r->state, lines, code == MOVES);
}

static void run(struct toll_run *r) {
  code_run(&((struct code_chain *)r->state)->run, r->iterations, NULL);
}

static enum toll_status check(struct toll_run *r) {
  const struct code_chain *j = r->state;
  return j->first ? code_check_chain(r, j) : code_check(r, &j->run);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = (double)((const struct code_chain *)r->state)->run.blocks;
  work->bytes = work->operations * LINE;
}

static const char *const codes[] = {"moves", "nops", "jumps", NULL};
static const struct toll_parameter parameters[] = {{.name = "size",
                                                    .kind = TOLL_SIZE,
                                                    .summary = "bytes of code",
                                                    .from = 2048,
                                                    .to = 64 << 20,
                                                    .per_octave = 16,
                                                    .typical = "4096",
                                                    .refine = true},
                                                   {.name = "code",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "moves of 4 bytes, nops of 8, or a jump in each line",
                                                    .choices = codes,
                                                    .typical = "nops"},
                                                   {0}};
static const struct toll_metric metrics[] = {
    {.name = "line", .unit = "ns", .summary = "64 bytes of code"},
    {.name = "cycles", .unit = "cycle", .summary = "64 bytes of code", .means = "code-of-size"},
    {.name = "bandwidth", .unit = "B/s", .better = TOLL_MORE, .summary = "code executed a second"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "How fast does a core get its instructions, by the size of the code?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct code_chain),
    .prepare = prepare,
    .body = run,
    .check = check,
    .work = work,
    .revision = 1,
};
