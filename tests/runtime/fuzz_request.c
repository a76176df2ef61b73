/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever arrives on the line, the parser either refuses it with a sentence or leaves a request that is in bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const char toll_probe_name[] = "fuzz.request", toll_abi_name[] = "test", toll_build_flags[] = "none";

static const char *const words[] = {"small", "huge", "local", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "size", .kind = TOLL_SIZE, .from = 1024}, {.name = "pages", .kind = TOLL_CHOICE, .choices = words}, {0}};
static const struct toll_probe probe = {.question = "none", .parameters = parameters};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct toll_request request;
  char error[TOLL_REASON_BYTES] = "", *line = malloc(size + 1);
  if (!line) return 0;
  memcpy(line, data, size);
  line[size] = '\0';
  bool read = toll_request_line(&probe, &request, line, error, sizeof error);
  free(line);
  if (read != (error[0] == '\0')) abort();
  if (!read) return 0;
  if (request.settings[1].choice > 2 || request.cpu_count > TOLL_MOST_CPUS || request.samples < 1) abort();
  if (!memchr(request.target, '\0', sizeof request.target)) abort();
  return 0;
}
