/* SPDX-License-Identifier: Apache-2.0
 *
 * One stage of butterflies as compilers of the old ARM ABI made it (see dot.arm.S): six loads, ten operations, four
 * stores.
 */
#ifdef TOLL_FPA
	.fpu fpa
	.macro fft name, p, width, shift
	.global \name
	.type \name, %function
\name: /* r0 output, r1 twiddles, r2 n, r3 half */
	push {r4, r5, r6, r7, r8, r9}
	mov r9, r2, lsl #(\shift + 1) /* the output's bytes, */
	add r9, r0, r9                /* and its end */
	mov r4, #0
	mov r5, r2                    /* n / half, both powers of two: the twiddles' stride in numbers */
	mov r6, r3
1:	lsrs r6, r6, #1
	lsrne r5, r5, #1
	bne 1b
	mov r5, r5, lsl #\shift
	mov r8, r3, lsl #(\shift + 1) /* bytes from a to b */
2:	mov r6, r3                    /* each group of 2 half */
	mov r7, r1
	add r4, r0, r8
3:	ldf\p f0, [r4]
	ldf\p f1, [r4, #\width]
	ldf\p f2, [r7]
	ldf\p f3, [r7, #\width]
	muf\p f4, f0, f2
	muf\p f5, f1, f3
	suf\p f4, f4, f5              /* re */
	muf\p f5, f0, f3
	muf\p f6, f1, f2
	adf\p f5, f5, f6              /* im */
	ldf\p f0, [r0]
	ldf\p f1, [r0, #\width]
	suf\p f2, f0, f4
	suf\p f3, f1, f5
	stf\p f2, [r4], #\width
	stf\p f3, [r4], #\width
	adf\p f0, f0, f4
	adf\p f1, f1, f5
	stf\p f0, [r0], #\width
	stf\p f1, [r0], #\width
	add r7, r7, r5
	subs r6, r6, #1
	bne 3b
	add r0, r0, r8                /* past the b half */
	cmp r0, r9
	blo 2b
	pop {r4, r5, r6, r7, r8, r9}
	bx lr
	.size \name, . - \name
	.endm

	fft fpa_fft_single, s, 4, 2
	fft fpa_fft_double, d, 8, 3
	.fpu softvfp
#endif
	.section .note.GNU-stack, "", %progbits
