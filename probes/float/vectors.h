/* SPDX-License-Identifier: Apache-2.0
 *
 * What the floating-point probes share: data, precision, and how far a right answer may be from the exact one.
 *
 * The data are random with full mantissas, since an emulated operation takes other paths for zeros and small integers.
 * Both precisions get the same values, which float holds exactly. One source serves hardware, software and trapped
 * floating point: which of them it becomes is the ABI's choice.
 */
#ifndef TOLL_FLOAT_VECTORS_H
#define TOLL_FLOAT_VECTORS_H

#include <float.h>
#include <math.h>

#include "toll.h"

enum precision { PRECISION_FLOAT, PRECISION_DOUBLE };

#define VECTORS_N_PARAMETER(most)                                                                                   \
  {                                                                                                                 \
    .name = "n", .kind = TOLL_COUNT, .summary = "length of the vectors", .from = 16, .to = (most), .per_octave = 1, \
    .typical = "1024", .refine = true                                                                               \
  }
#define VECTORS_PRECISION_PARAMETER \
  { .name = "precision", .kind = TOLL_CHOICE, .summary = "width of the floating-point type", .choices = precisions }

static const char *const precisions[] = {"float", "double", NULL};

/* An array of `count` numbers of the visit's precision. The colour keeps streams of one probe from meeting in the same
 * cache sets and from looking like one another's stores to the load unit, which compares the low 12 address bits. */
static inline void *vectors_array(struct toll_run *r, size_t count, unsigned colour) {
  const size_t width = toll_choice(r, "precision") == PRECISION_FLOAT ? sizeof(float) : sizeof(double);
  return toll_buffer(r,
                     (struct toll_buffer_request){.bytes = count * width, .pages = TOLL_PAGES_ANY, .colour = colour});
}

/* Uniform in -1..1, a multiple of 2^-23. */
static inline double vectors_random(uint64_t *random) {
  return (double)(int32_t)(toll_random(random) >> 40) / 8388608.0 - 1.0;
}

static inline void vectors_fill(struct toll_run *r, void *array, size_t count, uint64_t *random) {
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  for (size_t i = 0; i < count; i++) {
    const double value = vectors_random(random);
    if (single)
      ((float *)array)[i] = (float)value;
    else
      ((double *)array)[i] = value;
  }
}

/* Nothing of an earlier run may pass for a later one's result. */
static inline void vectors_forget(const struct toll_run *r, void *array, size_t count) {
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  for (size_t i = 0; i < count; i++) {
    if (single)
      ((float *)array)[i] = NAN;
    else
      ((double *)array)[i] = (double)NAN;
  }
}

static inline long double vectors_get(const struct toll_run *r, const void *array, size_t i) {
  return toll_choice(r, "precision") == PRECISION_FLOAT ? (long double)((const float *)array)[i]
                                                        : (long double)((const double *)array)[i];
}

/* Rounding errors of a sum of n terms of total size `magnitude` are a random walk: they stay within lambda sqrt(n) u of it
 * but for a probability that falls as exp(-lambda^2 / 2) (Higham and Mary 2019). The worst case n u would hide a missing
 * term of a long vector. lambda is 8. */
static inline long double vectors_tolerance(const struct toll_run *r, size_t terms, long double magnitude) {
  const bool single = toll_choice(r, "precision") == PRECISION_FLOAT;
  return 8 * sqrtl((long double)terms) * (single ? FLT_EPSILON : DBL_EPSILON) / 2 * magnitude;
}

#endif
