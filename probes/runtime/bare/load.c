/* SPDX-License-Identifier: Apache-2.0
 *
 * Executables: found in the archive that the boot loader left in memory, loaded as Linux would, and given the stack that
 * the C library expects to find (System V ABI, "Process initialization"; elf(5); getauxval(3)).
 */
#include <asm/hwcap.h>
#include <elf.h>
#include <linux/errno.h>

#include "bare.h"

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr elf_header;
typedef Elf64_Phdr elf_segment;
enum { ELF_CLASS = ELFCLASS64 };
#else
typedef Elf32_Ehdr elf_header;
typedef Elf32_Phdr elf_segment;
enum { ELF_CLASS = ELFCLASS32 };
#endif

/* ---- the archive: `newc`, as src/tollmeter/targets/qemu_system.py writes it ----------------------------------------- */

enum { HEADER_BYTES = 110, SIZE_FIELD = 6, NAME_FIELD = 11 };

static uint32_t field(const uint8_t *header, unsigned number) {
  char digits[11] = "0x";
  memcpy(digits + 2, header + 6 + 8 * number, 8);
  return (uint32_t)text_number(digits);
}

static uintptr_t padded(uintptr_t bytes) {
  return (bytes + 3) & ~(uintptr_t)3;
}

bool archive_find(struct bare_file archive, const char *path, struct bare_file *file) {
  uintptr_t at = 0;
  while (at + HEADER_BYTES <= archive.size && memcmp(archive.bytes + at, "070701", 6) == 0) {
    const uint8_t *header = archive.bytes + at;
    const char *name = (const char *)header + HEADER_BYTES;
    const uintptr_t content = at + padded(HEADER_BYTES + field(header, NAME_FIELD)), size = field(header, SIZE_FIELD);
    if (content > archive.size || size > archive.size - content) return false;
    if (text_equals(name, path)) {
      *file = (struct bare_file){archive.bytes + content, size};
      return true;
    }
    at = content + padded(size);
  }
  return false;
}

uintptr_t archive_bytes(const uint8_t *bytes, uintptr_t limit) {
  struct bare_file last;
  return archive_find((struct bare_file){bytes, limit}, "TRAILER!!!", &last) ? (uintptr_t)(last.bytes - bytes) : 0;
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static uintptr_t heap;

static bool is_ours(const elf_header *header, uintptr_t size) {
  return size >= sizeof *header && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
         header->e_ident[EI_CLASS] == ELF_CLASS && header->e_machine == ELF_CPU && header->e_type == ET_EXEC &&
         header->e_phentsize == sizeof(elf_segment) && header->e_phoff <= size &&
         header->e_phnum * sizeof(elf_segment) <= size - header->e_phoff;
}

static uintptr_t page_end(uintptr_t address) {
  return (address + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
}

static int load_segment(struct bare_file file, const elf_segment *segment) {
  const unsigned may = (segment->p_flags & PF_R ? MAY_READ : 0) | (segment->p_flags & PF_W ? MAY_WRITE : 0) |
                       (segment->p_flags & PF_X ? MAY_EXECUTE : 0);
  if (segment->p_filesz > segment->p_memsz || segment->p_offset > file.size ||
      segment->p_filesz > file.size - segment->p_offset || segment->p_vaddr >= MAPPINGS_END ||
      segment->p_memsz > MAPPINGS_END - segment->p_vaddr)
    return ENOEXEC;
  const uintptr_t start = segment->p_vaddr & ~(uintptr_t)(PAGE_BYTES - 1),
                  end = page_end(segment->p_vaddr + segment->p_memsz);
  memory_promise(start, end - start, may);
  if (!memory_fill(segment->p_vaddr, file.bytes + segment->p_offset, segment->p_filesz)) return ENOMEM;
  if (end > heap) heap = end;
  return 0;
}

uintptr_t load_break(void) {
  return heap;
}

/* ---- the first stack --------------------------------------------------------------------------------------------- */

static uintptr_t push_bytes(uintptr_t *top, const void *bytes, uintptr_t count) {
  *top -= count;
  memcpy((void *)*top, bytes, count);
  return *top;
}

static uintptr_t push_text(uintptr_t *top, const char *text) {
  return push_bytes(top, text, strlen(text) + 1);
}

static bool real_time;

void load_for_real_time(bool real) {
  real_time = real;
}

struct table {
  uintptr_t words[512];
  unsigned used;
};

static void add(struct table *table, uintptr_t word) {
  if (table->used < sizeof table->words / sizeof table->words[0]) table->words[table->used++] = word;
}

static void add_auxiliary(struct table *table, uintptr_t *top, const elf_header *header, uintptr_t headers_at,
                          uintptr_t name) {
  /* The C library makes its canaries of these. They are the same each time, and so is all that follows. */
  static const uint8_t random[16] = {0x7a, 0x11, 0xe3, 0x5d, 0x02, 0x9b, 0x40, 0xc8,
                                     0x36, 0xf1, 0x68, 0xad, 0x97, 0x24, 0xde, 0x53};
  const uintptr_t pairs[][2] = {{AT_PHDR, headers_at},
                                {AT_PHENT, sizeof(elf_segment)},
                                {AT_PHNUM, header->e_phnum},
                                {AT_PAGESZ, PAGE_BYTES},
                                {AT_ENTRY, header->e_entry},
                                {AT_HWCAP, CAPABILITY},
                                {AT_CLKTCK, 100},
                                {AT_UID, 0},
                                {AT_EUID, 0},
                                {AT_GID, 0},
                                {AT_EGID, 0},
                                {AT_SECURE, 0},
                                {AT_PLATFORM, push_text(top, PLATFORM)},
                                {AT_RANDOM, push_bytes(top, random, sizeof random)},
                                {AT_EXECFN, name},
                                {AT_NULL, 0}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    add(table, pairs[i][0]);
    add(table, pairs[i][1]);
  }
}

static uintptr_t make_stack(char *const words[], const elf_header *header, uintptr_t headers_at) {
  enum { FIRST_BYTES = 65536 };
  static struct table table;
  uintptr_t top = PROGRAM_END, count = 0;
  memory_promise(PROGRAM_END - STACK_BYTES, STACK_BYTES, MAY_READ | MAY_WRITE);
  if (!memory_of_program(PROGRAM_END - FIRST_BYTES, FIRST_BYTES, MAY_WRITE)) return 0;
  table.used = 0;
  while (words[count]) count++;
  add(&table, count);
  for (uintptr_t i = 0; i < count; i++) add(&table, push_text(&top, words[i]));
  add(&table, 0);
  if (!real_time) add(&table, push_text(&top, "TOLL_CLOCK=virtual"));
  add(&table, 0);
  add_auxiliary(&table, &top, header, headers_at, table.words[1]);
  top = (top - table.used * sizeof table.words[0]) & ~(uintptr_t)15;
  memcpy((void *)top, table.words, table.used * sizeof table.words[0]);
  return top;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

int load_program(struct bare_file file, char *const words[], registers *core) {
  const elf_header *header = (const void *)file.bytes;
  uintptr_t headers_at = 0;
  if (!is_ours(header, file.size)) return ENOEXEC;
  const elf_segment *segments = (const void *)(file.bytes + header->e_phoff);
  heap = 0;
  for (const elf_segment *one = segments; one < segments + header->e_phnum; one++) {
    if (one->p_type != PT_LOAD) continue;
    int refused = load_segment(file, one);
    if (refused) return refused;
    if (one->p_offset == 0) headers_at = one->p_vaddr + header->e_phoff;
  }
  const uintptr_t stack = make_stack(words, header, headers_at);
  if (!stack) return ENOMEM;
  core_begin(core, header->e_entry, stack);
  return 0;
}
