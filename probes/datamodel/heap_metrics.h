/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes that a program requested from malloc, and the bytes that malloc took for them: for the objects alive at the
 * end (heap.h), or at the peak (blocks.h).
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
