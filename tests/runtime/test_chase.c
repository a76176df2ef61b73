/* SPDX-License-Identifier: Apache-2.0
 *
 * A chase is one cycle that touches every cell once: a shorter cycle would measure a smaller cache than it names.
 */
#include <stdlib.h>
#include <string.h>

#include "expect.h"

TOLL_TEST_NAME("test.chase");

enum { LARGE_CELLS = 70001 };
static const size_t large_counts[] = {1 << 15, (1 << 15) + 1, 1 << 16, LARGE_CELLS};

static struct toll_visit visit;
static const struct toll_probe probe = {.question = "none"};

static size_t steps_to_return(void **head, size_t most) {
  void **here = head;
  size_t steps = 0;
  do here = (void **)*here;
  while (++steps <= most && here != head);
  return steps;
}

static void expect_one_cycle(char *buffer, size_t bytes, size_t stride, enum toll_order order) {
  struct toll_run r = test_run(&visit, &probe);
  void **head = toll_chase(&r, buffer, bytes, stride, order), **here = head;
  size_t cells = bytes / stride, steps = steps_to_return(head, cells);
  EXPECT(steps == cells);
  for (size_t i = 0; i < cells; i++, here = (void **)*here) {
    size_t offset = (size_t)((char *)here - buffer);
    EXPECT(offset % stride == 0 && offset < bytes);
  }
}

/* In page-local order the walk stays within 32 pages for a quarter of their lines, and goes through each such group four
 * times a lap. What follows in the same page is no neighbour of a line: whatever fetches neighbours fetches nothing that
 * is met soon. */
static void expect_page_local(char *buffer, size_t pages) {
  struct toll_run r = test_run(&visit, &probe);
  const size_t page = toll_page_bytes(), group = 32 * page, groups = (pages + 31) / 32;
  void **head = toll_chase(&r, buffer, pages * page, 64, TOLL_ORDER_PAGE_LOCAL), **here = head;
  size_t changes = 0, patches = 0, same_page = 0, near = 0, lines = pages * page / 64;
  do {
    void **next = (void **)*here;
    size_t from = (size_t)((char *)here - buffer), to = (size_t)((char *)next - buffer);
    changes += from / group != to / group;
    patches += toll_chase_patch(64, from / 64) != toll_chase_patch(64, to / 64);
    same_page += from / page == to / page;
    near += from / 64 % 4 != to / 64 % 4;
    here = next;
  } while (here != head);
  EXPECT(groups > 1 ? changes > groups && changes <= 4 * groups : changes == 0);
  EXPECT(pages == 1 || same_page < 2 * lines / (pages < 32 ? pages : 32));
  EXPECT(near == 4);
  EXPECT(patches == 4 * groups); /* each is come to once */
}

/* A large chase stands where the shuffle says, and its shuffle meets every cell once. */
static void expect_computed(char *buffer, size_t cells) {
  struct toll_run r = test_run(&visit, &probe);
  void **here = toll_chase(&r, buffer, cells * sizeof(void *), sizeof(void *), TOLL_ORDER_RANDOM);
  struct toll_shuffle shuffle = toll_chase_shuffle(&r, cells, sizeof(void *));
  EXPECT(toll_chase_is_large(cells));
  for (uint64_t place = 0; place < 1000; place++, here = (void **)*here)
    EXPECT((char *)here == buffer + toll_shuffle_at(&shuffle, place) * sizeof(void *));
}

/* Steps of one length would be fetched ahead: no length is taken by more than one step in a hundred. */
static void expect_scattered(size_t cells) {
  struct toll_run r = test_run(&visit, &probe);
  struct toll_shuffle shuffle = toll_chase_shuffle(&r, cells, 64);
  unsigned *steps = calloc(cells, sizeof *steps), most = 0;
  for (size_t place = 0; steps && place + 1 < cells; place++) {
    size_t length = (toll_shuffle_at(&shuffle, place + 1) + cells - toll_shuffle_at(&shuffle, place)) % cells;
    if (++steps[length] > most) most = steps[length];
  }
  EXPECT(most > 0 && most < cells / 100);
  free(steps);
}

static void expect_seeded(char *buffer, char *copy, size_t bytes) {
  struct toll_run r = test_run(&visit, &probe);
  toll_chase(&r, buffer, bytes, 64, TOLL_ORDER_RANDOM);
  memcpy(copy, buffer, bytes);
  toll_chase(&r, buffer, bytes, 64, TOLL_ORDER_RANDOM);
  EXPECT(memcmp(copy, buffer, bytes) == 0);
  r.seed++;
  toll_chase(&r, buffer, bytes, 64, TOLL_ORDER_RANDOM);
  EXPECT(memcmp(copy, buffer, bytes) != 0);
}

int main(void) {
  const size_t page = toll_page_bytes(), most = 96 * page;
  char *buffer = aligned_alloc(page, most), *copy = calloc(1, most);
  if (!buffer || !copy) return 1;
  memset(buffer, 0, most);
  static const enum toll_order orders[] = {TOLL_ORDER_RANDOM, TOLL_ORDER_PAGE_LOCAL, TOLL_ORDER_FORWARD,
                                           TOLL_ORDER_BACKWARD};
  static const size_t strides[] = {16, 32, 64, 128, 4096};
  for (size_t o = 0; o < 4; o++)
    for (size_t s = 0; s < 5; s++) {
      expect_one_cycle(buffer, most, strides[s], orders[o]);
      expect_one_cycle(buffer, strides[s], strides[s], orders[o]);
      expect_one_cycle(buffer, 4096 + 1280, strides[s], orders[o]); /* no whole number of pages */
    }
  expect_page_local(buffer, 1);
  expect_page_local(buffer, 8);
  expect_page_local(buffer, 96);
  expect_seeded(buffer, copy, most);
  char *large = calloc(LARGE_CELLS, sizeof(void *));
  if (!large) return 1;
  for (size_t i = 0; i < sizeof large_counts / sizeof large_counts[0]; i++) {
    expect_one_cycle(large, large_counts[i] * sizeof(void *), sizeof(void *), TOLL_ORDER_RANDOM);
    expect_computed(large, large_counts[i]);
    expect_scattered(large_counts[i]);
  }
  free(large);
  free(buffer);
  free(copy);
  return failures;
}
