/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU can do, asked at run time: one executable carries the kernels of every vector width.
 */
#include <string.h>
#include <sys/auxv.h>

#include "toll.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

static bool erms(void) { /* leaf 7, EBX bit 9: fast `rep movsb` (Intel SDM vol. 2, CPUID) */
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 9 & 1);
}

static bool clflushopt(void) { /* leaf 7, EBX bit 23 */
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 23 & 1);
}

static bool clflush(void) { /* leaf 1, EDX bit 19 */
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (d >> 19 & 1);
}

/* The compiler's own test also asks whether the system saves the wide registers (XGETBV). */
bool toll_cpu_has(const char *feature) {
  __builtin_cpu_init();
  if (strcmp(feature, "sse2") == 0) return __builtin_cpu_supports("sse2");
  if (strcmp(feature, "avx") == 0) return __builtin_cpu_supports("avx");
  if (strcmp(feature, "avx2") == 0) return __builtin_cpu_supports("avx2");
  if (strcmp(feature, "avx512f") == 0) return __builtin_cpu_supports("avx512f");
  if (strcmp(feature, "fma") == 0) return __builtin_cpu_supports("fma");
  if (strcmp(feature, "erms") == 0) return erms();
  if (strcmp(feature, "clflush") == 0) return clflush();
  if (strcmp(feature, "clflushopt") == 0) return clflushopt();
  return false;
}
#elif defined(__aarch64__)
static bool dc_zva(void) { /* DCZID_EL0 bit 4: prohibited */
  uint64_t id;
  __asm__("mrs %0, dczid_el0" : "=r"(id));
  return !(id >> 4 & 1);
}

bool toll_cpu_has(const char *feature) {
  const unsigned long atomics = 1ul << 8, sve = 1ul << 22; /* HWCAP_ATOMICS, HWCAP_SVE */
  if (strcmp(feature, "neon") == 0) return true;
  if (strcmp(feature, "sve") == 0) return (getauxval(AT_HWCAP) & sve) != 0;
  if (strcmp(feature, "dczva") == 0) return dc_zva();
  return strcmp(feature, "atomics") == 0 && (getauxval(AT_HWCAP) & atomics);
}
#elif defined(__arm__)
bool toll_cpu_has(const char *feature) {
  const unsigned long vfp = 1ul << 6, neon = 1ul << 12; /* HWCAP_VFP, HWCAP_NEON */
  if (strcmp(feature, "vfp") == 0) return (getauxval(AT_HWCAP) & vfp) != 0;
  return strcmp(feature, "neon") == 0 && (getauxval(AT_HWCAP) & neon);
}
#elif defined(__riscv)
bool toll_cpu_has(const char *feature) { /* a bit for each letter of the ISA */
  return strcmp(feature, "rvv") == 0 && (getauxval(AT_HWCAP) >> ('V' - 'A') & 1);
}
#else
bool toll_cpu_has(const char *feature) {
  (void)feature;
  return false;
}
#endif
