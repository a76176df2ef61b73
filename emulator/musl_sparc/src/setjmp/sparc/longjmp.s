! SPDX-License-Identifier: Apache-2.0
! No window but this one is in a register after trap 3, so that `restore` fills the caller's of setjmp from its stack.
.global _longjmp, longjmp
_longjmp:
longjmp:
	mov %o0, %g2
	tst %o1
	be,a 1f
	 mov 1, %o1
1:	mov %o1, %g3
	ta 3
	ld [%g2], %fp
	ld [%g2 + 4], %g4
	st %g4, [%fp + 56]    ! the place of %i6
	ld [%g2 + 8], %g4
	sub %fp, 96, %sp
	jmp %g4 + 8
	 restore %g3, 0, %o0
	.section .note.GNU-stack, "", @progbits
