/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side on ARM: the loops around each test, in ARM state, and the object in a page of its own.
 */
#include "custom_vectors.h"

	.syntax unified
	.arm
	.text

/* void board_turn(uint32_t turns): test A, two instructions. */
	.global board_turn
	.type board_turn, %function
	.balign 32
board_turn:
	subs r0, r0, #1
	bne board_turn
	bx lr

/* uint32_t board_store(uint32_t turns, uint32_t address, uint32_t magic): as many stores that enter the kernel. An object
 * may spoil what a call may. Returns r0, which is the last answer of an object. */
	.global board_store
	.type board_store, %function
board_store:
	push {r4, r5, r6, lr}
	mov r4, r0
	mov r5, r1
	mov r12, r2
	mov r0, #0
	.balign 32
1:	str r0, [r5]
	subs r4, r4, #1
	bne 1b
	pop {r4, r5, r6, pc}

/* uint32_t board_call(uint32_t turns, uint32_t number, uint32_t first, uint32_t second): as many SVCs. Returns r0: what
 * it was where nothing answered. */
	.global board_call
	.type board_call, %function
board_call:
	push {r4, r7, r8, lr}
	mov r4, r0
	mov r7, r1
	mov r0, r2
	mov r1, r3
	.balign 32
1:	svc #0
	subs r4, r4, #1
	bne 1b
	pop {r4, r7, r8, pc}

/* The object: asked whether it is a string, it says that it is not, and whose map it is in. */
#define STRING 0x53545200
	.section .text.object, "ax"
	.balign 4096
	.global board_object
board_object:
	ldr r1, kind
	ldr r2, =STRING
	cmp r1, r2
	ldr r0, [pc, #(VECTORS_MAP_WORD - (. - board_object) - 8)]
	lsl r0, r0, #1
	orreq r0, r0, #1
	mov r3, #VECTORS_ANSWER
	str r0, [r3]
kind:
	.word 0x494e5400
	.ltorg
	.org board_object + VECTORS_MAP_WORD
	.word VECTORS_CALLER_MAP
	.section .note.GNU-stack, "", %progbits
