/* SPDX-License-Identifier: Apache-2.0
 *
 * The vectors of "Speed limits", as its author describes them: r13 of the abort mode is the only register that the kernel
 * has for itself, and the flags come back with the mode. Section numbers are those of the ARM Architecture Reference
 * Manual, ARMv7-A edition (ARM DDI 0406C).
 */
#include "../../custom_vectors.h"

	.syntax unified
	.arch armv7-a
	.arm
	.text

/* Test C: a handler that returns at once. */
	.global limits_on_call
limits_on_call:
	movs pc, lr

/* Past the store: lr is 8 past it (B1.8.3). */
	.macro back condition
	subs\condition pc, lr, #4
	.endm

/* The fault's address once more: from the coprocessor, or from where it was kept. */
	.macro again kept
	.if \kept
	ldr r13, kept_address
	.else
	mrc p15, 0, r13, c6, c0, 0
	.endif
	.endm

	.macro on_abort name, kept
	.global \name
\name:
	cmp r12, #VECTORS_AT_ONCE
	back eq                    /* test B1 */
	mrs r13, spsr
	tst r13, #0xf
	bne not_ours               /* the supervisor's own fault */
	cmp r12, #VECTORS_AFTER_MODE
	back eq                    /* test B2 */
	mrc p15, 0, r13, c6, c0, 0 /* DFAR */
	.if \kept
	str r13, kept_address
	.endif
	cmp r13, #VECTORS_RETURN
	back eq                    /* test B */
	again \kept
	cmp r13, #VECTORS_ANSWER
	beq answer
	again \kept
	cmp r13, #VECTORS_OTHER_MAP
	bls ask                    /* test D */
	b not_ours
	.endm

	on_abort limits_on_abort, 0
	on_abort limits_on_abort_kept, 1

not_ours:                    /* as it was before this file came between */
	ldr sp, =fault_stack_end
	b on_data_abort

kept_address:
	.word 0

/* Test D. The caller's registers are kept, but for those that a call may spoil anyway; then the object begins, in the
 * caller's map or in its own. EQ: in its own. */
ask:
	ldr sp, =caller
	stm sp, {r4-r14}^
	mrs r4, spsr
	str r4, [sp, #44]
	str lr, [sp, #48]
	moveq r5, #VECTORS_OBJECT_MAP
	movne r5, #VECTORS_CALLER_MAP
	str r5, [sp, #52]
	ldreq r4, limits_object_table
	bleq switch
	mov r4, #0                 /* nothing of the kernel's for the object */
	mov r5, #0
	ldr lr, limits_object_entry
	movs pc, lr

/* r0 is the object's answer, and the caller goes on after its store. */
answer:
	ldr sp, =caller
	ldr r5, [sp, #52]
	cmp r5, #VECTORS_OBJECT_MAP
	moveq r5, #VECTORS_CALLER_MAP
	ldreq r4, limits_caller_table
	bleq switch
	ldr r4, [sp, #44]
	ldr lr, [sp, #48]
	msr spsr_cxsf, r4
	ldm sp, {r4-r14}^
	nop                        /* user registers were loaded: not the banked ones right after it */
	back

/* To the map with the table r4 and the number r5. Number 0 belongs to no map: while the table changes, no translation can be
 * noted under a wrong number (B3.10.4). */
switch:
	mov r6, #0
	mcr p15, 0, r6, c13, c0, 1 /* CONTEXTIDR */
	isb
	mcr p15, 0, r4, c2, c0, 0  /* TTBR0 */
	isb
	mcr p15, 0, r5, c13, c0, 1
	isb
	bx lr

	.global limits_caller_table, limits_object_table, limits_object_entry
limits_caller_table:
	.word 0
limits_object_table:
	.word 0
limits_object_entry:
	.word 0
	.ltorg

	.bss
	.balign 8
caller:                      /* r4 to r14, spsr, where it goes on, whose map was asked */
	.space 56
	.section .note.GNU-stack, "", %progbits
