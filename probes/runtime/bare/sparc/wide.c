/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler's own routines for numbers of 64 bits and for what SPARC V8 has no instruction for. Debian's libgcc has
 * them in instructions of V9 alone.
 */
#include <stdint.h>

union wide {
  uint64_t whole;
  struct {
    uint32_t high, low;
  };
};

uint64_t __ashldi3(uint64_t value, int places) {
  union wide w = {value};
  if (places == 0) return value;
  if (places >= 32) return (union wide){.high = w.low << (places - 32), .low = 0}.whole;
  return (union wide){.high = w.high << places | w.low >> (32 - places), .low = w.low << places}.whole;
}

uint64_t __lshrdi3(uint64_t value, int places) {
  union wide w = {value};
  if (places == 0) return value;
  if (places >= 32) return (union wide){.high = 0, .low = w.high >> (places - 32)}.whole;
  return (union wide){.high = w.high >> places, .low = w.low >> places | w.high << (32 - places)}.whole;
}

int64_t __ashrdi3(int64_t value, int places) {
  union wide w = {(uint64_t)value};
  const uint32_t sign = (uint32_t)((int32_t)w.high >> 31);
  if (places == 0) return value;
  if (places >= 32)
    return (int64_t)(union wide){.high = sign, .low = (uint32_t)((int32_t)w.high >> (places - 32))}.whole;
  return (int64_t)(union wide){.high = (uint32_t)((int32_t)w.high >> places),
                               .low = w.low >> places | w.high << (32 - places)}
      .whole;
}

uint64_t __muldi3(uint64_t a, uint64_t b) {
  union wide x = {a}, y = {b}, product;
  __asm__("umul %2, %3, %0\n\trd %%y, %1" : "=&r"(product.low), "=r"(product.high) : "r"(x.low), "r"(y.low));
  product.high += x.high * y.low + x.low * y.high;
  return product.whole;
}

int __clzsi2(uint32_t value) {
  int zeros = 0;
  if (!value) return 32;
  for (int half = 16; half; half /= 2)
    if (!(value >> (32 - half))) value <<= half, zeros += half;
  return zeros;
}

int __clzdi2(uint64_t value) {
  const union wide w = {value};
  return w.high ? __clzsi2(w.high) : 32 + __clzsi2(w.low);
}

int __ctzsi2(uint32_t value) {
  return 31 - __clzsi2(value & -value);
}

int __ctzdi2(uint64_t value) {
  const union wide w = {value};
  return w.low ? __ctzsi2(w.low) : 32 + __ctzsi2(w.high);
}

int __popcountsi2(uint32_t value) {
  int ones = 0;
  for (; value; value &= value - 1) ones++;
  return ones;
}

int __popcountdi2(uint64_t value) {
  const union wide w = {value};
  return __popcountsi2(w.high) + __popcountsi2(w.low);
}

uint32_t __bswapsi2(uint32_t value) {
  return value << 24 | (value & 0xff00) << 8 | (value >> 8 & 0xff00) | value >> 24;
}

uint64_t __bswapdi2(uint64_t value) {
  const union wide w = {value};
  return (union wide){.high = __bswapsi2(w.low), .low = __bswapsi2(w.high)}.whole;
}

/* 64 by 32 bits, whose quotient has 32: the high half is below the divisor. */
static uint32_t divide_by_word(uint32_t high, uint32_t low, uint32_t divisor) {
  uint32_t quotient;
  __asm__("wr %1, 0, %%y\n\tnop\n\tnop\n\tnop\n\tudiv %2, %3, %0" : "=r"(quotient) : "r"(high), "r"(low), "r"(divisor));
  return quotient;
}

/* Where the divisor has a high half the quotient has one word: it is that of the upper words, or one less. */
uint64_t __udivmoddi4(uint64_t value, uint64_t divisor, uint64_t *rest) {
  const union wide n = {value}, d = {divisor};
  union wide quotient = {0};
  if (!d.high) {
    quotient.high = n.high / d.low;
    quotient.low = divide_by_word(n.high - quotient.high * d.low, n.low, d.low);
  } else if (value >= divisor) {
    const int places = __clzsi2(d.high);
    const union wide even = {__ashldi3(divisor, places)}, half = {__lshrdi3(value, 1)};
    quotient.low = (uint32_t)__lshrdi3(divide_by_word(half.high, half.low, even.high), 31 - places);
    if (quotient.low) quotient.low--;
    if (value - __muldi3(quotient.low, divisor) >= divisor) quotient.low++;
  }
  if (rest) *rest = value - __muldi3(quotient.whole, divisor);
  return quotient.whole;
}

uint64_t __udivdi3(uint64_t value, uint64_t divisor) {
  return __udivmoddi4(value, divisor, 0);
}

uint64_t __umoddi3(uint64_t value, uint64_t divisor) {
  uint64_t rest;
  __udivmoddi4(value, divisor, &rest);
  return rest;
}

static uint64_t size_of(int64_t value) {
  return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

int64_t __divdi3(int64_t value, int64_t divisor) {
  const uint64_t quotient = __udivdi3(size_of(value), size_of(divisor));
  return (int64_t)((value ^ divisor) < 0 ? -quotient : quotient);
}

int64_t __moddi3(int64_t value, int64_t divisor) {
  const uint64_t rest = __umoddi3(size_of(value), size_of(divisor));
  return (int64_t)(value < 0 ? -rest : rest);
}
