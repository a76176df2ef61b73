/* SPDX-License-Identifier: Apache-2.0
 *
 * What a probe says that is compiled with a library (`.library`), where that or the ABI's own C++ library is not there.
 *
 * Such a probe compiles for every ABI all the same: it asks by __has_include what it can be made of. TOLL_CXX_LIBRARY is 1
 * where the C++ library of this very ABI is there: its headers are common to several, all but this one.
 */
#ifndef TOLL_LIBRARY_H
#define TOLL_LIBRARY_H

#include "toll.h"

#if defined(__cplusplus) && __has_include(<bits/c++config.h>)
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

/* Of an archive in C whose package is pinned for one machine, and links with its glibc alone (probes/libraries.toml). */
static inline enum toll_status toll_archive_missing(struct toll_run *r, const char *library) {
#if defined(__x86_64__) && defined(__LP64__) && defined(__GLIBC__)
  return toll_library_missing(r, library);
#else
  return toll_skip(r, "%s is linked in for x86_64 with glibc alone: Debian's package of it is pinned for that",
                   library);
#endif
}

#endif
