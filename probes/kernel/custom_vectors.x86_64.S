/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole guest: a kernel of one page, a program of one page, an object of one page. The host copies them to the addresses
 * that vectors_guest.h tells; nothing here runs in the probe itself.
 *
 * A fault pushes, from the stack's top: an error code, rip, cs, flags, rsp, ss (Intel SDM 3A, 6.14).
 */
#include "vectors_guest.h"

	.section .rodata
	.balign 4096
	.global guest_image, guest_image_end, guest_fault, guest_fault_kept, guest_call, guest_gate
	.global guest_turns, guest_stores, guest_calls, guest_gates
guest_image:

guest_call:                  /* test C, by syscall */
	sysretq
	.balign 16
guest_gate:                  /* and through the interrupt table */
	iretq

#define STORE_BYTES 2 /* mov %eax, (%rdi) */
#define SAVED(word) GUEST_SAVED + 8 * word

	.macro again kept
	.if \kept
	mov GUEST_KEPT, %rax
	.else
	mov %cr2, %rax
	.endif
	.endm

	.macro on_fault name, kept
	.balign 64
\name:
	cmpl $VECTORS_AT_ONCE, %r12d
	je past                    /* test B1 */
	testb $3, 16(%rsp)
	jz own
	cmpl $VECTORS_AFTER_MODE, %r12d
	je past                    /* test B2 */
	push %rax
	mov %cr2, %rax
	.if \kept
	mov %rax, GUEST_KEPT
	.endif
	cmp $VECTORS_RETURN, %rax
	je past_pushed             /* test B */
	again \kept
	cmp $VECTORS_ANSWER, %rax
	je answer
	again \kept
	cmp $VECTORS_OTHER_MAP, %rax
	jbe ask                    /* test D */
	jmp own
	.endm

	on_fault guest_fault, 0
	on_fault guest_fault_kept, 1

past_pushed:
	pop %rax
past:
	addq $STORE_BYTES, 8(%rsp)
	add $8, %rsp
	iretq

own:                         /* no fault that was meant: the host sees the halt */
	hlt

ask:
	mov %rbx, SAVED(0)
	mov %rbp, SAVED(1)
	mov %r12, SAVED(2)
	mov %r13, SAVED(3)
	mov %r14, SAVED(4)
	mov %r15, SAVED(5)
	mov 16(%rsp), %rbx
	mov %rbx, SAVED(6)         /* rip */
	mov 32(%rsp), %rbx
	mov %rbx, SAVED(7)         /* flags */
	mov 40(%rsp), %rbx
	mov %rbx, SAVED(8)         /* rsp */
	mov %rax, SAVED(9)         /* what was asked */
	cmp $VECTORS_OTHER_MAP, %rax
	jne 1f
	mov GUEST_OBJECT_CR3, %rbx
	mov %rbx, %cr3
1:	xor %ebx, %ebx             /* nothing of the kernel's for the object */
	movq $GUEST_OBJECT, 16(%rsp)
	pop %rax
	add $8, %rsp
	iretq

answer:
	cmpq $VECTORS_OTHER_MAP, SAVED(9)
	jne 1f
	mov GUEST_CALLER_CR3, %rbx
	mov %rbx, %cr3
1:	mov SAVED(6), %rbx
	add $STORE_BYTES, %rbx
	mov %rbx, 16(%rsp)
	mov SAVED(7), %rbx
	mov %rbx, 32(%rsp)
	mov SAVED(8), %rbx
	mov %rbx, 40(%rsp)
	mov SAVED(0), %rbx
	mov SAVED(1), %rbp
	mov SAVED(2), %r12
	mov SAVED(3), %r13
	mov SAVED(4), %r14
	mov SAVED(5), %r15
	pop %rax                   /* the object's answer */
	add $8, %rsp
	iretq

/* ---- the program: rbx turns, rdi where it stores, r12 the magic number, eax the answer ---------------------------- */

	.org guest_image + GUEST_PROGRAM - GUEST_CODE
guest_turns:                 /* test A */
1:	dec %rbx
	jnz 1b
	out %eax, $GUEST_PORT
	.balign 32
guest_stores:
1:	mov %eax, (%rdi)
	dec %rbx
	jnz 1b
	out %eax, $GUEST_PORT
	.balign 32
guest_calls:
1:	syscall
	dec %rbx
	jnz 1b
	out %eax, $GUEST_PORT
	.balign 32
guest_gates:
1:	int $GUEST_GATE
	dec %rbx
	jnz 1b
	out %eax, $GUEST_PORT

/* ---- the object: no string, and it knows whose map it is in ------------------------------------------------------- */

#define STRING 0x53545200
	.org guest_image + GUEST_OBJECT - GUEST_CODE
object:
	mov object + VECTORS_MAP_WORD(%rip), %eax
	xor %edx, %edx
	cmpl $STRING, kind(%rip)
	sete %dl
	lea (%rdx, %rax, 2), %eax
	mov $VECTORS_ANSWER, %esi
	mov %eax, (%rsi)
kind:
	.long 0x494e5400
	.org object + VECTORS_MAP_WORD
	.long VECTORS_CALLER_MAP
guest_image_end:
	.section .note.GNU-stack, "", %progbits
