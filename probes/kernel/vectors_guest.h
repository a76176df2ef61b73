/* SPDX-License-Identifier: Apache-2.0
 *
 * Custom vectors on x86-64: a guest made through /dev/kvm (Linux, Documentation/virt/kvm/api.rst) of 128 KiB, that begins in
 * its program and never boots. It has no device and no interrupt; each batch is one entry into it. With nested paging the
 * hardware delivers its faults and calls without anybody in between.
 */
#ifndef TOLL_KERNEL_VECTORS_GUEST_H
#define TOLL_KERNEL_VECTORS_GUEST_H

#include "custom_vectors.h"

/* The guest's address map. Nothing is mapped at 0. */
#define GUEST_BYTES      0x20000
#define GUEST_CALLER_MAP 0x1000 /* four tables, one a level */
#define GUEST_OBJECT_MAP 0x5000
#define GUEST_IDT        0x9000
#define GUEST_GDT        0xa000
#define GUEST_TSS        0xa100
#define GUEST_KEPT       0xa800
#define GUEST_CALLER_CR3 0xa808
#define GUEST_OBJECT_CR3 0xa810
#define GUEST_SAVED      0xa880
#define GUEST_STACK      0xc000 /* its end */
#define GUEST_CODE       0x10000
#define GUEST_PROGRAM    0x11000
#define GUEST_OBJECT     0x12000
#define GUEST_COPY       0x13000 /* copy of the object, for its own map */
#define GUEST_GATE       4 /* INT n is one instruction for all n, but kvm_pvm makes of those that its own host refuses #UD */
#define GUEST_PORT       0x10

#ifndef __ASSEMBLER__
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vectors.h"

extern const char guest_image[], guest_image_end[];
extern const char guest_fault[], guest_fault_kept[], guest_call[], guest_gate[];
extern const char guest_turns[], guest_stores[], guest_calls[], guest_gates[];

enum { KERNEL_CODE = 0x08, KERNEL_DATA = 0x10, USER_DATA = 0x1b, USER_CODE = 0x23, TASK = 0x28 };

static struct {
  char *memory;
  int cpu;
  struct kvm_run *run;
  bool has_numbers; /* PCID: address spaces have numbers, and translations survive a switch */
  int stats;        /* KVM's counters of this processor; -1: none */
  uint64_t exits_at, exits, turns;
} guest;

static void guest_put(uint64_t at, uint64_t value) {
  memcpy(guest.memory + at, &value, sizeof value);
}

/* ---- its memory --------------------------------------------------------------------------------------------------- */

/* Pages of the system's own are global; accessed and dirty are set, so that no walk has to. */
enum { PRESENT = 1, WRITABLE = 2, USERS = 4, TOUCHED = 0x60, GLOBAL = 0x100, PAGE = 4096 };

static void guest_map_page(uint64_t map, uint64_t at, uint64_t real, uint64_t rights) {
  guest_put(map + 3 * PAGE + at / PAGE * 8, real | PRESENT | TOUCHED | rights);
}

static void guest_make_map(uint64_t map) {
  for (int level = 0; level < 3; level++)
    guest_put(map + (uint64_t)level * PAGE,
              (map + (uint64_t)(level + 1) * PAGE) | PRESENT | WRITABLE | USERS | TOUCHED);
  for (uint64_t at = GUEST_CALLER_MAP; at <= GUEST_CODE; at += PAGE) guest_map_page(map, at, at, WRITABLE | GLOBAL);
}

static uint64_t guest_address(const char *symbol) {
  return GUEST_CODE + (uint64_t)(symbol - guest_image);
}

static void guest_make_gate(unsigned number, const char *handler, unsigned ring) {
  const uint64_t at = guest_address(handler), interrupt = 0x8e;
  guest_put(GUEST_IDT + 16 * number,
            (at & 0xffff) | KERNEL_CODE << 16 | (interrupt | (uint64_t)ring << 5) << 40 | (at & 0xffff0000) << 32);
}

/* Segments without meaning, as long mode has them, at the places that sysret expects (Intel SDM 2B, SYSRET). */
static void guest_make_segments(void) {
  guest_put(GUEST_GDT + KERNEL_CODE, 0x00af9b000000ffff);
  guest_put(GUEST_GDT + KERNEL_DATA, 0x00cf93000000ffff);
  guest_put(GUEST_GDT + (USER_DATA & ~3), 0x00cff3000000ffff);
  guest_put(GUEST_GDT + (USER_CODE & ~3), 0x00affb000000ffff);
  guest_put(GUEST_TSS + 4, GUEST_STACK);
}

static void guest_fill(bool kept) {
  enum { PAGE_FAULT = 14 };
  const uint64_t stays = guest.has_numbers ? 1ull << 63 : 0, numbers = guest.has_numbers;
  memcpy(guest.memory + GUEST_CODE, guest_image, (size_t)(guest_image_end - guest_image));
  memcpy(guest.memory + GUEST_COPY, guest.memory + GUEST_OBJECT, PAGE);
  guest.memory[GUEST_COPY + VECTORS_MAP_WORD] = VECTORS_OBJECT_MAP;
  guest_make_map(GUEST_CALLER_MAP);
  guest_map_page(GUEST_CALLER_MAP, GUEST_PROGRAM, GUEST_PROGRAM, USERS);
  guest_map_page(GUEST_CALLER_MAP, GUEST_OBJECT, GUEST_OBJECT, USERS);
  guest_make_map(GUEST_OBJECT_MAP);
  guest_map_page(GUEST_OBJECT_MAP, GUEST_OBJECT, GUEST_COPY, USERS);
  guest_put(GUEST_CALLER_CR3, GUEST_CALLER_MAP | stays | numbers * VECTORS_CALLER_MAP);
  guest_put(GUEST_OBJECT_CR3, GUEST_OBJECT_MAP | stays | numbers * VECTORS_OBJECT_MAP);
  guest_make_segments();
  guest_make_gate(PAGE_FAULT, kept ? guest_fault_kept : guest_fault, 0);
  guest_make_gate(GUEST_GATE, guest_gate, 3);
}

/* ---- its processor ------------------------------------------------------------------------------------------------- */

static struct kvm_segment guest_segment(unsigned selector, unsigned type, unsigned ring) {
  return (struct kvm_segment){.limit = 0xffffffff,
                              .selector = (uint16_t)selector,
                              .type = (uint8_t)type,
                              .present = 1,
                              .dpl = (uint8_t)ring,
                              .db = !(type & 8),
                              .s = 1,
                              .l = type >> 3 & 1,
                              .g = 1};
}

static bool guest_tell_features(int kvm) {
  enum { MOST = 256, NUMBERS_OF_MAPS = 1 << 17 };
  static struct {
    struct kvm_cpuid2 head;
    struct kvm_cpuid_entry2 entries[MOST];
  } request;
  request.head.nent = MOST;
  if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, &request) < 0) return false;
  for (unsigned i = 0; i < request.head.nent; i++)
    if (request.entries[i].function == 1) guest.has_numbers = request.entries[i].ecx & NUMBERS_OF_MAPS;
  return ioctl(guest.cpu, KVM_SET_CPUID2, &request) == 0;
}

static bool guest_set_system_registers(void) {
  enum { PROTECTED = 0x80000033, PAE = 1 << 5, GLOBALS = 1 << 7, NUMBERS = 1 << 17, LONG_MODE = 0x501 };
  struct kvm_sregs system;
  if (ioctl(guest.cpu, KVM_GET_SREGS, &system) < 0) return false;
  system.cr0 = PROTECTED;
  system.cr3 = GUEST_CALLER_MAP | (guest.has_numbers ? VECTORS_CALLER_MAP : 0);
  system.cr4 = PAE | GLOBALS | (guest.has_numbers ? NUMBERS : 0);
  system.efer = LONG_MODE; /* with syscall */
  system.cs = guest_segment(USER_CODE, 11, 3);
  system.ss = system.ds = system.es = guest_segment(USER_DATA, 3, 3);
  system.tr = (struct kvm_segment){.base = GUEST_TSS, .limit = 0x67, .selector = TASK, .type = 11, .present = 1};
  system.gdt = (struct kvm_dtable){.base = GUEST_GDT, .limit = 0x3f};
  system.idt = (struct kvm_dtable){.base = GUEST_IDT, .limit = 0xfff};
  return ioctl(guest.cpu, KVM_SET_SREGS, &system) == 0;
}

static bool guest_set_call(void) {
  enum { STAR = 0xc0000081, LSTAR, FMASK = 0xc0000084 };
  struct {
    struct kvm_msrs head;
    struct kvm_msr_entry entries[3];
  } request = {.head.nmsrs = 3,
               .entries = {{.index = STAR, .data = (uint64_t)KERNEL_DATA << 48 | (uint64_t)KERNEL_CODE << 32},
                           {.index = LSTAR, .data = guest_address(guest_call)},
                           {.index = FMASK}}};
  return ioctl(guest.cpu, KVM_SET_MSRS, &request) == 3;
}

/* ---- what stands in between ----------------------------------------------------------------------------------------- */

/* Returns the number of all exits from the guest to its host: the statistic `exits` (api.rst, 4.133), an unsigned
 * word in a file of descriptors and values. On hardware that delivers a guest's faults by itself, that is once a
 * batch, and not once a turn. */
static uint64_t guest_exits(void) {
  uint64_t exits = 0;
  const bool is_read =
      guest.exits_at && pread(guest.stats, &exits, sizeof exits, (off_t)guest.exits_at) == sizeof exits;
  return is_read ? exits : 0;
}

static void guest_count_exits(void) {
  enum { LONGEST_NAME = 64 };
  struct kvm_stats_header head;
  char bytes[sizeof(struct kvm_stats_desc) + LONGEST_NAME];
  const struct kvm_stats_desc *one = (const void *)bytes;
  guest.stats = ioctl(guest.cpu, KVM_GET_STATS_FD, NULL);
  if (guest.stats < 0 || pread(guest.stats, &head, sizeof head, 0) != sizeof head || head.name_size > LONGEST_NAME)
    return;
  const size_t size = sizeof *one + head.name_size;
  for (uint32_t i = 0; i < head.num_desc; i++) {
    if (pread(guest.stats, bytes, size, (off_t)(head.desc_offset + i * size)) != (ssize_t)size) return;
    if (strcmp(bytes + sizeof *one, "exits") == 0) guest.exits_at = head.data_offset + one->offset;
  }
}

/* Exits a turn of the body; negative where nothing counts them. */
static double vectors_exits(void) {
  return guest.exits_at && guest.turns ? (double)guest.exits / (double)guest.turns : -1;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static bool guest_make(int kvm) {
  const int machine = ioctl(kvm, KVM_CREATE_VM, 0);
  guest.memory = mmap(NULL, GUEST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (machine < 0 || guest.memory == MAP_FAILED) return false;
  struct kvm_userspace_memory_region region = {.memory_size = GUEST_BYTES,
                                               .userspace_addr = (uint64_t)(uintptr_t)guest.memory};
  if (ioctl(machine, KVM_SET_USER_MEMORY_REGION, &region) < 0) return false;
  guest.cpu = ioctl(machine, KVM_CREATE_VCPU, 0);
  const int bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
  if (guest.cpu < 0 || bytes <= 0) return false;
  guest.run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, guest.cpu, 0);
  return guest.run != MAP_FAILED && guest_tell_features(kvm) && guest_set_system_registers() && guest_set_call();
}

static const char *guest_entry(enum vectors_test test) {
  return test == VECTORS_LOOP   ? guest_turns
         : test == VECTORS_SVC  ? guest_calls
         : test == VECTORS_GATE ? guest_gates
                                : guest_stores;
}

static bool vectors_run(struct vectors *vectors, uint64_t turns) {
  enum { PORTS_FOR_ALL = 3 << 12, ALWAYS = 2 };
  const struct vectors_way way = vectors_way(vectors->test);
  const bool calls = vectors->test == VECTORS_SVC || vectors->test == VECTORS_GATE;
  struct kvm_regs registers = {.rip = guest_address(guest_entry(vectors->test)),
                               .rflags = PORTS_FOR_ALL | ALWAYS,
                               .rax = calls ? VECTORS_UNTOUCHED : 0,
                               .rbx = turns,
                               .rdi = way.address,
                               .r12 = way.magic};
  const uint64_t exits = guest_exits();
  int entered = ioctl(guest.cpu, KVM_SET_REGS, &registers);
  if (entered == 0) do
      entered = ioctl(guest.cpu, KVM_RUN, 0);
    while (entered < 0 && (errno == EINTR || errno == EAGAIN));
  if (entered < 0 || guest.run->exit_reason != KVM_EXIT_IO || guest.run->io.port != GUEST_PORT) {
    vectors->failure = "the guest left its loop in another way than through its port";
    return false;
  }
  if (!vectors->control) {
    guest.exits += guest_exits() - exits;
    guest.turns += turns;
  }
  memcpy(&vectors->answer, (const char *)guest.run + guest.run->io.data_offset, sizeof vectors->answer);
  return true;
}

/* Whether the guest is where a fault at the system call handler left it: the instruction fetch was made in user mode
 * and refused, and the fault's own handler halted. kvm_pvm behaves so: it jumps to the target of SYSCALL but stays in
 * user mode. */
static bool guest_called_as_program(void) {
  enum { FRAME = 40, MODE = 3 };
  const uint64_t handler = guest_address(guest_call);
  uint64_t frame[2];
  memcpy(frame, guest.memory + GUEST_STACK - FRAME, sizeof frame);
  return guest.run->exit_reason == KVM_EXIT_HLT && frame[0] == handler && (frame[1] & MODE) == MODE;
}

static enum toll_status guest_refuse(struct toll_run *r, enum vectors_test test) {
  if (test == VECTORS_SVC && guest_called_as_program())
    return toll_skip(r, "%s",
                     "the hypervisor behind /dev/kvm takes SYSCALL to its handler without leaving the program's "
                     "mode, so that nothing is entered: the test gate calls by an interrupt");
  return toll_skip(r, "the guest that /dev/kvm makes here does not come back from this test (KVM exit %u): %s",
                   guest.run->exit_reason, "its hypervisor lacks this entry of the hardware");
}

static enum toll_status vectors_open(struct toll_run *r, struct vectors *vectors) {
  const int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
  if (kvm < 0) return toll_skip(r, "a guest with vectors of our own needs /dev/kvm: %s", strerror(errno));
  if (!guest_make(kvm)) return toll_skip(r, "/dev/kvm makes no such guest: %s", strerror(errno));
  guest_fill(vectors->kept);
  guest_count_exits();
  if (!vectors_run(vectors, 1)) return guest_refuse(r, vectors->test);
  return TOLL_OK;
}
#endif

#endif
