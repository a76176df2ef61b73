/* SPDX-License-Identifier: Apache-2.0
 *
 * From the first instruction to C, the exception vectors, and the way back to the program.
 */
#include "../bits64/places.h"

	.arch armv8-a

#define FRAME_BYTES 272 /* struct registers */

/* Linux's "Booting AArch64 Linux": x0 is the device tree. From U-Boot's `go`, x0 is a count of words and x1 is where they
 * are, and translation and caches are still on. */
	.section .text.start, "ax"
	.global _start
_start:
	b start
	.word 0
	.quad 0                    /* at the beginning of any 2 MiB */
	.quad bare_image_end - _start
	.quad 0xa                  /* little-endian, pages of 4 KiB, anywhere in memory */
	.quad 0, 0, 0
	.ascii "ARM\x64"
	.word 0

start:
	msr daifset, #0xf
	mov x20, x0
	mov x21, x1
	adr x22, _start
	ldr x23, =_start
	ldr x24, =bare_image_end
	sub x24, x24, x23
	add x24, x22, x24          /* the image's end in memory */

	/* What was loaded through a cache, an archive after the image included, is to be found without one. */
	mrs x0, ctr_el0
	ubfx x0, x0, #16, #4
	mov x1, #4
	lsl x1, x1, x0             /* bytes of the shortest line */
	mov x0, x22
	mov x2, #0x4000000
	add x2, x24, x2
1:	dc civac, x0
	add x0, x0, x1
	cmp x0, x2
	b.lo 1b
	dsb sy

	mrs x25, CurrentEL
	cmp x25, #8
	b.ne 1f
	mrs x0, sctlr_el2
	bic x0, x0, #1             /* translation */
	bic x0, x0, #4             /* data cache */
	msr sctlr_el2, x0
	isb
	mov x0, #1 << 31           /* EL1 is a 64-bit one; nothing of it traps */
	msr hcr_el2, x0
	mov x0, #3                 /* its timers are its own */
	msr cnthctl_el2, x0
	msr cntvoff_el2, xzr
	mov x0, #0x33ff            /* so is the FPU */
	msr cptr_el2, x0
	mov x0, #0x3c5             /* EL1, its own stack, nothing interrupts */
	msr spsr_el2, x0
	adr x0, 2f
	msr elr_el2, x0
	ldr x0, =0x30d00800        /* SCTLR_EL1: bits that are 1 by definition */
	msr sctlr_el1, x0
	isb
	eret
1:	ldr x0, =0x30d00800
	msr sctlr_el1, x0
	isb
2:	msr spsel, #1
	sub x5, x22, x23           /* from the supervisor's addresses to those in memory */
	ldr x0, =stack_end
	add x0, x0, x5
	mov sp, x0
	mov x0, x22
	bl bare_translate
	msr ttbr0_el1, x0

	ldr x0, =0x00ff            /* memory: write-back; device: nGnRnE */
	msr mair_el1, x0
	mrs x1, id_aa64mmfr0_el1
	and x1, x1, #7             /* bits of physical addresses */
	ldr x0, =0x803519          /* TCR_EL1: 39 bits, pages of 4 KiB, walks are cached, TTBR1 is off */
	orr x0, x0, x1, lsl #32
	msr tcr_el1, x0
	adr x0, vectors
	sub x5, x22, x23
	sub x0, x0, x5
	msr vbar_el1, x0
	mov x0, #3 << 20           /* the FPU is for everybody */
	msr cpacr_el1, x0
	mov x0, #3                 /* a program may read the timers */
	msr cntkctl_el1, x0
	ic iallu
	tlbi vmalle1
	dsb sy
	isb
	ldr x0, =0x34d5d805        /* translation and caches; a program may wait and maintain caches */
	msr sctlr_el1, x0
	isb
	ldr x0, =at_home
	br x0

at_home:
	ldr x0, =stack_end
	mov sp, x0
	ldr x1, =bare_had_hypervisor
	cmp x25, #8
	cset w0, eq
	strb w0, [x1]
	mov x0, x20
	mov x1, x21
	sub x2, x22, x23
	bl bare_begin
	/* fall through */

	.global bare_again
bare_again:
	ldr x0, =stack_end
	mov sp, x0
	bl bare_attend

/* ---- exceptions: the program's registers go onto the supervisor's stack, which is empty but for them ---------------- */

	.macro enter handler
	.balign 128
	sub sp, sp, #FRAME_BYTES
	stp x0, x1, [sp]
	adr x0, \handler
	b on_exception
	.endm
	.macro lose
	.balign 128
	b on_own
	.endm

	.text
	.balign 2048
vectors:
	.rept 8
	lose
	.endr
	enter bare_trap
	enter bare_interrupt
	.rept 6
	lose
	.endr

on_exception:
	stp x2, x3, [sp, #16]
	stp x4, x5, [sp, #32]
	stp x6, x7, [sp, #48]
	stp x8, x9, [sp, #64]
	stp x10, x11, [sp, #80]
	stp x12, x13, [sp, #96]
	stp x14, x15, [sp, #112]
	stp x16, x17, [sp, #128]
	stp x18, x19, [sp, #144]
	stp x20, x21, [sp, #160]
	stp x22, x23, [sp, #176]
	stp x24, x25, [sp, #192]
	stp x26, x27, [sp, #208]
	stp x28, x29, [sp, #224]
	mrs x1, sp_el0
	stp x30, x1, [sp, #240]
	mrs x1, elr_el1
	mrs x2, spsr_el1
	stp x1, x2, [sp, #256]
	mov x3, x0
	mov x0, sp
	blr x3
leave:
	clrex
	ldp x1, x2, [sp, #256]
	msr elr_el1, x1
	msr spsr_el1, x2
	ldp x30, x1, [sp, #240]
	msr sp_el0, x1
	ldp x2, x3, [sp, #16]
	ldp x4, x5, [sp, #32]
	ldp x6, x7, [sp, #48]
	ldp x8, x9, [sp, #64]
	ldp x10, x11, [sp, #80]
	ldp x12, x13, [sp, #96]
	ldp x14, x15, [sp, #112]
	ldp x16, x17, [sp, #128]
	ldp x18, x19, [sp, #144]
	ldp x20, x21, [sp, #160]
	ldp x22, x23, [sp, #176]
	ldp x24, x25, [sp, #192]
	ldp x26, x27, [sp, #208]
	ldp x28, x29, [sp, #224]
	ldp x0, x1, [sp]
	add sp, sp, #FRAME_BYTES
	eret

on_own:
	ldr x0, =stack_end
	mov sp, x0
	mrs x0, elr_el1
	mrs x1, far_el1
	bl bare_lose

/* void bare_enter(const registers *core): starts the program with these registers. */
	.global bare_enter
bare_enter:
	ldr x1, =stack_end - FRAME_BYTES
	mov sp, x1
	mov x2, #FRAME_BYTES
1:	ldr x3, [x0], #8
	str x3, [x1], #8
	subs x2, x2, #8
	b.ne 1b
	b leave

/* ---- the FPU's registers, of which the compiler of the supervisor knows nothing ------------------------------------- */

	.macro every_vector what
	\what q0, q1, [x0, #16]
	\what q2, q3, [x0, #48]
	\what q4, q5, [x0, #80]
	\what q6, q7, [x0, #112]
	\what q8, q9, [x0, #144]
	\what q10, q11, [x0, #176]
	\what q12, q13, [x0, #208]
	\what q14, q15, [x0, #240]
	\what q16, q17, [x0, #272]
	\what q18, q19, [x0, #304]
	\what q20, q21, [x0, #336]
	\what q22, q23, [x0, #368]
	\what q24, q25, [x0, #400]
	\what q26, q27, [x0, #432]
	\what q28, q29, [x0, #464]
	\what q30, q31, [x0, #496]
	.endm
	.global bare_fpu_keep, bare_fpu_load
bare_fpu_keep:
	mrs x1, fpsr
	mrs x2, fpcr
	stp w1, w2, [x0]
	sub x0, x0, #8
	every_vector stp
	ret
bare_fpu_load:
	ldp w1, w2, [x0]
	msr fpsr, x1
	msr fpcr, x2
	sub x0, x0, #8
	every_vector ldp
	ret

	.global bare_signal_return
bare_signal_return:
	mov x8, #139
	svc #0
	.ltorg

	.bss
	.balign 16
	.space 32768
stack_end:
	.global bare_had_hypervisor
bare_had_hypervisor:
	.space 8
	.section .note.GNU-stack, "", %progbits
