/* SPDX-License-Identifier: Apache-2.0
 *
 * Included before those of lwIP's files that read a received header: each 32-bit field is read by two 16-bit loads, as
 * proposed for the stack of suite rtems-2005. Current CPUs need only one load, and a compiler that knows this does not
 * read halves because of alignment alone.
 */
#ifndef TOLL_ALIGNMENT_HALVES_H
#define TOLL_ALIGNMENT_HALVES_H

#include <lwip/ip4_addr.h>

/* The halves are kept separate; otherwise the compiler would merge them into one load. */
static inline uint32_t halves_read(const volatile void *field) {
  typedef uint16_t __attribute__((may_alias)) half;
  uint32_t first = ((const volatile half *)field)[0], second = ((const volatile half *)field)[1];
  __asm__("" : "+r"(first), "+r"(second));
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? first | second << 16 : first << 16 | second;
}

#undef ip4_addr_copy
#define ip4_addr_copy(target, source) ((target).addr = halves_read(&(source).addr))
#undef lwip_ntohl
#define lwip_ntohl(field) PP_NTOHL(halves_read(&(field)))

#endif
