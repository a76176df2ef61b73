/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler's own conversions between numbers of 64 bits and doubles.
 */
#include <stdint.h>

static const double two_to_32 = 4294967296.0;

double __floatundidf(uint64_t value) {
  const uint32_t high = (uint32_t)(value >> 32), low = (uint32_t)value;
  return (double)high * two_to_32 + (double)low;
}

double __floatdidf(int64_t value) {
  return (double)(int32_t)(value >> 32) * two_to_32 + (double)(uint32_t)value;
}

float __floatundisf(uint64_t value) {
  return (float)__floatundidf(value);
}

float __floatdisf(int64_t value) {
  return (float)__floatdidf(value);
}

uint64_t __fixunsdfdi(double value) {
  const uint32_t high = (uint32_t)(value / two_to_32);
  return (uint64_t)high << 32 | (uint32_t)(value - (double)high * two_to_32);
}

int64_t __fixdfdi(double value) {
  return value < 0 ? -(int64_t)__fixunsdfdi(-value) : (int64_t)__fixunsdfdi(value);
}

uint64_t __fixunssfdi(float value) {
  return __fixunsdfdi(value);
}

int64_t __fixsfdi(float value) {
  return __fixdfdi(value);
}
