/* SPDX-License-Identifier: Apache-2.0
 *
 * Put before lwIP's own files where they read a header that has just come: each of its 32-bit fields as two 16-bit loads,
 * which is what was proposed for the stack of suite rtems-2005. The CPUs of today would do with one: where the compiler
 * knows that, alignment alone does not make it read halves.
 */
#ifndef TOLL_ALIGNMENT_HALVES_H
#define TOLL_ALIGNMENT_HALVES_H

#include <lwip/ip4_addr.h>

/* The halves stay apart, or the compiler would join them to one load again. */
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
