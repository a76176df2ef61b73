/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program asked of malloc, beside what malloc took for it: of the objects alive at the end (heap.h), or of those alive
 * when they were most (blocks.h).
 */
#ifndef TOLL_DATAMODEL_HEAP_METRICS_H
#define TOLL_DATAMODEL_HEAP_METRICS_H

#define HEAP_METRICS                                                                                  \
  {.name = "asked",                                                                                   \
   .unit = "B",                                                                                       \
   .summary = "bytes asked of malloc and alive",                                                      \
   .source = TOLL_GAUGE,                                                                              \
   .means = "asked"},                                                                                 \
  {                                                                                                   \
    .name = "taken", .unit = "B", .summary = "bytes that malloc took for them", .source = TOLL_GAUGE, \
    .means = "footprint"                                                                              \
  }

#endif
