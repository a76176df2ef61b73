/* SPDX-License-Identifier: Apache-2.0
 *
 * What the floating-point probes share: data, parameters, and how far a right answer may be from the exact one.
 *
 * The data are random with full mantissas, since an emulated operation takes other paths for zeros and small integers.
 * Both precisions get the same values, which float holds exactly.
 */
#ifndef TOLL_FLOAT_VECTORS_H
#define TOLL_FLOAT_VECTORS_H

#include <float.h>
#include <math.h>

#include "ways.h"

static const char *const precision_names[] = {"float", "double", NULL};
enum { LONGEST_VECTOR = 1 << 20 };

/* Half-octaves: a cache of 48 KiB or 1.5 MiB ends between two powers of two. A transform has no length but these. */
constexpr struct toll_parameter vectors_length(uint64_t most, unsigned per_octave = 2) {
  return {.name = "n",
          .kind = TOLL_COUNT,
          .summary = "length of the vectors",
          .from = 16,
          .to = most,
          .per_octave = per_octave,
          .typical = "1024",
          .refine = true};
}
constexpr struct toll_parameter vectors_precision = {.name = "precision",
                                                     .kind = TOLL_CHOICE,
                                                     .summary = "width of the floating-point type",
                                                     .choices = precision_names};
constexpr struct toll_parameter vectors_way = {.name = "way",
                                               .kind = TOLL_CHOICE,
                                               .summary = "instructions of an FPU, calls of a library, or traps",
                                               .choices = way_names,
                                               .typical = WAYS_OWN};

inline bool vectors_single(const struct toll_run *r) {
  return toll_choice(r, "precision") == 0;
}

inline size_t vectors_width(const struct toll_run *r) {
  return vectors_single(r) ? sizeof(float) : sizeof(double);
}

/* An array of `count` numbers of the visit's precision. The colour keeps streams of one probe from meeting in the same
 * cache sets and from looking like one another's stores to the load unit, which compares the low 12 address bits. */
inline void *vectors_array(struct toll_run *r, size_t count, unsigned colour) {
  struct toll_buffer_request request = {count * vectors_width(r), TOLL_PAGES_ANY, 0, colour, false, false};
  return toll_buffer(r, request);
}

/* The old ARM ABI's accelerator keeps a double's high word first. */
inline uint64_t vectors_order(const struct toll_run *r, uint64_t bits) {
  return ways_high_word_first(r) ? bits << 32 | bits >> 32 : bits;
}

inline void vectors_put(const struct toll_run *r, void *array, size_t i, double value) {
  uint64_t bits;
  if (vectors_single(r)) {
    static_cast<float *>(array)[i] = static_cast<float>(value);
    return;
  }
  memcpy(&bits, &value, sizeof bits);
  static_cast<uint64_t *>(array)[i] = vectors_order(r, bits);
}

inline long double vectors_get(const struct toll_run *r, const void *array, size_t i) {
  double value;
  if (vectors_single(r)) return static_cast<const float *>(array)[i];
  const uint64_t bits = vectors_order(r, static_cast<const uint64_t *>(array)[i]);
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Uniform in -1..1, a multiple of 2^-23. */
inline double vectors_random(uint64_t *random) {
  return static_cast<double>(static_cast<int32_t>(toll_random(random) >> 40)) / 8388608.0 - 1.0;
}

inline void vectors_fill(const struct toll_run *r, void *array, size_t count, uint64_t *random) {
  for (size_t i = 0; i < count; i++) vectors_put(r, array, i, vectors_random(random));
}

/* Clears the output, so that no earlier result passes for a later one. */
inline void vectors_forget(const struct toll_run *r, void *array, size_t count) {
  for (size_t i = 0; i < count; i++) vectors_put(r, array, i, static_cast<double>(NAN));
}

/* Rounding errors of a sum of n terms of total size `magnitude` are a random walk: they stay within lambda sqrt(n) u of
 * it but for a probability that falls as exp(-lambda^2 / 2) (Higham and Mary 2019). With the worst-case bound n u, a
 * missing term of a long vector would go unnoticed. lambda is 8. */
inline long double vectors_tolerance(const struct toll_run *r, size_t terms, long double magnitude) {
  const double epsilon = vectors_single(r) ? static_cast<double>(FLT_EPSILON) : DBL_EPSILON;
  return 8 * sqrtl(static_cast<long double>(terms)) * epsilon / 2 * magnitude;
}

#endif
