/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of FPA instructions, held against words that the GNU assembler made of the mnemonics beside them
 * (arm-linux-gnueabi-as, `.fpu fpa`). The program lies below 4 GiB, as addresses of a 32-bit core do.
 */
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "fpa.h"

#include "expect.h"

TOLL_TEST_NAME("test.fpa");

enum { N = 1u << 31, Z = 1u << 30, C = 1u << 29, V = 1u << 28 };

static struct fpa_registers fpa;
static struct fpa_core core;
static uint32_t *memory; /* the program's one word at 0, data from word 16 */

static uint32_t address_of(unsigned word) {
  return (uint32_t)(uintptr_t)(memory + word);
}

static bool run(uint32_t instruction) {
  memory[0] = instruction;
  core.r[15] = address_of(0);
  return fpa_emulate(&fpa, &core);
}

static void put_double(unsigned word, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  memory[word] = (uint32_t)(bits >> 32); /* the high word first */
  memory[word + 1] = (uint32_t)bits;
}

static void expect_transfers(void) {
  put_double(16, 3.25);
  core.r[1] = address_of(16);
  EXPECT(run(0xecb18102)); /* ldfd f0, [r1], #8 */
  EXPECT(fpa.f[0] == 3.25 && core.r[1] == address_of(18) && core.r[15] == address_of(1));
  fpa.f[4] = -1.5;
  core.r[0] = address_of(18);
  EXPECT(run(0xeda0c102)); /* stfd f4, [r0, #8]! */
  EXPECT(core.r[0] == address_of(20) && memory[20] == 0xbff80000 && memory[21] == 0);
  fpa.f[5] = 0.1;
  EXPECT(run(0xed805102)); /* stfs f5, [r0, #8] */
  EXPECT(core.r[0] == address_of(20) && memory[22] == 0x3dcccccd);
  fpa.f[5] = 0;
  EXPECT(run(0xed905102)); /* ldfs f5, [r0, #8] */
  EXPECT(fpa.f[5] == (double)0.1f);
}

static void expect_arithmetic(void) {
  fpa = (struct fpa_registers){{3, 7, 0, 0, 0, 0, 0, 0}};
  EXPECT(run(0xee102181) && fpa.f[2] == 21);   /* mufd f2, f0, f1 */
  EXPECT(run(0xee022189) && fpa.f[2] == 22);   /* adfd f2, f2, #1.0 */
  EXPECT(run(0xee223180) && fpa.f[3] == 19);   /* sufd f3, f2, f0 */
  EXPECT(run(0xee43318a) && fpa.f[3] == 9.5);  /* dvfd f3, f3, #2.0 */
  EXPECT(run(0xee30510f) && fpa.f[5] == 7);    /* rsfs f5, f0, #10.0 */
  EXPECT(run(0xee00c183) && fpa.f[4] == 9.5);  /* mvfd f4, f3 */
  EXPECT(run(0xee10e184) && fpa.f[6] == -9.5); /* mnfd f6, f4 */
  EXPECT(run(0xee20e186) && fpa.f[6] == 9.5);  /* absd f6, f6 */
  fpa.f[0] = 0.1;
  EXPECT(run(0xee30510f) && fpa.f[5] == (double)(10.0f - 0.1f)); /* single precision rounds each operand */
}

/* What compilers emitted beside the four operations. */
static void expect_the_rest(void) {
  fpa = (struct fpa_registers){{7, 3, 0, 0, 0, 0, 0, 0}};
  EXPECT(run(0xee502181) && fpa.f[2] == 3.0 / 7.0);             /* rdfd f2, f0, f1 */
  EXPECT(run(0xee902101) && fpa.f[2] == 21);                    /* fmls f2, f0, f1 */
  EXPECT(run(0xeea02101) && fpa.f[2] == (double)(7.0f / 3.0f)); /* fdvs f2, f0, f1 */
  EXPECT(run(0xeeb02101) && fpa.f[2] == (double)(3.0f / 7.0f)); /* frds f2, f0, f1 */
  fpa.f[1] = -0.0;
  EXPECT(run(0xee20a181) && fpa.f[2] == 0 && !signbit(fpa.f[2])); /* absd f2, f1 */
  EXPECT(run(0xee40a181) && fpa.f[2] == 0 && signbit(fpa.f[2]));  /* sqtd f2, f1 */
}

static bool is_same(double a, double b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* Roots and remainders, to the last bit as the mathematical library has them. */
static void expect_roots_and_remainders(void) {
  static const double values[] = {0,
                                  1,
                                  2,
                                  -1,
                                  -0.0,
                                  0.1,
                                  3,
                                  1e300,
                                  1e-300,
                                  5e-324,
                                  0x1p1023,
                                  0x1.fffffffffffffp1023,
                                  0x1.0000000000001p0,
                                  0x1.fffffffffffffp-1,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  7.5,
                                  2.5,
                                  -7.5,
                                  1e22,
                                  0x1.8p-1022,
                                  0x1.fffffffffffffp53};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    fpa.f[1] = values[i];
    EXPECT(run(0xee40a181) && is_same(fpa.f[2], sqrt(values[i])));                 /* sqtd f2, f1 */
    EXPECT(run(0xee40a101) && is_same(fpa.f[2], (double)sqrtf((float)values[i]))); /* sqts f2, f1 */
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
      fpa.f[0] = values[k];
      EXPECT(run(0xee802181) && is_same(fpa.f[2], remainder(values[k], values[i]))); /* rmfd f2, f0, f1 */
    }
  }
}

static void expect_integers(void) {
  core.r[3] = (uint32_t)-12;
  EXPECT(run(0xee073190) && fpa.f[7] == -12); /* fltd f7, r3 */
  static const struct {
    double value;
    int32_t nearest, truncated;
  } cases[] = {{9.5, 10, 9}, {8.5, 8, 8}, {-9.5, -10, -9}, {-8.5, -8, -8}, {-0.2, 0, 0}, {2.7, 3, 2}, {-2.7, -3, -2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fpa.f[3] = cases[i].value;
    EXPECT(run(0xee104113) && (int32_t)core.r[4] == cases[i].nearest);   /* fix r4, f3 */
    EXPECT(run(0xee105173) && (int32_t)core.r[5] == cases[i].truncated); /* fixz r5, f3 */
  }
}

/* Each of the four ways to round, and what no integer can hold. */
static void expect_integers_of_any_number(void) {
  static const struct {
    double value;
    int32_t nearest, up, down, cut;
  } cases[] = {{2.5, 2, 3, 2, 2},
               {-2.5, -2, -2, -3, -2},
               {-0.2, 0, 0, -1, 0},
               {2147483647.5, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX},
               {-2147483648.5, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN},
               {1e10, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX},
               {-1e10, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN},
               {-INFINITY, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN},
               {NAN, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fpa.f[3] = cases[i].value;
    EXPECT(run(0xee104113) && (int32_t)core.r[4] == cases[i].nearest); /* fix r4, f3 */
    EXPECT(run(0xee104133) && (int32_t)core.r[4] == cases[i].up);      /* fixp r4, f3 */
    EXPECT(run(0xee104153) && (int32_t)core.r[4] == cases[i].down);    /* fixm r4, f3 */
    EXPECT(run(0xee104173) && (int32_t)core.r[4] == cases[i].cut);     /* fixz r4, f3 */
  }
  core.r[3] = 0x7fffffff;
  EXPECT(run(0xee073110) && fpa.f[7] == 0x1p31); /* flts f7, r3 */
}

static uint32_t flags_of(double a, double b) {
  fpa.f[2] = a;
  fpa.f[0] = b;
  core.cpsr = V | 0x10;
  EXPECT(run(0xee92f110)); /* cmf f2, f0 */
  EXPECT((core.cpsr & 0x1f) == 0x10);
  return core.cpsr & 0xf0000000u;
}

static void expect_comparisons(void) {
  EXPECT(flags_of(1, 2) == N);
  EXPECT(flags_of(2, 2) == (Z | C));
  EXPECT(flags_of(3, 2) == C);
  EXPECT(flags_of(NAN, 2) == V);
}

/* adfeqd and adfgtd f0, f0, f0: stepped over either way, done only where the flags say so. */
static void expect_conditions(void) {
  static const struct {
    uint32_t instruction, flags;
    double result;
  } cases[] = {{0x0e000180, Z, 2}, {0x0e000180, 0, 1}, {0xce000180, 0, 2},
               {0xce000180, Z, 1}, {0xce000180, N, 1}, {0xce000180, N | V, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fpa.f[0] = 1;
    core.cpsr = cases[i].flags;
    EXPECT(run(cases[i].instruction) && fpa.f[0] == cases[i].result && core.r[15] == address_of(1));
  }
}

static void expect_refusals(void) {
  static const uint32_t foreign[] = {
      0xe1a00000, /* mov r0, r0 */
      0xee300b01, /* VFP: vadd.f64 */
      0xee182181, /* muf, extended precision */
      0xecf18102, /* ldfp: packed */
      0xfe102181, /* never */
      0xee0021e1, /* adfdz: toward zero */
      0xee102121, /* mufsp: up */
      0xee40a1c1, /* sqtdm: down */
      0xee0731f0, /* fltdz */
      0xee0f3110, /* flte: extended precision */
      0xee902181, /* fmld: compilers emitted it in single precision only */
      0xee30a181, /* rndd */
      0xed2d420c, /* sfm */
      0xed6d4103, /* stfe */
      0xee300110, /* rfs: the status */
  };
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
    EXPECT(!run(foreign[i]));
    EXPECT(core.r[15] == address_of(0));
  }
}

int main(void) {
  memory = mmap((void *)(uintptr_t)0x20000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || (uint64_t)(uintptr_t)memory >> 32) return 1;
  expect_transfers();
  expect_arithmetic();
  expect_the_rest();
  expect_roots_and_remainders();
  expect_integers();
  expect_integers_of_any_number();
  expect_comparisons();
  expect_conditions();
  expect_refusals();
  return failures;
}
