/* SPDX-License-Identifier: Apache-2.0
 *
 * From the first instruction to C, the exception vectors, and the way back to the program.
 *
 * Section numbers are those of the ARM Architecture Reference Manual, ARMv7-A edition (ARM DDI 0406C).
 */
#include "places.h"

	.syntax unified
	.arch armv7-a
	.fpu neon
	.arm

#define SUPERVISOR 0x13
#define ABORT      0x17

/* A section: normal memory, write-back and allocated on write, or a device and never executed; for the supervisor alone
 * (B3.5.1, B3.7.1, B3.8.2). */
#define SECTION_MEMORY 0x140e
#define SECTION_DEVICE 0x0416
#define WALKS_CACHED   0x48 /* TTBR0: table walks look into the caches as well (B4.1.154) */

#define SCTLR_OFF 0x72000002 /* TE, AFE, TRE, EE: none of them; A: an unaligned word is no fault (B4.1.130) */
#define SCTLR_ON  0x00003805 /* high vectors, instruction cache, branch prediction, data cache, translation */

/* The program's registers go onto the supervisor's stack in the order of struct fpa_core, whatever took it there. The
 * stack is empty but for them, since the supervisor itself is never interrupted: its end is chosen so that they lie at
 * a multiple of 8, as the procedure call standard asks of a stack. */
#define STACK_END stack_end - 4
#define FRAME     stack_end - 72

/* ---- the beginning ---------------------------------------------------------------------------------------------- */

/* Entered as a kernel image is: r2 the boot loader's tags, translation off, in any privileged mode; the image stands 64
 * KiB past a MiB, that of the memory's beginning. */
	.section .text.start, "ax"
	.global _start
_start:
	cpsid aif, #SUPERVISOR
	mov r11, r2
	adr r4, _start
	ldr r5, =_start
	sub r6, r4, r5            /* from the address in the program to the one in memory */

	ldr r0, =bare_zero_start
	ldr r1, =bare_zero_end
	add r0, r0, r6
	add r1, r1, r6
	mov r2, #0
1:	str r2, [r0], #4
	cmp r0, r1
	blo 1b

	ldr r7, =bare_first_level
	add r7, r7, r6
	lsr r8, r4, #20           /* this MiB */
	ldr r0, =SECTION_MEMORY
	orr r0, r0, r8, lsl #20
	str r0, [r7, r8, lsl #2]  /* where it stands, until the jump */
	add r2, r7, #(MEMORY_AT >> 18)
	mov r3, #(MEMORY_BYTES >> 20)
1:	str r0, [r2], #4
	add r0, r0, #1 << 20
	subs r3, r3, #1
	bne 1b
	ldr r0, =(DEVICES | SECTION_DEVICE)
	ldr r1, =(DEVICES_AT >> 18)
	str r0, [r7, r1]
	mrc p15, 4, r0, c15, c0, 0 /* the private devices' base (Cortex-A9 TRM 4.3.24) */
	lsr r0, r0, #20
	lsl r0, r0, #20
	ldr r2, =SECTION_DEVICE
	orr r0, r0, r2
	ldr r1, =(PRIVATE_AT >> 18)
	str r0, [r7, r1]

	bl forget_caches
	orr r0, r7, #WALKS_CACHED
	mcr p15, 0, r0, c2, c0, 0  /* TTBR0 */
	mov r0, #0
	mcr p15, 0, r0, c2, c0, 2  /* TTBCR: it serves all addresses */
	mov r0, #1
	mcr p15, 0, r0, c3, c0, 0  /* DACR: domain 0 obeys its tables */
	mcr p15, 0, r0, c13, c0, 1 /* CONTEXTIDR: the program's map is number 1 */
	dsb
	isb
	mrc p15, 0, r0, c1, c0, 0
	ldr r1, =SCTLR_OFF
	ldr r2, =SCTLR_ON
	bic r0, r0, r1
	orr r0, r0, r2
	mcr p15, 0, r0, c1, c0, 0
	isb
	ldr pc, =at_home

/* What the caches, the translation and the branch predictor hold at reset is anything (B2.2.2). */
forget_caches:
	mov r0, #0
	mcr p15, 0, r0, c7, c5, 0  /* ICIALLU */
	mcr p15, 0, r0, c7, c5, 6  /* BPIALL */
	mcr p15, 0, r0, c8, c7, 0  /* TLBIALL */
	mcr p15, 2, r0, c0, c0, 0  /* CSSELR: the first level's data cache */
	isb
	mrc p15, 1, r0, c0, c0, 0  /* CCSIDR (B4.1.19) */
	and r1, r0, #7
	add r1, r1, #4             /* log2 of a line's bytes */
	ubfx r2, r0, #3, #10       /* ways less one */
	ubfx r3, r0, #13, #15      /* sets less one */
	clz r9, r2                 /* where the way stands in the word (B4.2.1) */
1:	mov r10, r3
2:	lsl r0, r2, r9
	orr r0, r0, r10, lsl r1
	mcr p15, 0, r0, c7, c6, 2  /* DCISW */
	subs r10, r10, #1
	bpl 2b
	subs r2, r2, #1
	bpl 1b
	dsb
	isb
	bx lr

at_home:
	mrc p15, 0, r0, c1, c0, 2
	orr r0, r0, #0xf << 20     /* CPACR: coprocessors 10 and 11, which the FPU is, for everybody (B4.1.40) */
	mcr p15, 0, r0, c1, c0, 2
	isb
	mov r0, #1 << 30
	vmsr fpexc, r0
	cps #ABORT                 /* the only mode with a stack of its own: see on_own_abort */
	ldr sp, =fault_stack_end
	cps #SUPERVISOR
	ldr sp, =STACK_END
	mov r0, r11
	mov r1, #0
	mov r2, r6
	bl bare_begin
	/* fall through */

	.global bare_again
bare_again:                  /* from either mode: memory may come to its end in on_own_abort */
	cps #ABORT
	ldr sp, =fault_stack_end
	cps #SUPERVISOR
	ldr sp, =STACK_END
	bl bare_attend

/* ---- exceptions ------------------------------------------------------------------------------------------------- */

	.macro enter return_offset
	.if \return_offset
	sub lr, lr, #\return_offset       /* to the instruction that is meant (B1.8.3) */
	.endif
	srsdb sp!, #SUPERVISOR     /* pc, cpsr */
	cps #SUPERVISOR
	sub sp, sp, #60
	stmia sp, {r0-r14}^        /* the program's own sp and lr */
	mov r0, sp
	.endm

	.text
	.global on_call, on_data_abort
on_undefined:
	enter 4
	bl bare_undefined
	b leave

on_call:
	enter 0
	bl bare_call
	b leave

on_interrupt:
	enter 4
	bl bare_interrupt
	b leave

on_prefetch_abort:
	enter 4
	mrc p15, 0, r1, c6, c0, 2  /* IFAR */
	mrc p15, 0, r2, c5, c0, 1  /* IFSR */
	bl bare_prefetch_abort
	/* fall through */

leave:
	clrex                      /* an exclusive load before it is not to be met by a store after it (A3.4.4) */
	ldmia sp, {r0-r14}^
	add sp, sp, #60
	rfeia sp!

on_data_abort:
	push {r0, r1}
	mrs r0, spsr
	tst r0, #0xf
	bne on_own_abort
	pop {r0, r1}
	enter 8
	mrc p15, 0, r1, c6, c0, 0  /* DFAR */
	mrc p15, 0, r2, c5, c0, 0  /* DFSR */
	bl bare_data_abort
	b leave

/* The supervisor touched memory for the program: a page that is reserved and not yet zeroed, or one that is not there. */
on_own_abort:
	sub lr, lr, #8
	push {r2, r3, r12, lr}
	push {r0, r1}
	mrc p15, 0, r0, c6, c0, 0
	mrc p15, 0, r1, c5, c0, 0
	mov r2, lr
	bl bare_own_abort
	cmp r0, #0
	bne abandon
	pop {r0, r1}
	msr spsr_cxsf, r0
	pop {r2, r3, r12, lr}
	pop {r0, r1}
	movs pc, lr

/* It is not there: what the supervisor was about is left undone, and the program gets the signal in r0. */
abandon:
	ldr sp, =fault_stack_end
	cps #SUPERVISOR
	ldr sp, =FRAME
	mov r1, r0
	mov r0, sp
	bl bare_signal_after_abort
	b leave

/* void bare_enter(const struct fpa_core *core): starts the program with these registers. */
	.global bare_enter
bare_enter:
	ldr sp, =FRAME
	mov r1, sp
	mov r2, #17
1:	ldr r3, [r0], #4
	str r3, [r1], #4
	subs r2, r2, #1
	bne 1b
	b leave

/* ---- the FPU's registers, of which the compiler of the supervisor knows nothing ----------------------------------- */

/* void bare_fpu_keep(uint32_t words[65]), bare_fpu_load(const uint32_t words[65]): d0 to d31, FPSCR. */
	.global bare_fpu_keep, bare_fpu_load
bare_fpu_keep:
	vstmia r0!, {d0-d15}
	vstmia r0!, {d16-d31}
	vmrs r1, fpscr
	str r1, [r0]
	bx lr
bare_fpu_load:
	vldmia r0!, {d0-d15}
	vldmia r0!, {d16-d31}
	ldr r1, [r0]
	vmsr fpscr, r1
	bx lr
	.ltorg

/* ---- the page of vectors ---------------------------------------------------------------------------------------- */

/* The program sees it at 0xffff0000. After the vectors stand the routines that the C libraries of old ARM cores take
 * from the kernel, at the addresses and with the contracts of Linux's "Kernel-provided User Helpers". */
	.section .vectors, "ax"
	.balign 4096
	.global bare_vectors
bare_vectors:
	b .
	ldr pc, 1f
	ldr pc, 2f
	ldr pc, 3f
	ldr pc, 4f
	b .
	ldr pc, 5f
	b .
1:	.word on_undefined
	.global bare_vector_call, bare_vector_abort
bare_vector_call:
2:	.word on_call
3:	.word on_prefetch_abort
bare_vector_abort:
4:	.word on_data_abort
5:	.word on_interrupt

	.org bare_vectors + 0xf60  /* compare r0's 8 bytes with r2's, and exchange for r1's: r0 = 0 and C set where done */
	push {r4, r5, r6, r7}
	ldrd r4, r5, [r0]
	ldrd r6, r7, [r1]
	dmb
1:	ldrexd r0, r1, [r2]
	eors r3, r0, r4
	eorseq r3, r1, r5
	strexdeq r3, r6, r7, [r2]
	teqeq r3, #1
	beq 1b
	dmb
	rsbs r0, r3, #0
	pop {r4, r5, r6, r7}
	bx lr

	.org bare_vectors + 0xfa0  /* memory barrier */
barrier:
	dmb
	bx lr

	.org bare_vectors + 0xfc0  /* compare r0 with r2's word, and exchange for r1: r0 = 0 and C set where done */
	dmb
1:	ldrex r3, [r2]
	subs r3, r3, r0
	strexeq r3, r1, [r2]
	teqeq r3, #1
	beq 1b
	rsbs r0, r3, #0
	b barrier

	.org bare_vectors + 0xfe0  /* the thread's pointer */
	mrc p15, 0, r0, c13, c0, 3
	bx lr

	.org bare_vectors + 0xffc  /* how many there are */
	.word 5

/* ---- stacks ------------------------------------------------------------------------------------------------------- */

	.bss
	.balign 8
	.space 16384
stack_end:
	.space 4096
	.global fault_stack_end
fault_stack_end:
	.section .note.GNU-stack, "", %progbits
