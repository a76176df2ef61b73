/* SPDX-License-Identifier: Apache-2.0
 *
 *     x32-loader [--as NAME] EXECUTABLE [ARGUMENT...]
 *
 * Loads a static x32 executable as the kernel would (fs/binfmt_elf.c) and jumps to its entry. Exits with 126 on
 * failure.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "loader.h"

enum { MOST_PARTS = 32, CANNOT = 126, VDSO_FUNCTIONS = 5 };

struct start {
  long count;
  char **words, **environment;
  const Elf64_auxv_t *auxiliary;
};
struct image {
  Elf32_Ehdr header;
  Elf32_Phdr parts[MOST_PARTS];
};

_Noreturn void enter_program(uintptr_t entry, uintptr_t stack, uintptr_t old, size_t bytes);
extern const char vdso_image[], vdso_image_end[];
char program_path[PATH_MAX];

/* The end of what is written. */
static char *put_digits(char *to, long number) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  while (count) *to++ = digits[--count];
  return to;
}

void complain(const char *sentence, long number) {
  char line[160], *end = line;
  while (*sentence && end < line + 120) *end++ = *sentence++;
  if (number >= 0) {
    *end++ = ' ';
    end = put_digits(end, number);
  }
  *end++ = '\n';
  NATIVE(SYS_write, 2, line, end - line);
}

static _Noreturn void give_up(const char *sentence) {
  complain(sentence, -1);
  for (;;) NATIVE(SYS_exit_group, CANNOT);
}

/* ---- the executable ---------------------------------------------------------------------------------------------- */

static long open_program(const char *path, struct image *image) {
  const long file = NATIVE(SYS_open, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) give_up("x32-loader: the executable cannot be opened");
  const Elf32_Ehdr *header = &image->header;
  const long bytes = NATIVE(SYS_pread64, file, &image->header, sizeof image->header, 0);
  if (bytes != sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS32 || header->e_machine != EM_X86_64 || header->e_type != ET_EXEC)
    give_up("x32-loader: this is no static x32 executable");
  const long wanted = (long)sizeof image->parts[0] * header->e_phnum;
  if (header->e_phnum > MOST_PARTS || NATIVE(SYS_pread64, file, image->parts, wanted, header->e_phoff) != wanted)
    give_up("x32-loader: the executable's program headers cannot be read");
  return file;
}

static int protection_of(const Elf32_Phdr *part) {
  return (part->p_flags & PF_R ? PROT_READ : 0) | (part->p_flags & PF_W ? PROT_WRITE : 0) |
         (part->p_flags & PF_X ? PROT_EXEC : 0);
}

/* Maps a segment, clears the rest of its last page, and maps the part that is not in the file. Returns its end. */
static uintptr_t map_part(long file, const Elf32_Phdr *part) {
  const uintptr_t start = page_down(part->p_vaddr), of_file = part->p_vaddr + part->p_filesz,
                  end = part->p_vaddr + part->p_memsz, mapped = part->p_filesz ? page_up(of_file) : start;
  const int protection = protection_of(part);
  long failed = 0;
  if (part->p_filesz)
    failed = memory_map(start, of_file - start, protection, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file,
                        (long)page_down(part->p_offset));
  if (failed >= 0 && mapped > of_file && end > of_file && protection & PROT_WRITE)
    memset((void *)of_file, 0, mapped - of_file);
  if (failed >= 0 && end > mapped)
    failed = memory_map(mapped, end - mapped, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (failed < 0) give_up("x32-loader: a segment of the executable cannot be mapped below 4 GiB");
  return end;
}

static uintptr_t map_program(long file, const struct image *image) {
  uintptr_t end = 0;
  for (unsigned i = 0; i < image->header.e_phnum; i++) {
    const Elf32_Phdr *part = &image->parts[i];
    if (part->p_type == PT_INTERP) give_up("x32-loader: the executable is not static");
    if (part->p_type != PT_LOAD) continue;
    const uintptr_t of_part = map_part(file, part);
    if (of_part > end) end = of_part;
  }
  return page_up(end);
}

static uintptr_t headers_of(const struct image *image) {
  for (unsigned i = 0; i < image->header.e_phnum; i++) {
    const Elf32_Phdr *part = &image->parts[i];
    if (part->p_type == PT_LOAD && part->p_offset <= image->header.e_phoff) {
      return part->p_vaddr + image->header.e_phoff - part->p_offset;
    }
  }
  return 0;
}

/* ---- the vDSO ------------------------------------------------------------------------------------------------------ */

static uint64_t auxiliary(const struct start *start, uint64_t type) {
  for (const Elf64_auxv_t *entry = start->auxiliary; entry->a_type != AT_NULL; entry++)
    if (entry->a_type == type) return entry->a_un.a_val;
  return 0;
}

struct symbols {
  const char *names;
  const Elf64_Sym *table;
  uint64_t count;
};

/* The kernel's vDSO is linked at 0; its hash table has the number of symbols. */
static struct symbols symbols_of(uintptr_t base) {
  struct symbols found = {0};
  const Elf64_Ehdr *header = (const void *)base;
  const Elf64_Phdr *parts = (const void *)(base + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    if (parts[i].p_type != PT_DYNAMIC) continue;
    for (const Elf64_Dyn *entry = (const void *)(base + parts[i].p_offset); entry->d_tag != DT_NULL; entry++) {
      const uintptr_t place = base + entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) found.names = (const char *)place;
      if (entry->d_tag == DT_SYMTAB) found.table = (const void *)place;
      if (entry->d_tag == DT_HASH) found.count = ((const uint32_t *)place)[1];
    }
  }
  if (!found.count && found.table && (const char *)found.table < found.names)
    found.count = (uint64_t)(found.names - (const char *)found.table) / sizeof *found.table;
  return found;
}

static uint64_t function_of(uintptr_t base, const char *name) {
  const struct symbols symbols = symbols_of(base);
  for (uint64_t i = 0; i < symbols.count; i++)
    if (strcmp(symbols.names + symbols.table[i].st_name, name) == 0) return base + symbols.table[i].st_value;
  return 0;
}

/* 0 where the kernel has no vDSO: the C library then makes calls. */
static address32 map_vdso(const struct start *start) {
  static const char *const names[VDSO_FUNCTIONS] = {"__vdso_clock_gettime", "__vdso_clock_getres",
                                                    "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu"};
  const uintptr_t kernels = auxiliary(start, AT_SYSINFO_EHDR);
  const size_t bytes = (size_t)(vdso_image_end - vdso_image);
  if (!kernels) return 0;
  const long place = memory_map(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place < 0) return 0;
  memcpy((void *)place, vdso_image, bytes);
  const Elf32_Ehdr *header = (const void *)place;
  uint64_t *functions = (uint64_t *)(place + header->e_entry);
  for (unsigned i = 0; i < VDSO_FUNCTIONS; i++) {
    functions[i] = function_of(kernels, names[i]);
    if (!functions[i]) return 0;
  }
  NATIVE(SYS_mprotect, place, page_up(bytes), PROT_READ | PROT_EXEC);
  return (address32)place;
}

/* ---- the first stack ------------------------------------------------------------------------------------------------ */

static uintptr_t put_text(uintptr_t *top, const char *text) {
  const size_t bytes = strlen(text) + 1;
  *top -= bytes;
  memcpy((void *)*top, text, bytes);
  return *top;
}

/* named: an environment string that replaces those with the same name before the `=`. */
static address32 *put_list(address32 *to, char **texts, const char *named, uintptr_t *top) {
  const size_t begins = named ? (size_t)(strchr(named, '=') - named) + 1 : 0;
  for (; *texts; texts++)
    if (!named || strncmp(*texts, named, begins) != 0) *to++ = (address32)put_text(top, *texts);
  if (named) *to++ = (address32)put_text(top, named);
  *to++ = 0;
  return to;
}

/* A page that both loader and program can access. */
static const char *share_page(void) {
  static char text[] = "TOLL_SERVED=0x00000000";
  const long place = memory_map(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place < 0) give_up("x32-loader: no memory below 4 GiB");
  shared = (struct shared *)place;
  char *digit = text + sizeof text - 2;
  for (uintptr_t left = (uintptr_t)place; left; left /= 16) *digit-- = "0123456789abcdef"[left % 16];
  return text;
}

static unsigned length(char **texts) {
  unsigned count = 0;
  while (texts[count]) count++;
  return count;
}

static address32 *put_auxiliary(address32 *to, const struct start *start, const struct image *image, address32 vdso,
                                uintptr_t *top) {
  const uint64_t same[] = {AT_HWCAP, AT_HWCAP2, AT_CLKTCK, AT_UID, AT_EUID, AT_GID, AT_EGID, AT_MINSIGSTKSZ};
  const char *platform = (const char *)auxiliary(start, AT_PLATFORM),
             *random = (const char *)auxiliary(start, AT_RANDOM);
  const address32 own[][2] = {
      {AT_PHDR, (address32)headers_of(image)},
      {AT_PHENT, sizeof(Elf32_Phdr)},
      {AT_PHNUM, image->header.e_phnum},
      {AT_PAGESZ, PAGE},
      {AT_BASE, 0},
      {AT_FLAGS, 0},
      {AT_ENTRY, image->header.e_entry},
      {AT_SECURE, 0},
      {AT_RANDOM, (address32)(*top -= 16)},
      {AT_PLATFORM, (address32)put_text(top, platform ? platform : "x86_64")},
      {AT_EXECFN, (address32)put_text(top, program_path)},
      {vdso ? AT_SYSINFO_EHDR : AT_IGNORE, vdso},
  };
  if (random) memcpy(at(own[8][1]), random, 16);
  for (unsigned i = 0; i < sizeof own / sizeof *own; i++, to += 2) memcpy(to, own[i], sizeof own[i]);
  for (unsigned i = 0; i < sizeof same / sizeof *same; i++) {
    *to++ = (address32)same[i];
    *to++ = (address32)auxiliary(start, same[i]);
  }
  *to++ = AT_NULL;
  *to++ = 0;
  return to;
}

/* Strings at the top, the words of argc, argv, environment and auxiliary vector below them. */
static uintptr_t make_stack(const struct start *start, const struct image *image, address32 vdso) {
  enum { AUXILIARY_WORDS = 2 * 32, TEXTS_MOST = 1 << 20 };
  uintptr_t top = STACK_TOP, bytes = 0;
  const long place = NATIVE(SYS_mmap, STACK_TOP - STACK_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0);
  if (place < 0) give_up("x32-loader: no stack below 4 GiB");
  const unsigned words = length(start->words) + length(start->environment) + 4 + AUXILIARY_WORDS;
  for (char **text = start->words; *text; text++) bytes += strlen(*text) + 1;
  for (char **text = start->environment; *text; text++) bytes += strlen(*text) + 1;
  bytes += 2 * PATH_MAX;
  if (bytes > TEXTS_MOST) give_up("x32-loader: the command line and the environment are longer than 1 MiB");
  const uintptr_t stack = (STACK_TOP - bytes - 4 * words) & -64ul;
  address32 *to = (address32 *)stack;
  *to++ = (address32)start->count;
  to = put_list(to, start->words, NULL, &top);
  to = put_list(to, start->environment, share_page(), &top);
  put_auxiliary(to, start, image, vdso, &top);
  return stack;
}

/* Tells the kernel the addresses of heap and stack, so that brk(2) uses them and /proc/self/maps names both. A
 * kernel without CONFIG_CHECKPOINT_RESTORE refuses this. */
static bool describe_memory(const struct image *image, uintptr_t heap, uintptr_t stack) {
  const uintptr_t code = image->header.e_entry;
  const struct prctl_mm_map map = {
      .start_code = code,
      .end_code = code + 1,
      .start_data = heap - 1,
      .end_data = heap,
      .start_brk = heap,
      .brk = heap,
      .start_stack = stack,
      .arg_start = stack,
      .arg_end = stack,
      .env_start = stack,
      .env_end = stack,
      .exe_fd = ~0u,
  };
  return NATIVE(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0;
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static struct start start_of(long *stack) {
  struct start start = {stack[0], (char **)(stack + 1), (char **)(stack + 2 + stack[0]), NULL};
  char **end = start.environment;
  while (*end) end++;
  start.auxiliary = (const void *)(end + 1);
  return start;
}

/* Removes the loader's own arguments; words[0] is then the executable's argv[0]. */
static const char *program_of(struct start *start) {
  char *name = NULL;
  start->words++;
  start->count--;
  if (start->count > 2 && strcmp(start->words[0], "--as") == 0) {
    name = start->words[1];
    start->words += 2;
    start->count -= 2;
  }
  if (start->count < 1) give_up("x32-loader: usage: x32-loader [--as NAME] EXECUTABLE [ARGUMENT...]");
  const char *path = start->words[0];
  if (name) start->words[0] = name;
  return path;
}

/* The executable's own path, whatever it was started by. */
static void name_program(long file, const char *path) {
  char link[32] = "/proc/self/fd/";
  put_digits(link + strlen(link), file);
  if (NATIVE(SYS_readlink, link, program_path, sizeof program_path - 1) > 0) return;
  const size_t bytes = strlen(path);
  memcpy(program_path, path, bytes < PATH_MAX ? bytes : PATH_MAX - 1);
}

/* The range of the stack that the kernel made: from its lowest usable address to its last word, after the
 * executable's name. */
static struct iovec first_stack(const struct start *start, const long *stack) {
  enum { BELOW = 1 << 20 }; /* the kernel keeps more free below a stack */
  const char *last = (const char *)auxiliary(start, AT_EXECFN);
  const uintptr_t from = page_down((uintptr_t)stack) - BELOW, to = page_up((uintptr_t)last + strlen(last) + 1 + 8);
  return (struct iovec){(void *)from, to - from};
}

_Noreturn void load_program(long *stack) {
  static struct image image;
  struct start start = start_of(stack);
  const struct iovec old = first_stack(&start, stack);
  const char *path = program_of(&start);
  const long file = open_program(path, &image);
  name_program(file, path);
  memory_reserve(STACK_TOP - STACK_BYTES, STACK_BYTES);
  const uintptr_t heap = map_program(file, &image);
  NATIVE(SYS_close, file);
  const uintptr_t top = make_stack(&start, &image, map_vdso(&start));
  memory_set_break(heap, describe_memory(&image, heap, top));
  if (!signals_serve() || !process_dispatch())
    give_up("x32-loader: this kernel has no Syscall User Dispatch (Linux 5.11)");
  enter_program(image.header.e_entry, top, (uintptr_t)old.iov_base, old.iov_len);
}
