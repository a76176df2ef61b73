! SPDX-License-Identifier: Apache-2.0
! Trap 3 writes every window to its place on the stack, the caller's included. The buffer's address stays in %g2.
.global ___setjmp, __setjmp, _setjmp, setjmp
.hidden ___setjmp
___setjmp:
__setjmp:
_setjmp:
setjmp:
	ta 3
	mov %o0, %g2
	st %sp, [%o0]
	st %fp, [%o0 + 4]
	st %o7, [%o0 + 8]
	retl
	 mov 0, %o0
	.section .note.GNU-stack, "", @progbits
