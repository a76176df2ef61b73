/* SPDX-License-Identifier: Apache-2.0
 *
 * Stack distances of an emulated program's loads of the same line (reuse.h), from their addresses. Loaded into a
 * dynamic qemu-ARCH beside count.so, whose page holds the gate:
 *
 *   -plugin build/emulator/distances.so,gate=PATH,report=PATH,one_in=2
 *
 * All accesses are observed, and loads while the gate is open are counted. At the end it writes a line `SIZE FORESEEN
 * OTHERS` for each size in lines that has loads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gate.h"
#include "plugin.h"
#include "reuse.h"

static struct reuse reuse;
static struct gate gate;

static void on_memory(unsigned cpu, uint32_t about, uint64_t address, void *habit) {
  const uint64_t last = (address + (UINT64_C(1) << qemu_plugin_mem_size_shift(about)) - 1) / REUSE_LINE_BYTES;
  (void)cpu;
  for (uint64_t line = address / REUSE_LINE_BYTES; line <= last; line++) {
    if (qemu_plugin_mem_is_store(about))
      reuse_store(&reuse, line);
    else
      reuse_load(&reuse, habit, line, gate_is_open(&gate));
  }
}

/* The stride state of one instruction, allocated when it is translated and kept until the program ends. */
static void on_block(uint64_t id, struct qemu_plugin_tb *block) {
  const size_t count = qemu_plugin_tb_n_insns(block);
  struct habit *habits = calloc(count, sizeof *habits);
  (void)id;
  if (!habits) abort();
  for (size_t i = 0; i < count; i++)
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), on_memory, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, &habits[i]);
}

static void write_report(uint64_t id, void *context) {
  (void)id, (void)context;
  for (unsigned place = 0; place < REUSE_SIZES; place++)
    if (reuse.foreseen[place] || reuse.others[place])
      fprintf(gate.report, "%.17g %" PRIu64 " %" PRIu64 "\n", reuse_lines(place), reuse.foreseen[place],
              reuse.others[place]);
  fclose(gate.report);
}

EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;

EXPORT int qemu_plugin_install(uint64_t id, const void *about, int count, char **words);
int qemu_plugin_install(uint64_t id, const void *about, int count, char **words) {
  const uint64_t one_in = strtoull(gate_word("one_in=", count, words), NULL, 10);
  (void)about;
  if (!one_in || one_in & (one_in - 1) || !reuse_make(&reuse, one_in) || !gate_find(&gate, "report=", count, words)) {
    fputs("distances need gate=PATH, report=PATH, and one_in=, a power of two\n", stderr);
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
  qemu_plugin_register_atexit_cb(id, write_report, NULL);
  return 0;
}
