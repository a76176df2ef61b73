/* SPDX-License-Identifier: Apache-2.0
 *
 * One access at an address that is not a multiple of its width.
 *
 * There are three cases, since the CPU's cost depends on the boundary that the access crosses, and hardly on the
 * offset: inside a line a misaligned access is free on most CPUs of today; across two lines it is two accesses; across
 * two pages it also needs two translations, and a store must be sure of both before it may begin. An atomic access
 * across two lines cannot lock one line: the CPU stops the whole machine's memory for it, or refuses it. Elsewhere a
 * misaligned access traps, and the kernel repairs it or ends the program: so the value is checked, and a fatal trap
 * becomes a sentence. (Old ARM neither trapped nor loaded what was asked for, but a rotated word: that is a sentence
 * too.)
 *
 * `trapped` enables the trap if a program can, or uses the trap that the CPU makes: a handler decodes the load,
 * assembles its bytes and continues after it. Each value is compared, and each trap counted.
 *
 * Loads and stores are independent, so that the CPU starts them as fast as it can; `chain` is a load that waits for the
 * previous one, as in code that reads a header's field and branches on it. Each is a plain dereference, one instruction
 * of that width, never a packed type's, for which a compiler may choose byte loads.
 */
#include "align_trap.h"

enum op { LOAD, STORE, CHAIN, ATOMIC, TRAPPED };
enum where { IN_LINE, SPLIT_LINE, SPLIT_PAGE };
enum { UNROLL = 8, VECTOR = 16, WIDEST = 64, MARK = 0xa5, PLACES = 64, TRAP_STEP = 64 };

typedef uint16_t word2 __attribute__((may_alias));
typedef uint32_t word4 __attribute__((may_alias));
typedef uintptr_t word __attribute__((may_alias));

struct access {
  unsigned op, width;
  uintptr_t address, moved; /* moved: by what chains loaded, zero if right */
  uint64_t asked, wrong;    /* wrong: trapped loads whose value was not what lies there */
  uint64_t expected[PLACES];
};

/* ---- the accesses ---- */

#define IN_PLACE(type)   (*(volatile type *)address)
#define EIGHT(statement) statement, statement, statement, statement, statement, statement, statement, statement

/* The accesses of one vector register: loads, stores, and one load whose value is checked. */
#define VECTOR_ACCESSES(bytes, feature)                                                      \
  typedef uint64_t vector##bytes __attribute__((vector_size(bytes), aligned(1), may_alias)); \
  feature static void load##bytes(uintptr_t address, uint64_t times) {                       \
    for (; times; times--) EIGHT((void)IN_PLACE(vector##bytes));                             \
  }                                                                                          \
  feature static void store##bytes(uintptr_t address, uint64_t times) {                      \
    vector##bytes marks;                                                                     \
    memset(&marks, MARK, sizeof marks);                                                      \
    for (; times; times--) EIGHT(IN_PLACE(vector##bytes) = marks);                           \
  }                                                                                          \
  feature static void show##bytes(uintptr_t address, void *target) {                         \
    *(vector##bytes *)target = IN_PLACE(vector##bytes);                                      \
  }

struct vector {
  unsigned bytes;
  const char *feature; /* NULL: every CPU of this ABI has it */
  void (*load)(uintptr_t address, uint64_t times);
  void (*store)(uintptr_t address, uint64_t times);
  void (*show)(uintptr_t address, void *target);
};
#define VECTOR_OF(bytes, name) \
  { bytes, name, load##bytes, store##bytes, show##bytes }

#if defined(__SSE2__) || defined(__ARM_NEON)
VECTOR_ACCESSES(16, )
#endif
#if defined(__x86_64__) || defined(__i386__)
VECTOR_ACCESSES(32, __attribute__((target("avx"))))
VECTOR_ACCESSES(64, __attribute__((target("avx512f"))))
#endif

static const struct vector vectors[] = {
#if defined(__SSE2__) || defined(__ARM_NEON)
    VECTOR_OF(16, NULL),
#endif
#if defined(__x86_64__) || defined(__i386__)
    VECTOR_OF(32, "avx"),
    VECTOR_OF(64, "avx512f"),
#endif
    {0}};

/* NULL where there is no such register, or this CPU has none. */
static const struct vector *vector_of(unsigned bytes) {
  for (const struct vector *vector = vectors; vector->bytes; vector++)
    if (vector->bytes == bytes && (!vector->feature || toll_cpu_has(vector->feature))) return vector;
  return NULL;
}

static void load(uintptr_t address, unsigned width, uint64_t times) {
  switch (width) {
    case 2:
      for (; times; times--) EIGHT((void)IN_PLACE(word2));
      break;
    case 4:
      for (; times; times--) EIGHT((void)IN_PLACE(word4));
      break;
    default:
      for (; times; times--) EIGHT((void)IN_PLACE(word));
  }
}

static void store(uintptr_t address, unsigned width, uint64_t times) {
  const word value = (word)UINT64_C(0x0101010101010101) * MARK;
  switch (width) {
    case 2:
      for (; times; times--) EIGHT(IN_PLACE(word2) = (word2)value);
      break;
    case 4:
      for (; times; times--) EIGHT(IN_PLACE(word4) = (word4)value);
      break;
    default:
      for (; times; times--) EIGHT(IN_PLACE(word) = value);
  }
}

/* The loaded value is zero, and is added to the address of the next load. */
static uintptr_t chain(uintptr_t address, unsigned width, uint64_t times) {
  switch (width) {
    case 2:
      for (; times; times--) EIGHT(address += IN_PLACE(word2));
      break;
    case 4:
      for (; times; times--) EIGHT(address += IN_PLACE(word4));
      break;
    default:
      for (; times; times--) EIGHT(address += IN_PLACE(word));
  }
  return address;
}

static void atomic(uintptr_t address, unsigned width, uint64_t times) {
  if (width == 4)
    for (; times; times--) EIGHT((void)__atomic_fetch_add(&IN_PLACE(word4), 1, __ATOMIC_RELAXED));
  else
    for (; times; times--) EIGHT((void)__atomic_fetch_add(&IN_PLACE(word), 1, __ATOMIC_RELAXED));
}

/* One place in each line of a page, in order. Differences from the expected values are summed after each load, so
 * that every value is checked. */
static void trapped(struct access *access, uint64_t times) {
  uint64_t wrong = 0, turn = access->asked;
  align_trap_on();
  for (uint64_t left = UNROLL * times; left; left--, turn++) {
    const unsigned place = turn % PLACES;
    wrong += align_trap_load(access->address + place * (uintptr_t)TRAP_STEP, access->width) != access->expected[place];
  }
  align_trap_off();
  access->wrong += wrong;
}

static void use_vector(const struct access *access, const struct vector *vector, uint64_t times) {
  if (access->op == LOAD)
    vector->load(access->address, times);
  else
    vector->store(access->address, times);
}

static void use_times(struct access *access, uint64_t times) {
  const struct vector *vector = access->width >= VECTOR ? vector_of(access->width) : NULL;
  if (vector) {
    use_vector(access, vector, times);
    access->asked += UNROLL * times;
    return;
  }
  switch (access->op) {
    case LOAD: load(access->address, access->width, times); break;
    case STORE: store(access->address, access->width, times); break;
    case CHAIN: access->moved += chain(access->address, access->width, times) - access->address; break;
    case ATOMIC: atomic(access->address, access->width, times); break;
    case TRAPPED: trapped(access, times); break;
  }
  access->asked += UNROLL * times;
}

/* ---- whether this machine can do it at all ---- */

/* A bus error on most; s390x calls a misaligned atomic an illegal instruction. */
static void use_once(void *access) {
  use_times(access, 1);
}

static uint64_t value_at(const struct access *access) {
  switch (access->width) {
    case 2: return *(volatile word2 *)access->address;
    case 4: return *(volatile word4 *)access->address;
    default: return *(volatile word *)access->address;
  }
}

/* A load must find the bytes that lie at the address, in order. */
static bool loads_what_lies_there(const struct access *access) {
  unsigned char bytes[WIDEST];
  union {
    uint64_t eight;
    uint32_t four;
    uint16_t two;
    word natural;
    unsigned char bytes[8];
  } expected;
  for (unsigned i = 0; i < WIDEST; i++) bytes[i] = (unsigned char)(i + 1);
  memcpy((void *)access->address, bytes, access->width);
  memcpy(expected.bytes, bytes, sizeof expected.bytes);
  const struct vector *vector = access->width >= VECTOR ? vector_of(access->width) : NULL;
  unsigned char seen[WIDEST];
  const uint64_t value = access->width == 2 ? expected.two : access->width == 4 ? expected.four : expected.natural;
  if (vector) vector->show(access->address, seen);
  const bool right = vector ? memcmp(seen, bytes, access->width) == 0 : value_at(access) == value;
  memset((void *)access->address, 0, access->width);
  return right;
}

/* ---- the visit ---- */

static enum toll_status refuse_shape(struct toll_run *r, const struct access *access, unsigned where, unsigned offset) {
  const unsigned width = access->width;
  if (width >= VECTOR && !vector_of(width)) return toll_skip(r, "no vector register of %u bytes here", width);
  if (width > sizeof(uintptr_t) && width < VECTOR)
    return toll_skip(r, "this ABI has no integer register of %u bytes", width);
  if (width >= VECTOR && access->op > STORE)
    return toll_skip(r, "%u bytes are neither an address nor an atomic, nor is their trap decoded", width);
  if (width == 2 && access->op == ATOMIC) return toll_skip(r, "atomics of 2 bytes are not of every architecture");
  if (where != IN_LINE && (offset == 0 || offset >= width))
    return toll_skip(r, "%u bytes, %u past a boundary, straddle nothing", width, offset);
  return TOLL_OK;
}

static enum toll_status refuse_trap(struct toll_run *r, const struct access *access, unsigned where, unsigned offset) {
  if (!ALIGN_TRAP_KNOWN) return toll_skip(r, "no handler for alignment traps is written for this architecture");
  if (where != IN_LINE) return toll_skip(r, "what a trapped access straddles is hidden by the trap");
  if (offset % access->width == 0) return toll_skip(r, "an aligned access does not trap");
  return TOLL_OK;
}

/* Random bytes in all places, and the expected value of a load from each. */
static enum toll_status lay_traps(struct toll_run *r, struct access *access) {
  uint64_t random = r->seed;
  unsigned char *bytes = (unsigned char *)access->address;
  for (size_t i = 0; i < PLACES * TRAP_STEP; i++) bytes[i] = (unsigned char)toll_random(&random);
  for (size_t i = 0; i < PLACES; i++)
    access->expected[i] = align_trap_bytes(access->address + i * TRAP_STEP, access->width);
  align_trap_catch();
  return TOLL_OK;
}

static enum toll_status prepare(struct toll_run *r) {
  struct access *access = r->state;
  const unsigned where = toll_choice(r, "where"), offset = (unsigned)toll_number(r, "offset");
  access->op = toll_choice(r, "op");
  access->width = (unsigned)toll_number(r, "width");
  if (access->width < 2 || access->width > WIDEST || (access->width & (access->width - 1)))
    return toll_skip(r, "a width is a power of two from 2 to %d bytes", WIDEST);
  if (where == IN_LINE && offset + access->width > toll_line_bytes()) return toll_skip(r, "the offset leaves the line");
  if (access->op == TRAPPED && refuse_trap(r, access, where, offset) != TOLL_OK) return toll_refused(r);
  if (refuse_shape(r, access, where, offset) != TOLL_OK) return toll_refused(r);
  const size_t page = toll_page_bytes();
  char *pages = toll_buffer(r, (struct toll_buffer_request){.bytes = 2 * page});
  if (!pages) return toll_refused(r);
  const size_t boundary = where == SPLIT_LINE ? toll_line_bytes() : page;
  access->address = (uintptr_t)pages + (where == IN_LINE ? 0 : boundary - access->width) + offset;
  if (access->op == TRAPPED) return lay_traps(r, access);
  const int signal_number = toll_guarded(use_once, access);
  if (signal_number) return toll_skip(r, "such an access ends the program here, by signal %d", signal_number);
  if (!loads_what_lies_there(access)) return toll_skip(r, "such a load gives other bytes than lie at its address");
  access->asked = 0;
  return TOLL_OK;
}

static void use(struct toll_run *r) {
  use_times(r->state, r->iterations);
}

/* Checks that loads left zeros, stores their mark and atomics their count, and that no neighbouring byte has
 * changed. */
static enum toll_status check(struct toll_run *r) {
  const struct access *access = r->state;
  const unsigned char *first = (const unsigned char *)access->address;
  if (access->moved) return toll_wrong(r, "a load gave what is not there");
  if (access->op == TRAPPED) {
    if (access->wrong) return toll_wrong(r, "%llu loads gave another value", (unsigned long long)access->wrong);
    return align_traps_taken == access->asked ? TOLL_OK : toll_wrong(r, "not every load was trapped");
  }
  if (access->op == ATOMIC) {
    const uint64_t mask = access->width == 4 ? UINT32_MAX : UINTPTR_MAX;
    return value_at(access) == (access->asked & mask) ? TOLL_OK : toll_wrong(r, "additions were lost");
  }
  for (unsigned i = 0; i < access->width; i++)
    if (first[i] != (access->op == STORE ? MARK : 0)) return toll_wrong(r, "byte %u of the access is %#x", i, first[i]);
  if (first[access->width] != 0) return toll_wrong(r, "a store wrote past its end");
  return TOLL_OK;
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->operations = UNROLL;
}

static const uint64_t widths[] = {2, 4, 8, VECTOR, 2 * VECTOR, WIDEST, TOLL_END};
static const uint64_t offsets[] = {0, 1, 2, 4, 8, TOLL_END};
static const char *const places[] = {"in_line", "split_line", "split_page", NULL};
static const char *const ops[] = {"load", "store", "chain", "atomic", "trapped", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "width", .kind = TOLL_SIZE, .summary = "bytes of the access", .values = widths, .typical = "4"},
    {.name = "offset",
     .kind = TOLL_COUNT,
     .summary = "bytes past the line's beginning, or of the access past the boundary that it straddles",
     .values = offsets,
     .typical = "1"},
    {.name = "where", .kind = TOLL_CHOICE, .summary = "boundary that the access straddles", .choices = places},
    {.name = "op",
     .kind = TOLL_CHOICE,
     .summary =
         "independent loads or stores, loads that wait for each other, atomic additions, or loads that trap and are "
         "made good by a handler (where instructions are counted: the handler's alone)",
     .choices = ops,
     .typical = "store"},
    {0}};
static const struct toll_metric metrics[] = {{.name = "access",
                                              .unit = "ns",
                                              .summary = "one access",
                                              .means = "access-of-offset",
                                              .toll = "misaligned store, {where}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "What does an access cost that is not aligned, and what when it straddles two lines or two pages?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct access),
    .prepare = prepare,
    .body = use,
    .check = check,
    .work = work,
    .revision = 1,
};
