! SPDX-License-Identifier: Apache-2.0
! Local registers are the caller's here, and may have changed when it comes back: %g2 has the buffer both times.
.global sigsetjmp, __sigsetjmp
.hidden ___setjmp, __sigsetjmp_tail
sigsetjmp:
__sigsetjmp:
	tst %o1
	be ___setjmp
	 nop
	st %o7, [%o0 + 12]
	call ___setjmp
	 nop
	mov %o0, %o1
	mov %g2, %o0
	ld [%o0 + 12], %g1
	call __sigsetjmp_tail
	 mov %g1, %o7
	.section .note.GNU-stack, "", @progbits
