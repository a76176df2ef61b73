/* SPDX-License-Identifier: Apache-2.0
 *
 * What our plugins use of version 1 of QEMU's plugin interface, whose header Debian does not package (QEMU's manual,
 * "QEMU TCG Plugins"). An emulator that has left version 1 behind refuses a plugin by its version.
 */
#ifndef TOLL_PLUGIN_H
#define TOLL_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef void (*on_translation)(uint64_t id, struct qemu_plugin_tb *block);

extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, on_translation callback);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *instruction, enum qemu_plugin_op op,
                                                       void *counter, uint64_t addend);
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
typedef void (*on_execution)(unsigned cpu, void *context);
typedef void (*on_end)(uint64_t id, void *context);

extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction, on_execution callback,
                                                   enum qemu_plugin_cb_flags flags, void *context);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);

enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
typedef void (*on_access)(unsigned cpu, uint32_t about, uint64_t address, void *context);
typedef void (*on_syscall)(uint64_t id, unsigned cpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t, uint64_t);

extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction, on_access callback,
                                             enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw which,
                                             void *context);
extern bool qemu_plugin_mem_is_store(uint32_t about);
extern unsigned qemu_plugin_mem_size_shift(uint32_t about);
extern void qemu_plugin_register_vcpu_syscall_cb(uint64_t id, on_syscall callback);
extern void qemu_plugin_register_atexit_cb(uint64_t id, on_end callback, void *context);

#endif
