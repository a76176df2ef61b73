/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything lies while the supervisor runs. Read by C and by the assembler.
 *
 *   0x00000000  the program, in pages of 4 KiB: its own segments, the heap, mappings, the stack at the end
 *   0xc0000000  the board's memory, one to one, for the supervisor alone; the supervisor itself 64 KiB into it
 *   0xf0000000  the board's devices, and after them those of the core's own cluster
 *   0xffff0000  the vectors
 */
#ifndef TOLL_BARE_PLACES_H
#define TOLL_BARE_PLACES_H

#define PROGRAM_END  0x40000000
#define MAPPINGS_END 0x3f000000
#define STACK_BYTES  0x00800000
#define MEMORY_AT    0xc0000000
#define MEMORY_BYTES 0x30000000 /* of more, the rest is left alone */
#define DEVICES_AT   0xf0000000
#define PRIVATE_AT   0xf0100000
#define VECTORS_AT   0xffff0000

/* The boards of ARM's Versatile family have their UARTs and system registers in this MiB, and a Cortex-A9 tells itself
 * where its private devices are. */
#define DEVICES 0x10000000

#endif
