/* SPDX-License-Identifier: Apache-2.0
 *
 * A small page fetched by HTTP from another process: connect, ask, receive, end (lmbench: lat_http with lmhttp).
 *
 * The server is the probe's own and does no more than it must, with the page in memory: what is timed is what every server
 * pays, a connection of TCP, two wake-ups, and the page copied twice. The last page of a batch is compared byte by byte.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "asked.h"
#include "other_end.h"
#include "page.h"
#include "toll.h"

struct web {
  struct address address;
  int listener;
  unsigned other_end; /* index of the CPU */
  size_t bytes;
  char *served, *fetched;
  uint64_t asked, came, answered;
};

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct web *web = r->state;
  if (asked(r, "size", &web->bytes) != TOLL_OK || find_other_end(r, &web->other_end) != TOLL_OK) return TOLL_SKIPPED;
  if (web->bytes > LARGEST_PAGE) return toll_skip(r, "a small page has %d bytes at most", LARGEST_PAGE);
  web->served = toll_buffer(r, (struct toll_buffer_request){.bytes = LARGEST_PAGE});
  web->fetched = toll_buffer(r, (struct toll_buffer_request){.bytes = LARGEST_PAGE + LONGEST_HEAD, .colour = 3});
  if (!web->served || !web->fetched) return toll_refused(r);
  page_fill(web->served, LARGEST_PAGE);
  web->address = inet_address(INADDR_LOOPBACK);
  web->listener = socket_at(&web->address, SOCK_STREAM);
  return web->listener >= 0 ? TOLL_OK : toll_skip(r, "the system lets no program listen: %s", strerror(errno));
}

static void serve(struct toll_run *r) {
  struct web *web = r->state;
  for (uint64_t i = r->iterations; i; i--) {
    const int taken = accept4(web->listener, NULL, NULL, SOCK_CLOEXEC);
    send_at_once(taken);
    const bool answered = page_serve(taken, web->served);
    web->answered += page_end(taken) && answered;
  }
}

static void fetch(struct toll_run *r) {
  struct web *web = r->state;
  for (uint64_t i = r->iterations; i; i--) web->came += page_fetch(&web->address, web->fetched, web->bytes);
  web->asked += r->iterations;
}

static enum toll_status check(struct toll_run *r) {
  struct web *web = r->state;
  const bool right = page_is_right(web->fetched, web->bytes);
  memset(web->fetched, 0, web->bytes);
  if (web->came != web->asked || web->answered != web->asked)
    return toll_wrong(r, "of %llu pages %llu came", (unsigned long long)web->asked, (unsigned long long)web->came);
  return right ? TOLL_OK : toll_wrong(r, "a page is not as it was served");
}

static void work(const struct toll_run *r, struct toll_work *work) {
  work->bytes = (double)((const struct web *)r->state)->bytes;
}

static unsigned place(const struct toll_run *r, unsigned worker) {
  (void)worker;
  return ((const struct web *)r->state)->other_end;
}

static const struct toll_role roles[] = {
    {.name = "server", .body = serve, .worker = TOLL_PROCESS, .pace = TOLL_LOCKSTEP, .cpu = place}, {0}};
static const uint64_t sizes[] = {1024, 10240, 102400, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "size", .kind = TOLL_SIZE, .summary = "size of the page", .values = sizes, .typical = "1024"},
    {.name = "placement", .kind = TOLL_CHOICE, .summary = "CPUs that the two ends run on", .choices = placements},
    {0}};
static const struct toll_metric metrics[] = {{.name = "fetch",
                                              .unit = "ns",
                                              .summary = "one page, from the connection to its end",
                                              .toll = "fetch 1 KiB by HTTP, {placement}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to fetch a small page from a server on the same machine?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct web),
    .prepare = prepare,
    .body = fetch,
    .check = check,
    .work = work,
    .roles = roles,
    .switches = true,
    .revision = 1,
};
