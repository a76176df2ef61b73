/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of loading a value that has just been stored. If a core can, it forwards the value from its store queue,
 * long before the store reaches the cache; otherwise the load waits for the store. Each step stores a number, loads it
 * and adds one, which the next step stores: the steps wait for each other, and the sum proves that each load had its
 * store's value.
 *
 * A word is as wide as an address, and is loaded by another register than it was stored by. `same` loads the word that
 * was stored, `narrow` its low half, and `inside` a half that begins at its second byte. `wide` loads a word of which the store wrote the low half, and `partial` a word that
 * begins in the middle of the one stored: no store alone has their value. `line` and `page` are `same` across the end of a
 * line or page. `alias` loads a word that lies 4096 bytes after the one stored, and which nothing stores: the low 12 bits
 * of the addresses are the same, and cores that compare these first take it for the one stored. `apart` is the same one
 * line further, where nothing is mistaken.
 *
 * Some cores predict which store a load will have its value from, and then load nothing: on Zen 4 a step of `same` takes
 * the cycle of its addition.
 */
#include "toll.h"

#if (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SUPPORTED true
#else
#define SUPPORTED false /* words that are not aligned are several accesses there */
#endif

enum { PAGE = 4096, ROOM = 4 * PAGE, WORD = sizeof(uintptr_t), HALF_BITS = 4 * WORD };

typedef uintptr_t word __attribute__((aligned(1), may_alias));
#if UINTPTR_MAX > UINT32_MAX
typedef uint32_t half __attribute__((aligned(1), may_alias));
#else
typedef uint16_t half __attribute__((aligned(1), may_alias));
#endif

struct forward {
  char *base;
  void (*steps)(struct forward *f, uint64_t steps);
  uintptr_t number;
  uint64_t made;
  unsigned bits, from; /* number of significant bits of `number`, and the lowest of them */
};

/* stored, at: what is stored and where; loaded, from: what is loaded and where; up: by how many bits it is moved. */
#define STEPS(name, stored, at, loaded, from, up)                                                    \
  TOLL_NOINLINE static void steps_##name(struct forward *f, uint64_t steps) {                        \
    char *base = f->base, *other = f->base;                                                          \
    uintptr_t number = f->number;                                                                    \
    TOLL_OPAQUE(other);                                                                              \
    for (; steps; steps--) {                                                                         \
      *(volatile stored *)(base + (at)) = (stored)number;                                            \
      number = ((uintptr_t) * (volatile loaded *)(other + (from)) << (up)) + ((uintptr_t)1 << (up)); \
    }                                                                                                \
    f->number = number;                                                                              \
  }

/* The loaded value is zero, and is added to the number that is stored. */
#define STEPS_APART(name, from)                                               \
  TOLL_NOINLINE static void steps_##name(struct forward *f, uint64_t steps) { \
    char *base = f->base, *other = f->base;                                   \
    TOLL_OPAQUE(other);                                                       \
    uintptr_t number = f->number;                                             \
    for (; steps; steps--) {                                                  \
      *(volatile word *)base = number;                                        \
      number += *(volatile word *)(other + (from)) + 1;                       \
    }                                                                         \
    f->number = number;                                                       \
  }

STEPS(same, word, 0, word, 0, 0)
STEPS(narrow, word, 0, half, 0, 0)
STEPS(inside, word, 0, half, 1, 8)
STEPS(wide, half, 0, word, 0, 0)
STEPS(partial, word, 0, word, WORD / 2, HALF_BITS)
STEPS(line, word, 64 - WORD / 2, word, 64 - WORD / 2, 0)
STEPS(page, word, PAGE - WORD / 2, word, PAGE - WORD / 2, 0)
STEPS_APART(alias, PAGE)
STEPS_APART(apart, PAGE + 64)

static const struct {
  void (*steps)(struct forward *f, uint64_t steps);
  unsigned bits, from;
} ways[] = {{steps_same, 2 * HALF_BITS, 0}, {steps_narrow, HALF_BITS, 0},          {steps_inside, HALF_BITS, 8},
            {steps_wide, HALF_BITS, 0},     {steps_partial, HALF_BITS, HALF_BITS}, {steps_line, 2 * HALF_BITS, 0},
            {steps_page, 2 * HALF_BITS, 0}, {steps_alias, 2 * HALF_BITS, 0},       {steps_apart, 2 * HALF_BITS, 0}};

static enum toll_status prepare(struct toll_run *r) {
  struct forward *f = r->state;
  const unsigned way = toll_choice(r, "load");
  if (!SUPPORTED)
    return toll_skip(r, "unsupported here: the accesses of this probe are single ones on x86 and aarch64 alone");
  f->base = toll_buffer(r, (struct toll_buffer_request){.bytes = ROOM, .pages = TOLL_PAGES_SMALL});
  if (!f->base) return toll_refused(r);
  f->steps = ways[way].steps;
  f->bits = ways[way].bits;
  f->from = ways[way].from;
  return TOLL_OK;
}

static void store_and_load(struct toll_run *r) {
  struct forward *f = r->state;
  f->steps(f, r->iterations);
  f->made += r->iterations;
}

/* The counted bits of the number must be the number of steps, modulo their range. */
static enum toll_status check(struct toll_run *r) {
  const struct forward *f = r->state;
  const uint64_t mask = UINT64_MAX >> (64 - f->bits);
  const uint64_t carried = (uint64_t)f->number >> f->from;
  if (((carried - f->made) & mask) == 0) return TOLL_OK;
  return toll_wrong(r, "the loads carried %llu, and not %llu", (unsigned long long)(carried & mask),
                    (unsigned long long)(f->made & mask));
}

static const char *const loads[] = {"same", "narrow", "inside", "wide",  "partial",
                                    "line", "page",   "alias",  "apart", NULL};
static const struct toll_parameter parameters[] = {{.name = "load",
                                                    .kind = TOLL_CHOICE,
                                                    .summary = "part of the stored word that is loaded",
                                                    .choices = loads,
                                                    .typical = "same"},
                                                   {0}};
static const struct toll_metric metrics[] = {{.name = "step",
                                              .unit = "ns",
                                              .summary = "a store, the load after it and an addition",
                                              .toll = "load what was just stored"},
                                             {.name = "cycles",
                                              .unit = "cycle",
                                              .summary = "a store, the load after it and an addition",
                                              .means = "load-after-store"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to load what has just been stored, and where is it not forwarded?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct forward),
    .prepare = prepare,
    .body = store_and_load,
    .check = check,
    .revision = 1,
};
