/* SPDX-License-Identifier: Apache-2.0
 *
 * The dot product as compilers of the old ARM ABI made it: every load and every operation an FPA instruction. The
 * registers are loaded before they are used, since nothing else ever gave them a value.
 */
#ifdef TOLL_FPA
	.fpu fpa
	.macro dot name, p, width
	.global \name
	.type \name, %function
\name: /* r0 a, r1 b, r2 n, r3 result */
	mvf\p f0, #0.0
1:	ldf\p f1, [r0], #\width
	ldf\p f2, [r1], #\width
	muf\p f1, f1, f2
	adf\p f0, f0, f1
	subs r2, r2, #1
	bne 1b
	stf\p f0, [r3]
	bx lr
	.size \name, . - \name
	.endm

	dot fpa_dot_single, s, 4
	dot fpa_dot_double, d, 8
	.fpu softvfp
#endif
	.section .note.GNU-stack, "", %progbits
