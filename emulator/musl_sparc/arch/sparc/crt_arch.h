/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack pointer is 96 bytes below the count of words: the ABI's room for a window and six arguments.
 */
__asm__(".text\n.global " START "\n" START
        ":\n"
        "\tmov %g0, %fp\n"
        "\tadd %sp, 96, %o0\n"
        "\tandn %sp, 7, %sp\n"
        "\tcall " START
        "_c\n"
        "\t mov %g0, %o1\n"
        "\tunimp 0\n");
