/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the probe of custom vectors and the kernels that install them (Willcocks, "Speed limits",
 * 2013). Included by C and by assembly files.
 *
 * A store into the page at 0, which is never mapped, enters the kernel. The address of the store is the number of the
 * call. A number in register r12 makes the handler return early, at the stage that a test measures.
 */
#ifndef TOLL_CUSTOM_VECTORS_H
#define TOLL_CUSTOM_VECTORS_H

#define VECTORS_RETURN    0  /* test B: returns once the address is known to be 0 */
#define VECTORS_ANSWER    4  /* an object returns from a call */
#define VECTORS_SAME_MAP  8  /* calls the object in the caller's address space */
#define VECTORS_OTHER_MAP 12 /* calls the object in an address space of its own */
#define VECTORS_LEAVE     16 /* restores the kernel's vectors */

#define VECTORS_AT_ONCE    0x002a0000 /* test B1: returns before any check */
#define VECTORS_AFTER_MODE 0x00002a00 /* test B2: returns once the fault is known to come from user mode */

/* System call of the bare boards' supervisor. r0: 1 if the fault address is kept in memory after it is read, 0 if each
 * use reads the coprocessor. r1: the page of the object, which begins with its code and ends with the number of its
 * address space. Linux returns ENOSYS for this number. */
#define VECTORS_CALL 0x0f0100

/* The numbers of the address spaces, and what the objects return: no object is a string, and each knows its address
 * space. */
#define VECTORS_MAP_WORD   4092
#define VECTORS_CALLER_MAP 1
#define VECTORS_OBJECT_MAP 2

#endif
