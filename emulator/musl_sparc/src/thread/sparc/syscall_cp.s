! SPDX-License-Identifier: Apache-2.0
! (cancel, number, six arguments): the last two lie on the caller's stack.
.global __cp_begin, __cp_end, __cp_cancel, __syscall_cp_asm
.hidden __cp_begin, __cp_end, __cp_cancel, __cancel, __syscall_cp_asm
__syscall_cp_asm:
__cp_begin:
	ld [%o0], %o0
	tst %o0
	bne __cp_cancel
	 mov %o1, %g1
	mov %o2, %o0
	mov %o3, %o1
	mov %o4, %o2
	mov %o5, %o3
	ld [%sp + 92], %o4
	ld [%sp + 96], %o5
	ta 0x10
__cp_end:
	retl
	 nop
__cp_cancel:
	mov %o7, %g1
	call __cancel
	 mov %g1, %o7
	.section .note.GNU-stack, "", @progbits
