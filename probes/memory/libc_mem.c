/* SPDX-License-Identifier: Apache-2.0
 *
 * The C library's routines for blocks of memory, over the size: memcpy, memmove, memset and strlen, called as a program
 * calls them. Compared with the tuned loops of the bandwidth probes, this shows the unused potential of the library;
 * over ABIs and libraries, the gain or loss of a port. Each call goes through a pointer that the compiler cannot see
 * through, or it would put its own code in place of the call where it knows the routine.
 */
#include "kernels.h"

enum { MEMCPY, MEMMOVE, MEMSET, STRLEN };

struct block {
  void *(*copy)(void *, const void *, size_t);
  void *(*set)(void *, int, size_t);
  size_t (*length)(const char *);
  unsigned routine;
  size_t bytes;
  char *source, *target;
  uint64_t batches, calls, lengths;
};

static int byte_of(uint64_t batch) {
  return (int)(1 + batch % 255);
}

static enum toll_status prepare(struct toll_run *r) {
  struct block *b = r->state;
  b->routine = toll_choice(r, "routine");
  if (asked(r, "bytes", &b->bytes) != TOLL_OK) return toll_refused(r);
  if (!b->bytes) return toll_fail(r, "nothing is no size");
  b->copy = b->routine == MEMMOVE ? memmove : memcpy;
  b->set = memset;
  b->length = strlen;
  b->source = large_buffer(r, b->bytes + 1, 0);
  if (!b->source) return toll_refused(r);
  b->target = large_buffer(r, b->bytes + 1, 1);
  if (!b->target) return toll_refused(r);
  for (size_t i = 0; i < b->bytes; i++) b->source[i] = (char)byte_of(i);
  return TOLL_OK;
}

static void copy(struct block *b, uint64_t calls) {
  b->source[0] = b->source[b->bytes - 1] = (char)byte_of(b->batches);
  for (; calls; calls--) {
    b->copy(b->target, b->source, b->bytes);
    TOLL_MEMORY();
  }
}

static void set(struct block *b, uint64_t calls) {
  for (; calls; calls--) {
    b->set(b->target, byte_of(b->batches), b->bytes);
    TOLL_MEMORY();
  }
}

/* Each length is waited for: the next string begins where it says, which is the same place, but no core knows. */
static void length(struct block *b, uint64_t calls) {
  const char *string = b->source;
  for (; calls; calls--) {
    size_t found = b->length(string);
    b->lengths += found;
    string += found - b->bytes;
    TOLL_MEMORY();
  }
}

static void call(struct toll_run *r) {
  struct block *b = r->state;
  if (b->routine == STRLEN)
    length(b, r->iterations);
  else if (b->routine == MEMSET)
    set(b, r->iterations);
  else
    copy(b, r->iterations);
  b->batches++;
  b->calls += r->iterations;
}

/* The byte past the block must be as it was. */
static enum toll_status check(struct toll_run *r) {
  const struct block *b = r->state;
  if (b->target[b->bytes]) return toll_wrong(r, "the routine wrote past the end");
  if (b->routine == STRLEN)
    return b->lengths == b->calls * b->bytes ? TOLL_OK : toll_wrong(r, "strlen returned another length");
  for (size_t i = 0; i < b->bytes; i++) {
    char expected = b->routine == MEMSET ? (char)byte_of(b->batches - 1) : b->source[i];
    if (b->target[i] != expected) return toll_wrong(r, "byte %zu is not what the last call had to make it", i);
  }
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct block *)r->state)->bytes;
}

static const char *const routines[] = {"memcpy", "memmove", "memset", "strlen", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "routine", .kind = TOLL_CHOICE, .summary = "function of the C library", .choices = routines},
    {.name = "bytes",
     .kind = TOLL_SIZE,
     .summary = "bytes of one block",
     .from = 8,
     .to = 16 << 20,
     .per_octave = 1,
     .typical = "1024"},
    {0}};
static const struct toll_metric metrics[] = {
    {.name = "call", .unit = "ns", .summary = "one call"},
    {.name = "rate", .unit = "B/s", .better = TOLL_MORE, .summary = "bytes a second, each counted once"},
    {0}};

const struct toll_probe toll_probe = {
    .question = "What do the C library's own routines for blocks of memory cost, by size?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct block),
    .prepare = prepare,
    .body = call,
    .check = check,
    .work = work,
    .revision = 1,
};
