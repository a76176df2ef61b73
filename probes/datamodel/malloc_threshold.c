/* SPDX-License-Identifier: Apache-2.0
 *
 * The size from which malloc maps each block separately, and the changes of this threshold.
 *
 * A block of its own map is given back to the system when it is freed: every page of the next one is a fault. glibc
 * starts at 128 KiB and, whenever a mapped block is freed, raises the threshold to that block's size, up to a ceiling
 * of 4 x 1024 x 1024 x sizeof(long) where longs are 64 bits wide, but 512 KiB where they are not: a study of pointer
 * width (suite x32-2013) saw a program fall under it on one ABI and not on the other. The test works for every malloc:
 * a block whose page is unmapped after free had its own mapping. A small block after it keeps the heap's end from being
 * trimmed, which would look the same.
 *
 * Each size is tried in a process of its own, since a trial moves what it measures.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toll.h"

enum { SMALL = 2048, LEAST = 8192 };
/* At most the free address space of a 32-bit program. */
static const size_t most = sizeof(void *) == 4 ? (size_t)64 << 20 : (size_t)256 << 20;

struct blocks {
  size_t bytes, page;
  uint64_t first, adapted, ceiling;    /* 0: none was found */
  double given_back, given_back_below; /* shares; negative: unknown */
  unsigned heap_blocks;                /* small blocks that fit into the heap before it grows */
  uint64_t refused, marks;
};

static bool is_gone(void *block, size_t page) {
  unsigned char resident;
  void *start = (void *)(((uintptr_t)block + page) & ~(uintptr_t)(page - 1));
  return mincore(start, 1, &resident) < 0 && errno == ENOMEM;
}

enum answer { NO, YES, UNKNOWN };

/* Whether a block of that size has its own mapping. Frees it, which may raise the threshold; for a process that ends
 * afterwards. */
static bool is_mapped(size_t bytes, size_t page) {
  char *volatile block = malloc(bytes);
  char *volatile after = malloc(SMALL);
  if (!block || !after) _exit(UNKNOWN);
  block[bytes - 1] = 1;
  free(block);
  const bool gone = is_gone(block, page);
  free(after);
  return gone;
}

/* Allocates small blocks until the heap would have to grow, or up to a limit if it never grows: a block that fits
 * into the rest of the heap is taken from it, whatever its size. */
static void use_up_heap(const struct blocks *blocks) {
  for (unsigned i = 0; i < blocks->heap_blocks; i++)
    if (!malloc(SMALL / 2)) _exit(UNKNOWN);
}

static void count_heap_blocks(struct blocks *blocks) {
  enum { MOST_BLOCKS = 4096 };
  const void *const end = sbrk(0);
  unsigned count = 0;
  while (count < MOST_BLOCKS && malloc(SMALL / 2) && sbrk(0) == end) count++;
  blocks->heap_blocks = count < MOST_BLOCKS ? count : 0;
}

/* ---- one trial, in a process of its own ---- */

static bool is_mapped_at_first(const struct blocks *blocks, size_t bytes) {
  return is_mapped(bytes, blocks->page);
}

/* Whether a block of twice the first threshold, mapped and freed, leaves one of this size mapped. */
static bool is_mapped_afterwards(const struct blocks *blocks, size_t bytes) {
  is_mapped(2 * (size_t)blocks->first, blocks->page);
  return is_mapped(bytes, blocks->page);
}

/* Whether a freed block does not bring its own size under the threshold. */
static bool is_mapped_again(const struct blocks *blocks, size_t bytes) {
  is_mapped(bytes, blocks->page);
  return is_mapped(bytes, blocks->page);
}

typedef bool trial(const struct blocks *blocks, size_t bytes);

/* A search in one process would change the threshold: its heap grows, and each block that it frees may raise the
 * threshold. */
static enum answer in_child_of_its_own(const struct blocks *blocks, trial *is_true, size_t bytes) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    use_up_heap(blocks);
    const enum answer answer = is_true(blocks, bytes) ? YES : NO;
    _exit((int)answer);
  }
  if (child < 0) return UNKNOWN;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return UNKNOWN;
  return WIFEXITED(status) ? (enum answer)WEXITSTATUS(status) : UNKNOWN;
}

/* The least size for which the condition holds, to the byte; 0 if it holds for none, or is not known. */
static size_t least(const struct blocks *blocks, trial *is_true, size_t from) {
  size_t under = from - 1, over = most;
  if (in_child_of_its_own(blocks, is_true, over) != YES) return 0;
  while (over - under > 1) {
    const size_t between = under + (over - under) / 2;
    const enum answer answer = in_child_of_its_own(blocks, is_true, between);
    if (answer == UNKNOWN) return 0;
    *(answer == YES ? &over : &under) = between;
  }
  return over;
}

static void search(struct blocks *blocks) {
  blocks->first = least(blocks, is_mapped_at_first, LEAST);
  if (!blocks->first) return;
  blocks->adapted = least(blocks, is_mapped_afterwards, LEAST);
  const size_t over = least(blocks, is_mapped_again, (size_t)blocks->first);
  blocks->ceiling = over > blocks->first ? over - 1 : 0;
}

/* The shares of the memory of small blocks that are returned to the system: after all are freed; and if one small
 * block after them is still in use, since only the end of the heap can be returned. */
static double share_given_back(const struct blocks *blocks, bool with_block_after) {
  enum { BLOCKS = 256, BLOCK = 65536 };
  static char *held[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) held[i] = malloc(BLOCK);
  char *volatile after = with_block_after ? malloc(SMALL) : NULL;
  for (int i = 0; i < BLOCKS; i++)
    if (held[i]) memset(held[i], 1, BLOCK);
  for (int i = 0; i < BLOCKS; i++) free(held[i]);
  int gone = 0;
  for (int i = 0; i < BLOCKS; i++) gone += is_gone(held[i], blocks->page);
  free(after);
  return (double)gone / BLOCKS;
}

static void give_back(struct blocks *blocks) {
  blocks->given_back = share_given_back(blocks, false);
}

static void give_back_below(struct blocks *blocks) {
  blocks->given_back_below = share_given_back(blocks, true);
}

static void in_child(struct blocks *blocks, void (*act)(struct blocks *blocks)) {
  int status;
  const pid_t child = fork();
  if (child == 0) {
    act(blocks);
    _exit(0);
  }
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
}

static enum toll_status prepare(struct toll_run *r) {
  struct blocks *blocks = r->state;
  blocks->bytes = (size_t)toll_number(r, "size");
  blocks->page = toll_page_bytes();
  if (blocks->bytes < blocks->page || blocks->bytes > most)
    return toll_skip(r, "a block is of one page to %zu MiB here", most >> 20);
  blocks->given_back = blocks->given_back_below = -1;
  in_child(blocks, count_heap_blocks);
  search(blocks);
  in_child(blocks, give_back);
  in_child(blocks, give_back_below);
  return TOLL_OK;
}

static void take_and_give(struct toll_run *r) {
  struct blocks *blocks = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    char *volatile block = malloc(blocks->bytes);
    if (!block) {
      blocks->refused++;
      continue;
    }
    volatile char *byte = block;
    for (size_t at = 0; at < blocks->bytes; at += blocks->page) byte[at] = 1;
    blocks->marks += (uint64_t)byte[(blocks->bytes - 1) / blocks->page * blocks->page];
    free(block);
  }
  blocks->marks -= r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  const struct blocks *blocks = r->state;
  if (blocks->refused) return toll_skip(r, "malloc refused %zu bytes", blocks->bytes);
  if (blocks->marks) return toll_wrong(r, "a block did not hold what was stored");
  return TOLL_OK;
}

static void finish(struct toll_run *r) {
  const struct blocks *blocks = r->state;
  if (blocks->first) toll_report(r, "threshold", (double)blocks->first);
  if (blocks->adapted) toll_report(r, "adapted", (double)blocks->adapted);
  if (blocks->ceiling) toll_report(r, "ceiling", (double)blocks->ceiling);
  if (blocks->given_back >= 0) toll_report(r, "given_back", blocks->given_back);
  if (blocks->given_back_below >= 0) toll_report(r, "given_back_below", blocks->given_back_below);
}

static const uint64_t sizes[] = {65536, 262144, 1 << 20, 16 << 20, 64 << 20, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "size", .kind = TOLL_SIZE, .summary = "size of the block", .values = sizes, .typical = "1048576"}, {0}};
static const struct toll_metric metrics[] = {
    {.name = "block",
     .unit = "ns",
     .summary = "one block taken, touched in every page and given back, again and again",
     .means = "malloc-of-size",
     .toll = "malloc, touch and free 1 MiB"},
    {.name = "threshold",
     .unit = "B",
     .better = TOLL_NEITHER,
     .summary = "least size that is mapped at first",
     .source = TOLL_GAUGE},
    {.name = "adapted",
     .unit = "B",
     .better = TOLL_NEITHER,
     .summary = "least size that is mapped once a mapped block of twice the threshold was freed",
     .source = TOLL_GAUGE},
    {.name = "given_back",
     .unit = "ratio",
     .better = TOLL_MORE,
     .summary = "bytes of 16 MiB in blocks of 64 KiB that the system gets back when all are freed",
     .source = TOLL_GAUGE},
    {.name = "given_back_below",
     .unit = "ratio",
     .better = TOLL_MORE,
     .summary = "bytes of them that it gets back while one small block behind them is not freed",
     .source = TOLL_GAUGE},
    {.name = "ceiling",
     .unit = "B",
     .better = TOLL_NEITHER,
     .summary = "largest size that is no longer mapped once a mapped block was freed",
     .source = TOLL_GAUGE},
    {0}};

const struct toll_probe toll_probe = {
    .question = "From which size on is memory given back to the system at each free, and what does that cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct blocks),
    .prepare = prepare,
    .body = take_and_give,
    .check = check,
    .finish = finish,
    .faults = true,
    .accounts = true,
    .enters = true,
    .revision = 3,
};
