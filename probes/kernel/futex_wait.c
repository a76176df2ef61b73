/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait for any of several futexes in one call (futex_waitv, Linux 5.16), by how many they are.
 *
 *   refused  the last word has changed already: the call enters all but that one into their queues, and takes them out
 *   woken    a thread waits for all of them and another wakes one and yields: the waker's two calls, the switch, the way
 *            out of all queues, the way into all queues again, and the switch back
 *
 * The words are private to the process, each on a line of its own. What a further futex costs is the slope of the rows of
 * one act. Waker and waiter share a CPU, so that nothing is woken but a thread. The waker never sleeps: the waiter's call
 * that woke it would let it change the next word before the waiter waits for that, and half of the waits would be refused.
 * Both are batch jobs to the scheduler (SCHED_BATCH), of which none preempts the thread that wakes it.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "toll.h"
#include "wait.h"

#if !defined(SYS_futex_waitv) && defined(__NR_Linux) /* MIPS numbers each ABI's calls from another one on */
#define SYS_futex_waitv (__NR_Linux + 449)
#elif !defined(SYS_futex_waitv)
#define SYS_futex_waitv 449
#endif

enum act { REFUSED, WOKEN };
enum { LINE = 128, MOST = 128, WORD_OF_32_BITS = 2, PRIVATE = 128 };

/* struct futex_waitv, which older headers of the kernel do not have */
struct awaited {
  uint64_t value, address;
  uint32_t flags, reserved;
};

struct word {
  _Atomic uint32_t value;
  char padding[LINE - sizeof(uint32_t)];
};

struct waits {
  struct word words[MOST], answered;
  struct awaited awaited[MOST];
  unsigned act, futexes;
  uint64_t asked, as_expected; /* as_expected: ends of waits, by that futex or for that reason */
  int error;                   /* error of the last wait that ended otherwise */
};

static long wait_for_any(struct waits *waits) {
  return syscall(SYS_futex_waitv, waits->awaited, waits->futexes, 0, NULL, CLOCK_MONOTONIC);
}

static enum toll_status prepare(struct toll_run *r) {
  if (toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  struct waits *waits = r->state;
  waits->act = toll_choice(r, "act");
  const uint64_t futexes = toll_number(r, "futexes");
  if (!futexes || futexes > MOST) return toll_skip(r, "the kernel waits for 1 to %d futexes", MOST);
  waits->futexes = (unsigned)futexes;
  for (unsigned i = 0; i < waits->futexes; i++)
    waits->awaited[i] =
        (struct awaited){.address = (uintptr_t)&waits->words[i].value, .flags = WORD_OF_32_BITS | PRIVATE};
  struct awaited *last = &waits->awaited[waits->futexes - 1];
  last->value = 1;
  if (wait_for_any(waits) == -1 && errno != EAGAIN)
    return toll_skip(r, "the kernel has no wait for several futexes (futex_waitv, Linux 5.16): %s", strerror(errno));
  if (waits->act == REFUSED) return TOLL_OK;
  last->value = 0;
  const struct sched_param none = {0}; /* musl's sched_setscheduler does nothing */
  if (syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &none) == 0) return TOLL_OK;
  return toll_skip(r, "the system makes no batch job of this process: %s", strerror(errno));
}

static void expect(struct waits *waits, bool as_expected) {
  if (as_expected)
    waits->as_expected++;
  else
    waits->error = errno;
}

/* ---- the waiter ---- */

static void answer(struct toll_run *r) {
  struct waits *waits = r->state;
  for (uint64_t i = 0; i < r->iterations; i++) {
    const uint32_t round = atomic_load(&waits->answered.value);
    const unsigned next = round % waits->futexes;
    long by = -1;
    while (atomic_load(&waits->words[next].value) == (uint32_t)waits->awaited[next].value) by = wait_for_any(waits);
    expect(waits, by == (long)next);
    waits->awaited[next].value = atomic_load(&waits->words[next].value);
    atomic_store(&waits->answered.value, round + 1);
  }
}

/* ---- the waker ---- */

static void wake_in_turn(struct waits *waits, uint64_t rounds) {
  for (uint32_t round = atomic_load(&waits->answered.value); rounds; rounds--, round++) {
    _Atomic uint32_t *word = &waits->words[round % waits->futexes].value;
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, TOLL_FUTEX_WAKE | PRIVATE, 1, NULL, NULL, 0);
    while (atomic_load(&waits->answered.value) == round) sched_yield();
  }
}

static void act(struct toll_run *r) {
  struct waits *waits = r->state;
  if (waits->act == WOKEN)
    wake_in_turn(waits, r->iterations);
  else
    for (uint64_t i = r->iterations; i; i--) expect(waits, wait_for_any(waits) == -1 && errno == EAGAIN);
  waits->asked += r->iterations;
}

static unsigned waiters(const struct toll_run *r) {
  return ((const struct waits *)r->state)->act == WOKEN;
}
static unsigned same_cpu(const struct toll_run *r, unsigned worker) {
  (void)r, (void)worker;
  return 0;
}

/* A waiter that was too late to sleep returns because its word has changed. */
static enum toll_status check(struct toll_run *r) {
  const struct waits *waits = r->state;
  if (waits->act == WOKEN && (uint32_t)waits->asked != atomic_load(&waits->answered.value))
    return toll_wrong(r, "%llu wake-ups had %u answers", (unsigned long long)waits->asked,
                      atomic_load(&waits->answered.value));
  const uint64_t slack = waits->act == WOKEN ? waits->asked / 16 : 0;
  if (waits->as_expected >= waits->asked - slack) return TOLL_OK;
  return toll_wrong(r, "%llu of %llu waits ended as they should: %s", (unsigned long long)waits->as_expected,
                    (unsigned long long)waits->asked, strerror(waits->error));
}

static const struct toll_role roles[] = {
    {.name = "waiter", .body = answer, .worker = TOLL_THREAD, .pace = TOLL_LOCKSTEP, .count = waiters, .cpu = same_cpu},
    {0}};
static const char *const acts[] = {"refused", "woken", NULL};
static const uint64_t counts[] = {1, 8, 64, 128, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "act",
     .kind = TOLL_CHOICE,
     .summary = "a wait that returns at once, or one that another thread ends",
     .choices = acts},
    {.name = "futexes",
     .kind = TOLL_COUNT,
     .summary = "futexes that one call waits for",
     .values = counts,
     .typical = "8"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "wait",
                                              .unit = "ns",
                                              .summary = "one wait for any of the futexes, with what wakes it",
                                              .toll = "wait for 8 futexes, {act}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does it cost to wait for any of several futexes?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct waits),
    .prepare = prepare,
    .body = act,
    .check = check,
    .roles = roles,
    .switches = true,
    .enters = true,
    .revision = 1,
};
