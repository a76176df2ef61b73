/* SPDX-License-Identifier: Apache-2.0
 *
 * The radix-2 transform of Cooley and Tukey (1965), decimation in time, once for each precision: define REAL and
 * TRANSFORM and include it.
 *
 * Input and output are n complex numbers, real and imaginary part side by side; turns holds exp(-2 pi i k / n) for
 * k < n/2; place[k] is k with its bits reversed. The input is read in bit-reversed order and left as it was, so that a
 * second run transforms the same numbers and no value grows from run to run.
 */
TOLL_APART static void TRANSFORM(const REAL *input, REAL *output, const REAL *turns, const uint32_t *place, size_t n) {
  for (size_t k = 0; k < n; k++) {
    output[2 * k] = input[2 * (size_t)place[k]];
    output[2 * k + 1] = input[2 * (size_t)place[k] + 1];
  }
  for (size_t half = 1; half < n; half *= 2)
    for (size_t start = 0; start < n; start += 2 * half)
      for (size_t k = 0; k < half; k++) {
        REAL *a = output + 2 * (start + k), *b = a + 2 * half;
        const REAL *turn = turns + n / half * k;
        const REAL re = b[0] * turn[0] - b[1] * turn[1], im = b[0] * turn[1] + b[1] * turn[0];
        b[0] = a[0] - re, b[1] = a[1] - im;
        a[0] += re, a[1] += im;
      }
}
