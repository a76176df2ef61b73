/* SPDX-License-Identifier: Apache-2.0 */

  .text
  .globl _start
_start:
  mov %rsp, %rdi
  and $-16, %rsp
  call load_program

/* long native_6(number, a, b, c, d, e, f) */
  .globl native_6
native_6:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
  ret

/* void enter_program(entry, stack, old, bytes): takes the stack that the kernel gave the loader away, as the program has
 * another. rdx is what atexit(3) gets, nothing. */
  .globl enter_program
enter_program:
  mov %rsi, %rsp
  mov %rdi, %rbx
  mov %rdx, %rdi
  mov %rcx, %rsi
  mov $11, %eax
  syscall
  xor %edx, %edx
  xor %ebp, %ebp
  jmp *%rbx

/* Where a handler of the loader returns to: rt_sigreturn(2). */
  .globl return_from_signal
return_from_signal:
  mov $15, %eax
  syscall

/* long clone_onto(flags, stack, parent, child, storage, struct resumed *at)
 * The new thread runs on its own stack, below which `at` lies with the registers of the call. */
  .globl clone_onto
clone_onto:
  mov %rcx, %r10
  push %r12
  mov %r9, %r12
  mov $56, %eax
  syscall
  test %rax, %rax
  jz 1f
  pop %r12
  ret
1:
  mov %r12, %rsp
  and $-16, %rsp
  call process_dispatch
  mov %r12, %r11
  mov (%r11), %rbx
  mov 8(%r11), %rbp
  mov 16(%r11), %rdi
  mov 24(%r11), %rsi
  mov 32(%r11), %rdx
  mov 40(%r11), %r8
  mov 48(%r11), %r9
  mov 56(%r11), %r10
  mov 64(%r11), %r12
  mov 72(%r11), %r13
  mov 80(%r11), %r14
  mov 88(%r11), %r15
  mov 96(%r11), %rsp
  mov 104(%r11), %r11
  xor %eax, %eax
  jmp *%r11

/* The x32 vDSO, as the program's C library looks for it. */
  .section .rodata
  .globl vdso_image, vdso_image_end
  .balign 16
vdso_image:
  .incbin VDSO
vdso_image_end:

  .section .note.GNU-stack,"",@progbits
