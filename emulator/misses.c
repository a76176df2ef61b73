/* SPDX-License-Identifier: Apache-2.0
 *
 * Models the misses of a data cache for an emulated program's own loads and stores, since emulators have no caches.
 * Loaded into a dynamic qemu-ARCH beside count.so, whose page holds the gate:
 *
 *   -plugin build/emulator/misses.so,gate=PATH,report=PATH,bytes=16384,line=32,ways=64
 *
 * A load that misses inserts its line, and a store does not; a random line of a full set is evicted. A system call
 * empties the cache, as a model of the kernel's accesses. The return from a trap handler is a system call. The model
 * sees all accesses and counts those while the gate is open. It writes `ACCESSES MISSES FLUSHES` at the end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "gate.h"
#include "plugin.h"

enum { SEED = 1, MOST_WAYS = 64 };

static struct cache cache;
static unsigned line_bytes;
static uint64_t accesses, misses, flushes;
static struct gate gate;

static void touch(uint32_t line, bool stores) {
  uint32_t victim;
  const bool open = gate_is_open(&gate);
  accesses += open;
  if (cache_touch(&cache, line) || stores) return;
  cache_insert(&cache, line, false, &victim);
  misses += open;
}

static void on_memory(unsigned cpu, uint32_t about, uint64_t address, void *context) {
  const uint64_t last = (address + (UINT64_C(1) << qemu_plugin_mem_size_shift(about)) - 1) / line_bytes;
  (void)cpu, (void)context;
  for (uint64_t line = address / line_bytes; line <= last; line++)
    touch((uint32_t)line, qemu_plugin_mem_is_store(about));
}

static void on_block(uint64_t id, struct qemu_plugin_tb *block) {
  (void)id;
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++)
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), on_memory, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, NULL);
}

static void on_kernel(uint64_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                      uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)cpu, (void)number, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  memset(cache.lines, 0xff, cache.sets * cache.ways * sizeof *cache.lines); /* LINE_NONE everywhere */
  flushes += gate_is_open(&gate);
}

static void write_report(uint64_t id, void *context) {
  (void)id, (void)context;
  fprintf(gate.report, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", accesses, misses, flushes);
  fclose(gate.report);
}

static bool make_cache(int count, char **words) {
  const unsigned long bytes = strtoul(gate_word("bytes=", count, words), NULL, 10);
  const unsigned long ways = strtoul(gate_word("ways=", count, words), NULL, 10);
  line_bytes = (unsigned)strtoul(gate_word("line=", count, words), NULL, 10);
  if (!line_bytes || !ways || ways > MOST_WAYS || bytes < ways * line_bytes) return false;
  return cache_make(&cache, bytes / ways / line_bytes, (uint32_t)ways, REPLACE_ANY, SEED);
}

EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;

EXPORT int qemu_plugin_install(uint64_t id, const void *about, int count, char **words);
int qemu_plugin_install(uint64_t id, const void *about, int count, char **words) {
  (void)about;
  if (!make_cache(count, words) || !gate_find(&gate, "report=", count, words)) {
    fputs("a modelled cache needs gate=PATH, report=PATH, bytes=, line= and ways= (64 at most)\n", stderr);
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
  qemu_plugin_register_vcpu_syscall_cb(id, on_kernel);
  qemu_plugin_register_atexit_cb(id, write_report, NULL);
  return 0;
}
