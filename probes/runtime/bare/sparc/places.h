/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything lies while the supervisor runs. Read by C and by the assembler.
 *
 *   0x00000000  the program, in pages of 4 KiB: its own segments, the heap, mappings, the stack at the end
 *   0x40000000  the board's memory where it is, for the supervisor alone; the image begins it
 *   0x80000000  the board's devices where they are
 */
#ifndef TOLL_BARE_PLACES_H
#define TOLL_BARE_PLACES_H

#define PROGRAM_END  0x40000000
#define MAPPINGS_END 0x3f000000
#define STACK_BYTES  0x00800000
#define MEMORY_AT    0x40000000
#define MEMORY_BYTES 0x40000000
#define DEVICES_AT   0x80000000

/* registers (arch.h) */
#define AT_OUTS     32
#define AT_LOCALS   64
#define AT_WINDOW   128 /* older windows, 64 bytes each */
#define MOST_OLDER  6
#define AT_PSR      512
#define AT_NPC      516
#define AT_Y        520
#define AT_OLDER    524
#define FRAME_BYTES 528

#endif
