/* SPDX-License-Identifier: Apache-2.0
 *
 * From the first instruction to C, the trap vector, and the way back to the program.
 */
#include "../bits64/places.h"

#define FRAME_BYTES 256 /* struct registers */
#define SSTATUS     0x46020 /* back to user mode with interrupts; FPU on; its pages may be touched (SPIE, FS, SUM) */
#define SPP         0x100
#define SIE         0x200   /* devices' interrupts; the timer's when an alarm is set */
#define SV39        8

	.option norelax
	.option arch, +d

/* Linux's "RISC-V Kernel Boot Image Header" and "boot requirements": a0 is the core's number and a1 the device tree. From
 * U-Boot's `go`, a0 is a count of words and a1 is where they are. */
	.section .text.start, "ax"
	.global _start
_start:
	j start
	.balign 8
	.quad IMAGE_ALIGNMENT      /* so far after the memory's beginning, where the SBI lies */
	.quad bare_image_end - _start
	.quad 0
	.word 2, 0
	.quad 0
	.ascii "RISCV\0\0\0"
	.ascii "RSC\x05"
	.word 0

start:
	csrw sie, zero
	csrw satp, zero
	li s0, 0
	mv s1, a0
	mv s2, a1
	lwu t0, (a1)
	li t1, 0xedfe0dd0          /* a device tree's first word */
	bne t0, t1, 1f
	mv s0, a0
	mv s1, a1
	li s2, 0
1:	lla s3, _start
	ld s4, home
	sub s5, s3, s4             /* from the supervisor's addresses to those in memory */
	lla sp, stack_end
	mv a0, s3
	call bare_translate
	srli a0, a0, 12
	li t0, SV39 << 60
	or a0, a0, t0
	lla t0, at_home            /* the instruction after the jump is fetched where it is mapped: at home */
	sub t0, t0, s5
	sfence.vma
	csrw satp, a0
	sfence.vma
	jr t0
	.balign 8
home:
	.quad _start

at_home:
	lla sp, stack_end
	lla t0, on_trap
	csrw stvec, t0
	csrw sscratch, zero
	li t0, SPP | SSTATUS
	csrw sstatus, t0
	li t0, SIE
	csrw sie, t0
	li t0, 7                   /* a program may read the counters */
	csrw scounteren, t0
	lla t0, bare_hart
	sd s0, (t0)
	mv a0, s1
	mv a1, s2
	mv a2, s5
	call bare_begin
	/* fall through */

	.global bare_again
bare_again:
	lla sp, stack_end
	call bare_attend

/* ---- traps: the program's registers go onto the supervisor's stack, which is empty but for them --------------------- */

/* sscratch: the stack's end while the program runs, 0 while the supervisor does. */
	.macro every_register what
	.irp n, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\what x\n, 8 * \n(sp)
	.endr
	.endm

	.text
	.balign 4
on_trap:
	csrrw sp, sscratch, sp
	beqz sp, on_own
	addi sp, sp, -FRAME_BYTES
	sd x1, 8(sp)
	every_register sd
	csrrw t0, sscratch, zero
	sd t0, 16(sp)
	csrr t0, sepc
	sd t0, 0(sp)
	mv a0, sp
	call bare_trap
leave:
	ld t0, 0(sp)
	csrw sepc, t0
	li t0, SPP
	csrc sstatus, t0
	li t0, SSTATUS
	csrs sstatus, t0
	addi t0, sp, FRAME_BYTES
	csrw sscratch, t0
	ld x1, 8(sp)
	every_register ld
	ld sp, 16(sp)
	sret

on_own:
	lla sp, stack_end
	csrr a0, sepc
	csrr a1, stval
	call bare_lose

/* void bare_enter(const registers *core): starts the program with these registers. */
	.global bare_enter
bare_enter:
	lla sp, stack_end - FRAME_BYTES
	mv t1, sp
	addi t2, sp, FRAME_BYTES
1:	ld t3, (a0)
	sd t3, (t1)
	addi a0, a0, 8
	addi t1, t1, 8
	bltu t1, t2, 1b
	j leave

/* ---- the FPU's registers, of which the compiler of the supervisor knows nothing ------------------------------------- */

	.macro every_float what
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\what f\n, 8 * \n(a0)
	.endr
	.endm
	.global bare_fpu_keep, bare_fpu_load
bare_fpu_keep:
	every_float fsd
	frcsr t0
	sw t0, 256(a0)
	ret
bare_fpu_load:
	every_float fld
	lw t0, 256(a0)
	fscsr t0
	ret

	.option push
	.option norvc
	.global bare_signal_return
bare_signal_return:
	li a7, 139
	ecall
	.option pop

	.bss
	.balign 16
	.space 32768
stack_end:
	.global bare_hart
bare_hart:
	.space 8
	.section .note.GNU-stack, "", %progbits
