/* SPDX-License-Identifier: Apache-2.0
 *
 * Products and quotients as compilers of the old ARM ABI made them (see dot.arm.S).
 */
#ifdef TOLL_FPA
	.fpu fpa
	.macro elements name, op, p, width
	.global \name
	.type \name, %function
\name: /* r0 a, r1 b, r2 n, r3 result */
1:	ldf\p f1, [r0], #\width
	ldf\p f2, [r1], #\width
	\op\p f1, f1, f2
	stf\p f1, [r3], #\width
	subs r2, r2, #1
	bne 1b
	bx lr
	.size \name, . - \name
	.endm

	elements fpa_multiply_single, muf, s, 4
	elements fpa_multiply_double, muf, d, 8
	elements fpa_divide_single, dvf, s, 4
	elements fpa_divide_double, dvf, d, 8
	.fpu softvfp
#endif
	.section .note.GNU-stack, "", %progbits
