/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry of a probe's executable. In a file of its own, so that a test can replace it.
 */
#include "internal.h"

int main(int count, char **words) {
  return toll_main(&toll_probe, count, words);
}
