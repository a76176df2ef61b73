/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything lies while the supervisor of a 64-bit CPU runs. Read by C and by the assembler. Addresses have 39 bits,
 * of which the lower half is used: three levels of tables of 512 entries.
 *
 *   0x00_0000_0000  the program, in pages of 4 KiB: its own segments, the heap, mappings, the stack at the end
 *   0x20_0000_0000  the board's memory from the image on, one to one, for the supervisor alone; the image begins it
 *   0x30_0000_0000  the board's first 64 GiB of addresses, as devices
 */
#ifndef TOLL_BARE_PLACES_H
#define TOLL_BARE_PLACES_H

#define PROGRAM_END  0x40000000
#define MAPPINGS_END 0x3f000000
#define TRAMPOLINE   0x3f000000 /* the page by which a signal's handler returns */
#define STACK_BYTES  0x00700000
#define MEMORY_AT    0x2000000000
#define MEMORY_BYTES 0x100000000 /* of more, the rest is left alone */
#define DEVICES_AT   0x3000000000
#define DEVICES_GIB  64

#define IMAGE_ALIGNMENT 0x200000 /* a large page */

#endif
