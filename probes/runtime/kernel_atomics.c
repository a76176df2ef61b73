// SPDX-License-Identifier: Apache-2.0
//
// Atomic operations of a CPU without exclusive loads (ARMv4T, ARMv5), which Clang's library leaves out there and gcc's has.
// The kernel maps a compare-and-swap for such CPUs at a fixed address, and restarts what it interrupts in there: Linux
// Documentation/arch/arm/kernel_user_helpers.rst. Names and meanings are those of gcc's __sync builtins.
#if defined __arm__ && defined __clang__ && __ARM_ARCH < 6

#define KERNEL_CMPXCHG   ((int (*)(unsigned was, unsigned becomes, volatile unsigned *at))0xffff0fc0)
#define KERNEL_BARRIER   ((void (*)(void))0xffff0fa0)
#define BITS_OF_BYTE(at) (8 * ((unsigned)(at)&3))  // little-endian

void kernel_barrier(void) __asm__("__sync_synchronize");
void kernel_barrier(void) {
  KERNEL_BARRIER();
}

// Replaces the masked bits of a word by those of `becomes`: always, or only if they equal those of `was`. Returns the
// former word.
static unsigned exchange(volatile unsigned *at, unsigned mask, const unsigned *was, unsigned becomes) {
  for (;;) {
    unsigned seen = *at;
    if (was && (seen & mask) != (*was & mask)) return seen;
    if (KERNEL_CMPXCHG(seen, (seen & ~mask) | (becomes & mask), at) == 0) return seen;
  }
}

static unsigned char exchange_byte(volatile unsigned char *at, const unsigned char *was, unsigned char becomes) {
  unsigned bits = BITS_OF_BYTE(at), shifted = was ? (unsigned)*was << bits : 0;
  volatile unsigned *word = (volatile unsigned *)((unsigned)at & ~3u);
  return (unsigned char)(exchange(word, 0xffu << bits, was ? &shifted : 0, (unsigned)becomes << bits) >> bits);
}

unsigned compare_and_swap_word(volatile unsigned *at, unsigned was,
                               unsigned becomes) __asm__("__sync_val_compare_and_swap_4");
unsigned compare_and_swap_word(volatile unsigned *at, unsigned was, unsigned becomes) {
  return exchange(at, ~0u, &was, becomes);
}

unsigned char compare_and_swap_byte(volatile unsigned char *at, unsigned char was,
                                    unsigned char becomes) __asm__("__sync_val_compare_and_swap_1");
unsigned char compare_and_swap_byte(volatile unsigned char *at, unsigned char was, unsigned char becomes) {
  return exchange_byte(at, &was, becomes);
}

unsigned swap_word(volatile unsigned *at, unsigned becomes) __asm__("__sync_lock_test_and_set_4");
unsigned swap_word(volatile unsigned *at, unsigned becomes) {
  return exchange(at, ~0u, 0, becomes);
}

unsigned char swap_byte(volatile unsigned char *at, unsigned char becomes) __asm__("__sync_lock_test_and_set_1");
unsigned char swap_byte(volatile unsigned char *at, unsigned char becomes) {
  return exchange_byte(at, 0, becomes);
}

unsigned fetch_and_add(volatile unsigned *at, unsigned more) __asm__("__sync_fetch_and_add_4");
unsigned fetch_and_add(volatile unsigned *at, unsigned more) {
  unsigned seen;
  do seen = *at;
  while (KERNEL_CMPXCHG(seen, seen + more, at) != 0);
  return seen;
}

#endif
