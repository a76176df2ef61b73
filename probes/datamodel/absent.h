/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a probe whose library is missing: it is skipped with the library's name, ABSENT.
 */
#ifndef TOLL_DATAMODEL_ABSENT_H
#define TOLL_DATAMODEL_ABSENT_H

#include "library.h"

namespace {

struct State {};

enum toll_status prepare(struct toll_run *r) {
  return toll_library_missing(r, ABSENT);
}
void work_on(struct toll_run *) {}
enum toll_status check(struct toll_run *) {
  return TOLL_OK;
}
[[maybe_unused]] void finish(struct toll_run *) {}
[[maybe_unused]] void work(const struct toll_run *, struct toll_work *) {}

}  // namespace

#endif
