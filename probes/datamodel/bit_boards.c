/* SPDX-License-Identifier: Apache-2.0
 *
 * Chess positions as sets of squares in 64-bit integers: every position that can arise within a few moves is visited.
 *
 * Studies of pointer width found a program of this kind (crafty) 40 % faster with 64-bit registers: it consists of
 * shifts, and, or, lowest bit, bit count, and hardly any pointers. Moves of the sliding pieces are computed by shifts
 * in eight directions (Kogge and Stone's parallel prefix), so that there are no tables that could miss a cache. The
 * number of leaves from the initial position is known (20, 400, 8902, 197281), and any wrong move would change it.
 * Within four half-moves neither side can castle, promote or capture en passant, so these moves are left out.
 */
#include <string.h>

#include "toll.h"

typedef uint64_t squares; /* bit 0 is a1, bit 7 h1, bit 63 h8 */

enum piece { PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING, PIECES };
enum { DEEPEST = 4 };

struct position {
  squares of[2][PIECES];
  unsigned mover;
};
struct search {
  struct position start;
  unsigned depth;
  bool proved; /* the deepest search was made, and its result was right */
  uint64_t leaves, searches;
};

static const squares a_file = UINT64_C(0x0101010101010101), h_file = UINT64_C(0x8080808080808080);

/* ---- the eight directions ---- */

static inline squares shifted(squares set, int by) {
  return by > 0 ? set << by : set >> -by;
}

/* Squares on which a step in a direction may not end, since the step would have wrapped around the board's edge. */
static inline squares edge_of(int by) {
  const int file = (by + 8 + 1) % 8;
  return file == 2 ? a_file : file == 0 ? h_file : 0;
}

static inline squares step(squares set, int by) {
  return shifted(set, by) & ~edge_of(by);
}

/* Returns all squares in a direction, up to and including the first piece. */
static inline squares slide(squares from, squares empty, int by) {
  squares open = empty & ~edge_of(by);
  from |= open & shifted(from, by);
  open &= shifted(open, by);
  from |= open & shifted(from, 2 * by);
  open &= shifted(open, 2 * by);
  from |= open & shifted(from, 4 * by);
  return step(from, by);
}

static inline squares straight(squares from, squares empty) {
  return slide(from, empty, 8) | slide(from, empty, -8) | slide(from, empty, 1) | slide(from, empty, -1);
}

static inline squares diagonal(squares from, squares empty) {
  return slide(from, empty, 9) | slide(from, empty, -9) | slide(from, empty, 7) | slide(from, empty, -7);
}

static inline squares beside(squares set) {
  return step(set, 1) | step(set, -1);
}

static inline squares king_moves(squares from) {
  const squares row = from | beside(from);
  return (row | row << 8 | row >> 8) & ~from;
}

static inline squares knight_moves(squares from) {
  const squares one = beside(from), two = step(step(from, 1), 1) | step(step(from, -1), -1);
  return one << 16 | one >> 16 | two << 8 | two >> 8;
}

static inline squares pawn_attacks(squares from, unsigned side) {
  return beside(side ? from >> 8 : from << 8);
}

/* ---- positions ---- */

static squares all_of(const struct position *position, unsigned side) {
  const squares *of = position->of[side];
  return of[PAWN] | of[KNIGHT] | of[BISHOP] | of[ROOK] | of[QUEEN] | of[KING];
}

/* Returns the squares that a side attacks. */
static squares attacks(const struct position *position, unsigned side, squares empty) {
  const squares *of = position->of[side];
  return pawn_attacks(of[PAWN], side) | knight_moves(of[KNIGHT]) | king_moves(of[KING]) |
         straight(of[ROOK] | of[QUEEN], empty) | diagonal(of[BISHOP] | of[QUEEN], empty);
}

static bool is_attacked_king(const struct position *position, unsigned side) {
  const squares empty = ~(all_of(position, 0) | all_of(position, 1));
  return attacks(position, !side, empty) & position->of[side][KING];
}

static squares pawn_moves(squares from, unsigned side, squares empty, squares others) {
  const squares once = (side ? from >> 8 : from << 8) & empty;
  const squares third = side ? once & UINT64_C(0x0000ff0000000000) : once & UINT64_C(0x0000000000ff0000);
  const squares twice = (side ? third >> 8 : third << 8) & empty;
  return once | twice | (pawn_attacks(from, side) & others);
}

static squares moves_from(const struct position *position, unsigned piece, squares from, squares own, squares others) {
  const squares empty = ~(own | others);
  switch (piece) {
    case PAWN: return pawn_moves(from, position->mover, empty, others);
    case KNIGHT: return knight_moves(from) & ~own;
    case BISHOP: return diagonal(from, empty) & ~own;
    case ROOK: return straight(from, empty) & ~own;
    case QUEEN: return (straight(from, empty) | diagonal(from, empty)) & ~own;
    default: return king_moves(from) & ~own;
  }
}

static inline squares lowest(squares set) {
  return set & (0 - set);
}

/* Makes the position after a move; false if the move leaves its own king attacked. */
static bool move(const struct position *before, struct position *after, unsigned piece, squares from, squares to) {
  *after = *before;
  after->of[before->mover][piece] ^= from | to;
  for (unsigned taken = 0; taken < PIECES; taken++) after->of[!before->mover][taken] &= ~to;
  after->mover = !before->mover;
  return !is_attacked_king(after, before->mover);
}

static uint64_t count_leaves(const struct position *position, unsigned depth);

static uint64_t count_behind(const struct position *position, unsigned depth, unsigned piece, squares from,
                             squares to) {
  uint64_t leaves = 0;
  for (; to; to &= to - 1) {
    struct position next;
    if (move(position, &next, piece, from, lowest(to))) leaves += count_leaves(&next, depth - 1);
  }
  return leaves;
}

static uint64_t count_leaves(const struct position *position, unsigned depth) {
  if (depth == 0) return 1;
  const squares own = all_of(position, position->mover), others = all_of(position, !position->mover);
  uint64_t leaves = 0;
  for (unsigned piece = 0; piece < PIECES; piece++)
    for (squares set = position->of[position->mover][piece]; set; set &= set - 1) {
      const squares from = lowest(set);
      leaves += count_behind(position, depth, piece, from, moves_from(position, piece, from, own, others));
    }
  return leaves;
}

/* ---- the visit ---- */

static const struct position first_position = {
    .of = {{0xff00, 0x42, 0x24, 0x81, 0x08, 0x10},
           {UINT64_C(0xff) << 48, UINT64_C(0x42) << 56, UINT64_C(0x24) << 56, UINT64_C(0x81) << 56,
            UINT64_C(0x08) << 56, UINT64_C(0x10) << 56}}};
static const uint64_t known_leaves[DEEPEST + 1] = {1, 20, 400, 8902, 197281};

static enum toll_status prepare(struct toll_run *r) {
  struct search *search = r->state;
  search->start = first_position;
  search->depth = (unsigned)toll_number(r, "depth");
  if (search->depth > DEEPEST) return toll_skip(r, "only the first %d half-moves are played", DEEPEST);
  return TOLL_OK;
}

static void play(struct toll_run *r) {
  struct search *search = r->state;
  for (uint64_t i = r->iterations; i; i--) search->leaves += count_leaves(&search->start, search->depth);
  search->searches += r->iterations;
}

/* Checks the deepest search for every depth, since a shallow one contains hardly any piece that moves back. Once is
 * enough, before anything is timed, since its result depends on nothing that changes. */
static enum toll_status check(struct toll_run *r) {
  struct search *search = r->state;
  const uint64_t expected = known_leaves[search->depth];
  search->proved = search->proved || count_leaves(&search->start, DEEPEST) == known_leaves[DEEPEST];
  if (!search->proved) return toll_wrong(r, "the %dth half-move is not as it should be", DEEPEST);
  if (search->leaves == search->searches * expected) return TOLL_OK;
  return toll_wrong(r, "%.17g positions in a search, not %llu", (double)search->leaves / (double)search->searches,
                    (unsigned long long)expected);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->operations = (double)known_leaves[((const struct search *)r->state)->depth];
}

static const uint64_t depths[] = {2, 3, 4, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "depth", .kind = TOLL_COUNT, .summary = "half-moves played", .values = depths, .typical = "3"}, {0}};
static const struct toll_metric metrics[] = {{.name = "position",
                                              .unit = "ns",
                                              .summary = "one position reached at the last half-move",
                                              .means = "wide-integers",
                                              .toll = "chess move generation on 64-bit bitboards"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a program of 64-bit integers lose to narrow registers?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct search),
    .prepare = prepare,
    .body = play,
    .check = check,
    .work = work,
    .accounts = true,
    .revision = 2,
};
