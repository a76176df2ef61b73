/* SPDX-License-Identifier: Apache-2.0
 *
 * From the first instruction to C, the trap table, the windows of registers, and the way back to the program.
 *
 * A CPU has eight windows here, of which %wim marks one as no window. `save` goes to the window with the next lower number.
 * After a write to %psr or %wim, three instructions may still see what was there before (B.29).
 */
#include "places.h"

#define S         0x80
#define PS        0x40
#define ET        0x20
#define EF        0x1000
#define PIL       0xf00
#define USERS_PSR 0xf00000 /* the flags of a comparison */
#define FRAME     stack_end - FRAME_BYTES
#define ABI_ROOM  96

	.macro settle
	nop
	nop
	nop
	.endm

	.macro every_window what, base, offset
	.irp n, 0, 2, 4, 6
	.ifc \what, keep
	std %l\n, [\base + \offset + 4 * \n]
	std %i\n, [\base + \offset + 32 + 4 * \n]
	.else
	ldd [\base + \offset + 4 * \n], %l\n
	ldd [\base + \offset + 32 + 4 * \n], %i\n
	.endif
	.endr
	.endm

/* ---- the beginning ------------------------------------------------------------------------------------------------- */

	.section .text.start, "ax"
	.global _start
_start:
	set PIL | EF | S, %g1
	wr %g1, 0, %psr
	wr %g0, 2, %wim
	set trap_table, %g1
	wr %g1, 0, %tbr
	settle
	set bare_zero_start, %g1
	set bare_zero_end, %g2
1:	st %g0, [%g1]
	add %g1, 4, %g1
	cmp %g1, %g2
	blu 1b
	 nop
	set stack_end - ABI_ROOM, %sp
	set PIL | EF | S | ET, %g1
	wr %g1, 0, %psr
	settle
	call bare_translate
	 nop
	mov 0, %o0
	mov 0, %o1
	call bare_begin
	 mov 0, %o2
	/* fall through */

	.global bare_again
bare_again:
	set PIL | EF | S, %g1
	wr %g1, 0, %psr
	wr %g0, 2, %wim
	settle
	set stack_end - ABI_ROOM, %sp
	set PIL | EF | S | ET, %g1
	wr %g1, 0, %psr
	settle
	call bare_attend
	 nop

/* ---- windows ------------------------------------------------------------------------------------------------------- */

/* Whether what %sp points to can be kept or loaded: in the program's memory, at a multiple of 8, its first and its last
 * page real and of the program's. %g1 is lost. */
	.macro check_stack mask, wanted, otherwise
	sethi %hi(PROGRAM_END - 64), %g1
	or %g1, %lo(PROGRAM_END - 64), %g1
	cmp %sp, %g1
	bgu \otherwise
	 btst 7, %sp
	bne \otherwise
	 andn %sp, 0xfff, %g1
	lda [%g1] 0x18, %g1
	and %g1, \mask, %g1
	cmp %g1, \wanted
	bne \otherwise
	 add %sp, 56, %g1
	andn %g1, 0xfff, %g1
	lda [%g1] 0x18, %g1
	and %g1, \mask, %g1
	cmp %g1, \wanted
	bne \otherwise
	 nop
	.endm

	.macro leave_window_trap
	mov %l7, %g1
	wr %l0, 0, %psr
	settle
	jmp %l1
	rett %l2
	.endm

	.text
/* In: %l0 %psr, %l3 %wim. The oldest window goes to its stack; its place becomes the one that is no window. */
on_overflow:
	mov %g1, %l7
	srl %l3, 1, %l4
	sll %l3, 7, %l5
	or %l4, %l5, %l5
	btst PS, %l0
	bne 2f
	 and %l5, 0xff, %g1
	save
	wr %g1, 0, %wim
	settle
	check_stack 0x17, 6, 3f
1:	every_window keep, %sp, 0
	restore
	leave_window_trap
2:	save
	wr %g1, 0, %wim
	settle
	ba 1b
	 nop
3:	restore
	wr %l3, 0, %wim
	mov %l7, %g1
	ba on_trap
	 mov 5, %l3

/* The caller's window comes from its stack. */
on_underflow:
	mov %g1, %l7
	sll %l3, 1, %l4
	srl %l3, 7, %l5
	or %l4, %l5, %l5
	and %l5, 0xff, %l5
	wr %l5, 0, %wim
	btst PS, %l0
	bne 2f
	 nop
	nop
	restore
	restore
	check_stack 0x13, 2, 3f
1:	every_window load, %sp, 0
	save
	save
	leave_window_trap
2:	nop
	restore
	ba 1b
	 restore
3:	save
	save
	wr %l3, 0, %wim
	mov %l7, %g1
	ba on_trap
	 mov 6, %l3

/* ---- all other traps ------------------------------------------------------------------------------------------------ */

/* In: %l0 %psr, %l1 pc, %l2 npc, %l3 the kind. The program's registers go to the end of the supervisor's stack. */
on_trap:
	btst PS, %l0
	bne on_own
	 sethi %hi(FRAME), %l4
	or %l4, %lo(FRAME), %l4
	st %l1, [%l4]
	st %g1, [%l4 + 4]
	std %g2, [%l4 + 8]
	std %g4, [%l4 + 16]
	std %g6, [%l4 + 24]
	.irp n, 0, 2, 4, 6
	std %i\n, [%l4 + AT_OUTS + 4 * \n]
	.endr
	rd %y, %l5
	st %l0, [%l4 + AT_PSR]
	st %l2, [%l4 + AT_NPC]
	st %l5, [%l4 + AT_Y]

	/* %g1: where a window goes; %g3: the bit of no window; %g4: of this window; %g5: how many went; %g6: %psr */
	add %l4, AT_LOCALS, %g1
	rd %wim, %g3
	mov 1, %g4
	sll %g4, %l0, %g4
	mov -1, %g5
	mov %l0, %g6
	wr %g0, 0, %wim
	settle
1:	restore
	sll %g4, 1, %g4
	srl %g4, 8, %g7
	or %g4, %g7, %g4
	and %g4, 0xff, %g4
	cmp %g4, %g3
	be 2f
	 nop
	every_window keep, %g1, 0
	inc %g5
	ba 1b
	 add %g1, 64, %g1

2:	wr %g6, 0, %psr
	settle
	st %g5, [%l4 + AT_OLDER]
	add %l0, 1, %g4
	and %g4, 7, %g4
	mov 1, %g5
	sll %g5, %g4, %g5
	wr %g5, 0, %wim
	sub %l4, ABI_ROOM, %sp
	set PIL | EF | S | ET, %g5
	and %l0, 31, %g4
	wr %g4, %g5, %psr          /* an exclusive or of both */
	settle
	mov %l4, %o0
	call bare_trap
	 mov %l3, %o1
	/* fall through */

leave:
	rd %psr, %g6
	wr %g6, ET, %psr
	settle
	wr %g0, 0, %wim
	settle
	set FRAME, %g2
	restore
	every_window load, %g2, AT_LOCALS
	save
	set FRAME, %l4
	.irp n, 0, 2, 4, 6
	ldd [%l4 + AT_OUTS + 4 * \n], %i\n
	.endr
	ld [%l4], %l1
	ld [%l4 + AT_NPC], %l2
	ld [%l4 + AT_Y], %l5
	wr %l5, 0, %y
	and %g6, 7, %l6
	add %l6, 2, %l7
	and %l7, 7, %l7
	mov 1, %l5
	sll %l5, %l7, %l5
	wr %l5, 0, %wim
	ld [%l4 + AT_PSR], %l0
	set USERS_PSR, %l5
	and %l0, %l5, %l0
	set EF | S, %l5
	or %l0, %l5, %l0
	or %l0, %l6, %l0
	ld [%l4 + 4], %g1
	ldd [%l4 + 8], %g2
	ldd [%l4 + 16], %g4
	ldd [%l4 + 24], %g6
	wr %l0, 0, %psr
	settle
	jmp %l1
	rett %l2

on_own:
	mov %l1, %g1
	mov %l3, %g2
	wr %g0, PIL | S, %psr
	wr %g0, 2, %wim
	settle
	set stack_end - ABI_ROOM, %sp
	wr %g0, PIL | S | ET, %psr
	settle
	mov %g1, %o0
	call bare_lose
	 mov %g2, %o1

/* void bare_enter(const registers *core): starts the program with these registers. */
	.global bare_enter
bare_enter:
	set FRAME, %g2
	set stack_end, %g3
1:	ld [%o0], %g1
	st %g1, [%g2]
	add %g2, 4, %g2
	cmp %g2, %g3
	blu 1b
	 add %o0, 4, %o0
	ba leave
	 nop

/* ---- the FPU's registers, of which the compiler of the supervisor knows nothing --------------------------------------- */

	.global bare_fpu_keep, bare_fpu_load
bare_fpu_keep:
	.irp n, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
	std %f\n, [%o0 + 4 * \n]
	.endr
	st %fsr, [%o0 + 128]
	retl
	 nop
bare_fpu_load:
	.irp n, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
	ldd [%o0 + 4 * \n], %f\n
	.endr
	ld [%o0 + 128], %fsr
	retl
	 nop

/* ---- the trap table (7.1): four instructions each -------------------------------------------------------------------- */

	.macro entries first, last
	.set kind, \first
	.rept \last - \first + 1
	rd %psr, %l0
	mov kind, %l3
	ba on_trap
	 nop
	.set kind, kind + 1
	.endr
	.endm

	.balign 4096
trap_table:
	ba _start
	 nop
	nop
	nop
	entries 1, 4
	rd %psr, %l0
	ba on_overflow
	 rd %wim, %l3
	nop
	rd %psr, %l0
	ba on_underflow
	 rd %wim, %l3
	nop
	entries 7, 255

	.bss
	.balign 16
	.space 32768
stack_end:
	.section .note.GNU-stack, "", %progbits
