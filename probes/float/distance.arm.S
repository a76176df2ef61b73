/* SPDX-License-Identifier: Apache-2.0
 *
 * The squared distance as compilers of the old ARM ABI made it (see dot.arm.S).
 */
#ifdef TOLL_FPA
	.fpu fpa
	.macro distance name, p, width
	.global \name
	.type \name, %function
\name: /* r0 a, r1 b, r2 n, r3 result */
	mvf\p f0, #0.0
1:	ldf\p f1, [r0], #\width
	ldf\p f2, [r1], #\width
	suf\p f1, f1, f2
	muf\p f1, f1, f1
	adf\p f0, f0, f1
	subs r2, r2, #1
	bne 1b
	stf\p f0, [r3]
	bx lr
	.size \name, . - \name
	.endm

	distance fpa_distance_single, s, 4
	distance fpa_distance_double, d, 8
	.fpu softvfp
#endif
	.section .note.GNU-stack, "", %progbits
