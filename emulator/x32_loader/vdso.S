/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that a kernel with x32 has in its vDSO. Each goes on in the native one, whose address the loader writes
 * into the table, which the image names as its entry point: the two are the same in 64-bit mode once pointers are
 * widened. */

  .text
  .macro function name, slot
  .globl __vdso_\name
  .type __vdso_\name, @function
__vdso_\name:
  mov %edi, %edi
  mov %esi, %esi
  mov %edx, %edx
  jmp *(table + 8 * \slot)(%rip)
  .size __vdso_\name, . - __vdso_\name
  .endm

  function clock_gettime, 0
  function clock_getres, 1
  function gettimeofday, 2
  function time, 3
  function getcpu, 4

  .balign 8
  .globl native_functions
native_functions:
table:
  .quad 0, 0, 0, 0, 0

  .section .note.GNU-stack,"",@progbits
