! SPDX-License-Identifier: Apache-2.0
.global __unmapself
__unmapself:
	mov 215, %g1    ! munmap
	ta 0x10
	mov 93, %g1     ! exit
	ta 0x10
	.section .note.GNU-stack, "", @progbits
