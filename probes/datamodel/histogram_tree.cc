/* SPDX-License-Identifier: Apache-2.0
 *
 * A sparse histogram kept as a tree of bins: filled, merged with another one, and walked in order.
 *
 * That is how analysis programs keep distributions whose range is not known before, and how the maps of the standard
 * library are made: a bin is two pointers, a key and a count. Filling follows one path from the root, and each step
 * waits for the one before and guesses its direction; walking and merging meet every bin, in the order of the keys, which
 * is not the order in memory. The tree is a treap whose priorities are a hash of the keys: balanced without turning, and
 * of the same shape for the same keys, so that two of them merge in one walk.
 */
#include "heap.h"
#include "toll.h"

namespace {

enum Act { FILL, MERGE, WALK };

struct Bin {
  Bin *left, *right;
  uint32_t key, count;
};

struct Histogram {
  Bin *root;
};

struct State {
  size_t bins;
  Histogram filled, other;
  uint64_t random, fills, merges, walks;
  uint64_t sum; /* sum of keys times their place in the order, over all walks */
};

/* Thomas Wang's mixing of 32 bits: every key bit moves every priority bit. */
uint32_t priority(uint32_t key) {
  key = (key ^ 61) ^ key >> 16;
  key *= 9;
  key ^= key >> 4;
  key *= 0x27d4eb2du;
  return key ^ key >> 15;
}

/* A list of bins by `right`, in the order of their keys: eight bits after eight, each time through all of memory once. To
 * find each bin's place from the root would wait for memory as often as the tree is deep. */
Bin *in_order(Bin *list) {
  enum { BITS = 8, DIGITS = 1 << BITS };
  for (unsigned shift = 0; shift < 32; shift += BITS) {
    Bin *first[DIGITS] = {}, **last[DIGITS], **link = &list;
    for (unsigned i = 0; i < DIGITS; i++) last[i] = &first[i];
    for (Bin *bin = list, *next; bin; bin = next) {
      const unsigned digit = bin->key >> shift & (DIGITS - 1);
      next = bin->right;
      *last[digit] = bin;
      last[digit] = &bin->right;
    }
    for (unsigned i = 0; i < DIGITS; i++) {
      if (!first[i]) continue;
      *link = first[i];
      link = last[i];
    }
    *link = nullptr;
  }
  return list;
}

/* A treap of such a list: the bins on the path from the root to the right are kept, and the next bin takes those of
 * lower priority as its left subtree (Vuillemin 1980). Of n bins there are about ln n of them. */
Bin *link_up(Bin *list) {
  enum { MOST = 256 };
  Bin *spine[MOST];
  unsigned depth = 0;
  for (Bin *bin = list, *next; bin; bin = next) {
    next = bin->right;
    bin->right = nullptr;
    while (depth && priority(spine[depth - 1]->key) < priority(bin->key)) bin->left = spine[--depth];
    if (depth) spine[depth - 1]->right = bin;
    if (depth == MOST) abort();
    spine[depth++] = bin;
  }
  return spine[0];
}

TOLL_NOINLINE void fill(Histogram *histogram, uint32_t key) {
  Bin *bin = histogram->root;
  while (bin->key != key) bin = key < bin->key ? bin->left : bin->right;
  bin->count++;
}

void merge(Bin *into, const Bin *from) {
  for (; from; into = into->right, from = from->right) {
    into->count += from->count;
    merge(into->left, from->left);
  }
}

/* Sums all bins in order, each weighted by its position, so that a wrong order changes the sum. */
uint64_t walk(const Bin *bin, uint64_t *place) {
  uint64_t sum = 0;
  for (; bin; bin = bin->right) {
    sum += walk(bin->left, place);
    sum += ++*place * bin->key;
  }
  return sum;
}

uint64_t total(const Bin *bin) {
  return bin ? bin->count + total(bin->left) + total(bin->right) : 0;
}

/* Keys are even numbers in random order, so that memory order and key order are independent. */
void plant(State *state, Histogram *histogram) {
  const uint32_t bins = static_cast<uint32_t>(state->bins);
  uint32_t *keys = static_cast<uint32_t *>(malloc(bins * sizeof *keys));
  if (!keys) abort();
  for (uint32_t i = 0; i < bins; i++) keys[i] = 2 * i;
  for (uint32_t i = bins; i > 1; i--) {
    const uint32_t other = static_cast<uint32_t>(toll_random_below(&state->random, i)), kept = keys[i - 1];
    keys[i - 1] = keys[other];
    keys[other] = kept;
  }
  Bin *list = nullptr;
  for (uint32_t i = 0; i < bins; i++) list = new Bin{nullptr, list, keys[i], 0};
  free(keys);
  histogram->root = link_up(in_order(list));
}

enum toll_status prepare(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  state->bins = static_cast<size_t>(toll_number(r, "bins"));
  state->random = r->seed;
  if (!state->bins || state->bins > UINT32_MAX / 4) return toll_skip(r, "no tree can have that many bins");
  if (toll_needs_memory(r, 2 * state->bins * sizeof(Bin)) != TOLL_OK) return toll_refused(r);
  plant(state, &state->filled);
  if (toll_choice(r, "act") == MERGE) plant(state, &state->other);
  return TOLL_OK;
}

void fill_again(State *state, uint64_t times) {
  for (uint64_t i = times; i; i--)
    fill(&state->filled, 2 * static_cast<uint32_t>(toll_random_below(&state->random, state->bins)));
  state->fills += times;
}

void act(struct toll_run *r) {
  State *state = static_cast<State *>(r->state);
  switch (toll_choice(r, "act")) {
    case FILL: fill_again(state, r->iterations); break;
    case MERGE:
      for (uint64_t i = r->iterations; i; i--) {
        state->other.root->count++;
        merge(state->filled.root, state->other.root);
      }
      state->merges += r->iterations;
      break;
    case WALK:
      for (uint64_t i = r->iterations; i; i--) {
        uint64_t place = 0;
        state->sum += walk(state->filled.root, &place);
      }
      state->walks += r->iterations;
      break;
  }
}

enum toll_status check(struct toll_run *r) {
  const State *state = static_cast<const State *>(r->state);
  const uint64_t n = state->bins, in_order = (n - 1) * n * (n + 1) / 3 * 2; /* sum of 2 (i - 1) i */
  /* The sum of the counts that were added to the other tree's root before each merge: 1 + 2 + ... so far. Counts are
   * 32 bits wide. */
  const uint64_t merged = state->merges * (state->merges + 1) / 2;
  if (static_cast<uint32_t>(total(state->filled.root)) != static_cast<uint32_t>(state->fills + merged))
    return toll_wrong(r, "entries were lost");
  if (state->sum != state->walks * in_order) return toll_wrong(r, "the bins are not in order");
  return TOLL_OK;
}

void finish(struct toll_run *r) {
  heap::report(r);
}

void work(const struct toll_run *r, struct toll_work *work) {
  if (toll_choice(r, "act") != FILL) work->operations = static_cast<double>(static_cast<const State *>(r->state)->bins);
}

const char *const acts[] = {"fill", "merge", "walk", nullptr};
const uint64_t bin_counts[] = {1000, 10000, 100000, 400000, TOLL_END};
const struct toll_parameter parameters[] = {
    {.name = "act",
     .kind = TOLL_CHOICE,
     .summary = "one entry filled in, or every bin merged or walked",
     .choices = acts,
     .typical = "fill"},
    {.name = "bins", .kind = TOLL_COUNT, .summary = "bins of the histogram", .values = bin_counts, .typical = "100000"},
    {}};
const struct toll_metric metrics[] = {{.name = "bin",
                                       .unit = "ns",
                                       .summary = "one entry, or one bin on the way",
                                       .means = "object-store",
                                       .toll = "insert into a histogram tree of {bins} bins"},
                                      HEAP_METRICS,
                                      {}};

}  // namespace

extern "C" const struct toll_probe toll_probe = {
    .question = "What does pointer width cost a histogram that is a tree?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(State),
    .prepare = prepare,
    .body = act,
    .check = check,
    .finish = finish,
    .work = work,
    .accounts = true,
    .revision = 2,
};
