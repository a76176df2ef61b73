/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry of a probe's executable. Apart from main.c, so that a test can bring its own.
 */
#include "internal.h"

int main(int count, char **words) {
  return toll_main(&toll_probe, count, words);
}
