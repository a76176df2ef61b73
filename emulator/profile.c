/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the executions of each instruction of an emulated program while the program's gate is open, and writes lines
 * `ADDRESS COUNT` at the end. Loaded into a dynamic qemu-ARCH beside count.so, whose page holds the gate:
 *
 *   -plugin build/emulator/profile.so,gate=PATH,hits=PATH
 *
 * An emulator's time does not show where its program spends time, so nothing is sampled: a share in this profile is an
 * exact and repeatable share of instructions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gate.h"
#include "plugin.h"

/* A count for each instruction of each translated block: several blocks may contain the same address. */
struct place {
  uint64_t address, count;
  struct place *next;
};
static struct place *places;
static struct gate gate;

static void on_instruction(unsigned cpu, void *context) {
  (void)cpu;
  if (gate_is_open(&gate)) ((struct place *)context)->count++;
}

static void on_block(uint64_t id, struct qemu_plugin_tb *block) {
  (void)id;
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
    struct place *place = calloc(1, sizeof *place);
    if (!place) return;
    *place = (struct place){.address = qemu_plugin_insn_vaddr(instruction), .next = places};
    places = place;
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_instruction, QEMU_PLUGIN_CB_NO_REGS, place);
  }
}

static void write_hits(uint64_t id, void *context) {
  (void)id, (void)context;
  for (const struct place *place = places; place; place = place->next)
    if (place->count) fprintf(gate.report, "%" PRIu64 " %" PRIu64 "\n", place->address, place->count);
  fclose(gate.report);
}

EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;

EXPORT int qemu_plugin_install(uint64_t id, const void *about, int count, char **words);
int qemu_plugin_install(uint64_t id, const void *about, int count, char **words) {
  (void)about;
  if (!gate_find(&gate, "hits=", count, words)) {
    fputs("a profile needs gate=PATH, the counter's page, and hits=PATH to write to\n", stderr);
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
  qemu_plugin_register_atexit_cb(id, write_hits, NULL);
  return 0;
}
