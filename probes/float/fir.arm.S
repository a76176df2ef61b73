/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter as compilers of the old ARM ABI made it (see dot.arm.S): the dot product of 32 taps with each window.
 */
#ifdef TOLL_FPA
	.fpu fpa
	.macro fir name, p, width
	.global \name
	.type \name, %function
\name: /* r0 taps, r1 input, r2 output, r3 n */
	push {r4, r5, r6}
1:	mov r4, r0
	mov r5, r1
	mov r6, #32
	mvf\p f0, #0.0
2:	ldf\p f1, [r4], #\width
	ldf\p f2, [r5], #\width
	muf\p f1, f1, f2
	adf\p f0, f0, f1
	subs r6, r6, #1
	bne 2b
	stf\p f0, [r2], #\width
	add r1, r1, #\width
	subs r3, r3, #1
	bne 1b
	pop {r4, r5, r6}
	bx lr
	.size \name, . - \name
	.endm

	fir fpa_fir_single, s, 4
	fir fpa_fir_double, d, 8
	.fpu softvfp
#endif
	.section .note.GNU-stack, "", %progbits
