/* SPDX-License-Identifier: Apache-2.0
 *
 * What the probe of own vectors and the kernels that have them agree on (Willcocks, "Speed limits", 2013). Read by C and by
 * the assembler.
 *
 * A store into the page at 0, which is nowhere mapped, enters the kernel. Where it went says what is wanted, and a number in
 * a register (r12) sends it back before the kernel has looked.
 */
#ifndef TOLL_OWN_VECTORS_H
#define TOLL_OWN_VECTORS_H

#define VECTORS_RETURN    0  /* test B: back as soon as the address is known to be 0 */
#define VECTORS_ANSWER    4  /* an object has done what it was asked */
#define VECTORS_SAME_MAP  8  /* asks the object in the caller's map */
#define VECTORS_OTHER_MAP 12 /* asks the object in a map of its own */
#define VECTORS_LEAVE     16 /* back to the kernel's everyday vectors */

#define VECTORS_AT_ONCE    0x002a0000 /* test B1: back before any check */
#define VECTORS_AFTER_MODE 0x00002a00 /* test B2: back when it is known that the program did it */

/* Of the supervisor of bare boards: r0 is 1 where the fault's address is kept in memory once it is read, 0 where each use
 * reads the coprocessor; r1 the page of the object, whose code begins it and whose last word is its map's number. In the
 * range that Linux answers with ENOSYS. */
#define VECTORS_CALL 0x0f0100

/* The maps' numbers, and what the objects answer: nobody is a string, and each knows its map. */
#define VECTORS_MAP_WORD   4092
#define VECTORS_CALLER_MAP 1
#define VECTORS_OBJECT_MAP 2

#endif
