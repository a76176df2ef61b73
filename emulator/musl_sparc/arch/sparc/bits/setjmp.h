/* SPDX-License-Identifier: Apache-2.0 */
typedef unsigned long __jmp_buf[3];
