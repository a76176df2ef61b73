/* SPDX-License-Identifier: Apache-2.0
 *
 * The reason that a probe with a library (`.library`) gives if the library, or the ABI's C++ library, is missing.
 *
 * The probe compiles for every ABI all the same: __has_include tests what is available. TOLL_CXX_LIBRARY is 1 if the
 * C++ library of this ABI is installed. Several ABIs share its headers, except the one that is tested.
 */
#ifndef TOLL_LIBRARY_H
#define TOLL_LIBRARY_H

#include "toll.h"

#if defined(__cplusplus) && (__has_include(<bits/c++config.h>) || __has_include(<__config>))
#define TOLL_CXX_LIBRARY 1
#else
#define TOLL_CXX_LIBRARY 0
#endif

static inline enum toll_status toll_library_missing(struct toll_run *r, const char *library) {
#ifdef __cplusplus
  if (!TOLL_CXX_LIBRARY) return toll_skip(r, "%s needs the C++ library, and this ABI has none here", library);
#endif
  return toll_skip(
      r, "%s is not here for this ABI: ./toll run brings it when it can reach Debian, which may not have it", library);
}

/* For a C library whose package is pinned for one architecture and links with its glibc only
 * (probes/libraries.toml). */
static inline enum toll_status toll_archive_missing(struct toll_run *r, const char *library) {
#if defined(__x86_64__) && defined(__LP64__) && defined(__GLIBC__)
  return toll_library_missing(r, library);
#else
  return toll_skip(r, "%s is linked in for x86_64 with glibc alone: Debian's package of it is pinned for that",
                   library);
#endif
}

#endif
