/* SPDX-License-Identifier: Apache-2.0
 *
 * A misaligned load that traps and that the kernel emulates, unseen by the program.
 *
 * MIPS always traps, and Linux emulates the load unless the program requests the signal. SPARC V8 always traps, and a
 * kernel emulates the load for a program that requests this by trap 6; Linux on SPARC V9 emulates none. Current ARM
 * loads a single register from any address, but not two: LDM and LDRD trap, and Linux emulates these, and counts them
 * in /proc/cpu/alignment. On other CPUs nothing traps, or the program gets the signal. The values are compared with the
 * bytes at their addresses. The kernel's count proves that the kernel emulated the load; or the same load raises SIGBUS
 * once the program requests the signal.
 */
#include <stdio.h>

#include "align_trap.h"

enum { LOADS = 64, STEP = 64 };

struct fix_up {
  const unsigned char *aligned, *misaligned;
  uint64_t expected_aligned, expected_misaligned, wrong, asked, counted_before;
  unsigned width;
  bool counts; /* whether the kernel does */
};

/* ---- the loads ---- */

#if defined(__arm__) && !defined(__thumb__)
#define FIX_UP_WIDTH 8
static const char *const fix_up_lack = NULL;
static inline uint64_t fix_up_load(uintptr_t address, unsigned width) {
  uint64_t two;
  uint32_t one;
  if (width == sizeof two) {
    __asm__ volatile("ldrd %0, %H0, [%1]" : "=r"(two) : "r"(address) : "memory");
    return two;
  }
  __asm__ volatile("ldmia %1, {%0}" : "=r"(one) : "r"(address) : "memory");
  return one;
}
#else
#define FIX_UP_WIDTH sizeof(uintptr_t)
#define fix_up_load  align_trap_load
#if defined(__mips__) || (defined(__sparc__) && !defined(__arch64__))
static const char *const fix_up_lack = NULL;
#elif defined(__sparc__)
static const char *const fix_up_lack =
    "a misaligned load traps here, but the kernel mends none of a program's: it tells the program";
#elif defined(__riscv)
static const char *const fix_up_lack =
    "no RISC-V CPU of QEMU traps at a misaligned load, and a program cannot see whether a real one's firmware mends it";
#else
static const char *const fix_up_lack =
    "the CPU itself loads from any address here: nothing traps that a kernel could mend";
#endif
#endif

static uint64_t sum_of_loads(const unsigned char *first, unsigned width) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < LOADS; i++) sum += fix_up_load((uintptr_t)first + i * STEP, width);
  return sum;
}

static uint64_t sum_of_bytes(const unsigned char *first, unsigned width) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < LOADS; i++) sum += align_trap_bytes((uintptr_t)first + i * STEP, width);
  return sum;
}

/* ---- what mends them ---- */

/* The number of accesses that the kernel has emulated for programs; false if it does not report it. */
static bool read_count(uint64_t *count) {
  static const char key[] = "User:";
  char line[128];
  bool found = false;
  FILE *file = fopen("/proc/cpu/alignment", "r");
  while (file && !found && fgets(line, sizeof line, file)) {
    found = strncmp(line, key, sizeof key - 1) == 0;
    if (found) *count = strtoull(line + sizeof key - 1, NULL, 10);
  }
  if (file) fclose(file);
  return found;
}

static void load_once(void *context) {
  const struct fix_up *fix_up = context;
  TOLL_USE(sum_of_loads(fix_up->misaligned, fix_up->width));
}

static enum toll_status find_who_mends(struct toll_run *r, struct fix_up *fix_up) {
  uint64_t before = 0, after = 0;
  align_mend(false);
  const bool traps = toll_guarded(load_once, fix_up) != 0;
  align_mend(true);
  fix_up->counts = read_count(&before);
  const int signal_number = toll_guarded(load_once, fix_up);
  if (signal_number) return toll_skip(r, "this kernel mends no such load: signal %d ends the program", signal_number);
  if (fix_up->counts && read_count(&after) && after < before + LOADS)
    return toll_skip(r, "the CPU itself made such a load good: its kernel counted none");
  if (!fix_up->counts && !traps) return toll_skip(r, "nothing tells here that a kernel made such a load good");
  fix_up->counted_before = after;
  return TOLL_OK;
}

/* ---- the visit ---- */

static enum toll_status refuse_shape(struct toll_run *r, unsigned width, uint64_t offset) {
  if (width != sizeof(uint32_t) && width != sizeof(uint64_t)) return toll_skip(r, "a load is of 4 or of 8 bytes");
  if (width > FIX_UP_WIDTH) return toll_skip(r, "no load of %u bytes here", width);
  if (offset % sizeof(uint32_t) == 0 || offset > STEP - sizeof(uint64_t))
    return toll_skip(r, "%llu bytes on, a load is aligned or leaves its line", (unsigned long long)offset);
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct fix_up *fix_up = r->state;
  const uint64_t offset = toll_number(r, "offset");
  fix_up->width = (unsigned)toll_number(r, "width");
  if (fix_up_lack) return toll_skip(r, "%s", fix_up_lack);
  if (toll_needs_kernel(r) != TOLL_OK || refuse_shape(r, fix_up->width, offset) != TOLL_OK) return toll_refused(r);
  unsigned char *bytes = toll_buffer(r, (struct toll_buffer_request){.bytes = LOADS * STEP});
  if (!bytes) return toll_refused(r);
  uint64_t random = r->seed;
  for (size_t i = 0; i < LOADS * STEP; i++) bytes[i] = (unsigned char)toll_random(&random);
  fix_up->aligned = bytes;
  fix_up->misaligned = bytes + offset;
  fix_up->expected_aligned = sum_of_bytes(fix_up->aligned, fix_up->width);
  fix_up->expected_misaligned = sum_of_bytes(fix_up->misaligned, fix_up->width);
  return find_who_mends(r, fix_up);
}

static void load_misaligned(struct toll_run *r) {
  struct fix_up *fix_up = r->state;
  for (uint64_t i = r->iterations; i; i--)
    fix_up->wrong += sum_of_loads(fix_up->misaligned, fix_up->width) != fix_up->expected_misaligned;
  fix_up->asked += LOADS * r->iterations;
}

static void load_aligned(struct toll_run *r) {
  struct fix_up *fix_up = r->state;
  for (uint64_t i = r->iterations; i; i--)
    fix_up->wrong += sum_of_loads(fix_up->aligned, fix_up->width) != fix_up->expected_aligned;
}

static enum toll_status check(struct toll_run *r) {
  const struct fix_up *fix_up = r->state;
  uint64_t count = 0;
  if (fix_up->wrong) return toll_wrong(r, "%llu passes gave other values", (unsigned long long)fix_up->wrong);
  if (!fix_up->counts || !read_count(&count) || count >= fix_up->counted_before + fix_up->asked) return TOLL_OK;
  return toll_wrong(r, "the kernel mended %llu loads of %llu", (unsigned long long)(count - fix_up->counted_before),
                    (unsigned long long)fix_up->asked);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->operations = LOADS;
}

static const uint64_t widths[] = {4, 8, TOLL_END};
static const uint64_t offsets[] = {1, 2, TOLL_END};
static const struct toll_parameter parameters[] = {
    {.name = "width", .kind = TOLL_SIZE, .summary = "bytes of the load", .values = widths},
    {.name = "offset", .kind = TOLL_COUNT, .summary = "bytes from an aligned address to the load's", .values = offsets},
    {0}};
static const struct toll_metric metrics[] = {{.name = "fix_up",
                                              .unit = "ns",
                                              .summary = "one load mended by the kernel, less an aligned one",
                                              .source = TOLL_DIFFERENCE,
                                              .toll = "misaligned load, fixed up by the kernel"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does a misaligned load cost that the kernel mends in silence?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct fix_up),
    .prepare = prepare,
    .body = load_misaligned,
    .control = load_aligned,
    .check = check,
    .work = work,
    .revision = 1,
};
