/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the instructions that an emulated program executes, into a page that the program reads (probes/runtime/clock_kind.c).
 * Loaded into a dynamic qemu-ARCH:  -plugin build/emulator/count.so,counter=PATH
 *
 * Each translated instruction has its own addition before it, so that a block that a trap ends early counts only what
 * was executed. A load of the counter includes itself.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin.h"

EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;

static uint64_t *counter;

static void count_block(uint64_t id, struct qemu_plugin_tb *block) {
  (void)id;
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++)
    qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(block, i), QEMU_PLUGIN_INLINE_ADD_U64, counter,
                                               1);
}

/* The mapping of the file, which is one page of the emulated program: its pages may be larger than this machine's. */
static uint64_t *map_page(const char *path) {
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  void *page = mmap(NULL, 2 * sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return page == MAP_FAILED ? NULL : page;
}

EXPORT int qemu_plugin_install(uint64_t id, const void *about, int count, char **words);
int qemu_plugin_install(uint64_t id, const void *about, int count, char **words) {
  static const char key[] = "counter=";
  (void)about;
  if (count == 1 && strncmp(words[0], key, sizeof key - 1) == 0) counter = map_page(words[0] + sizeof key - 1);
  if (!counter) {
    fputs("the instruction counter has no page: counter=PATH names a file of at least 64 KiB\n", stderr);
    return 1;
  }
  counter[1] = 1; /* lets the program find this machine's byte order */
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  return 0;
}
