/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning, and what the host asks for, one line at a time.
 */
#include <linux/errno.h>

#include "bare.h"

enum { LONGEST_LINE = 4096, MOST_WORDS = 256 };

static struct bare_file archive;
static bool running;
static char *words[MOST_WORDS + 1];

static void write_text(const char *text) {
  board_write(text, strlen(text));
}

static uintptr_t first_free(void) {
  const uintptr_t image = (uintptr_t)bare_zero_end, archive_end = (uintptr_t)archive.bytes + archive.size;
  const uintptr_t used = archive_end > image ? archive_end : image;
  return (used + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
}

/* Where the boot loader left none, it may stand after the image, as part of the same file. */
static void find_archive(const struct boot *boot, uintptr_t to_memory, uintptr_t memory_end) {
  archive.bytes = (const void *)(boot->archive_start - to_memory);
  archive.size = boot->archive_end - boot->archive_start;
  if (archive.size) return;
  archive.bytes = (const void *)bare_image_end;
  archive.size = archive_bytes(archive.bytes, memory_end - (uintptr_t)bare_image_end);
}

static void read_left(struct boot *boot, uintptr_t left, uintptr_t words, uintptr_t to_memory) {
  enum { MOST_LEFT = 64 };
  if (left >= MOST_LEFT) {
    boot_read(boot, (const void *)(left - to_memory));
    return;
  }
  const uintptr_t *texts = (const void *)(words - to_memory);
  for (uintptr_t i = 0; i < left; i++) boot_read_words(boot, (const char *)(texts[i] - to_memory));
}

/* Of the board's memory, from where the supervisor's begins. */
static uintptr_t memory_from(const struct boot *boot, uintptr_t start) {
  const uintptr_t bytes = boot->memory_at ? boot->memory_at + boot->memory_bytes - start : boot->memory_bytes;
  return bytes < MEMORY_BYTES ? bytes : MEMORY_BYTES;
}

void bare_begin(uintptr_t left, uintptr_t words_at, uintptr_t to_memory) {
  struct boot boot = board_usual;
  read_left(&boot, left, words_at, to_memory);
  const uintptr_t memory_end = MEMORY_AT + memory_from(&boot, MEMORY_AT + to_memory);
  board_open(&boot);
  find_archive(&boot, to_memory, memory_end);
  load_for_real_time(boot.real);
  memory_open(first_free(), memory_end, to_memory);
  write_text("guest ready\n");
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static struct {
  char text[LONGEST_LINE];
  size_t used;
  bool whole; /* a line waits to be taken; what comes after it stays in the UART, which holds back the host */
} input;

static void take_byte(char byte) {
  if (byte != '\n') {
    if (input.used == sizeof input.text - 1) input.used = 0; /* no command is so long: this is noise */
    input.text[input.used++] = byte;
    return;
  }
  input.text[input.used] = '\0';
  input.used = 0;
  input.whole = true;
}

void bare_read_wire(void) {
  for (int byte; !input.whole && (byte = board_read()) >= 0;) take_byte((char)byte);
  if (!input.whole) return;
  if (text_equals(input.text, "halt")) board_off();
  if (!running && !text_equals(input.text, "interrupt")) return;
  if (running && text_equals(input.text, "interrupt")) signals_raise(2 /* SIGINT */);
  input.whole = false;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void split(char *line) {
  unsigned count = 0;
  while (*line && count < MOST_WORDS) {
    while (*line == ' ') *line++ = '\0';
    if (*line) words[count++] = line;
    while (*line && *line != ' ') line++;
  }
  words[count] = NULL;
}

static void say_end(const char *what, uint32_t number) {
  char digits[TEXT_OF_NUMBER];
  write_text("\nguest ");
  write_text(what);
  write_text(text_of_number(digits, number));
  write_text("\n");
}

/* The console tells who did what: whether the program's own handlers were called, and what was emulated here. */
static void tell_console(int status) {
  const struct {
    const char *text;
    uint32_t number;
  } said[] = {{": status ", (uint32_t)status},
              {", handlers called ", signals_handled()},
              {", instructions emulated ", faults_emulated()},
              {", page faults ", memory_faults()}};
  board_say(words[0]);
  for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
    board_say(said[i].text);
    say_number(said[i].number);
  }
  board_say("\n");
}

void bare_ended(int status) {
  running = false;
  core_forget();
  tell_console(status);
  say_end("ended ", (uint32_t)status);
  bare_again();
}

/* As a shell's child: the refusal is said, and then it ends with status 127. */
static _Noreturn void refuse(int error) {
  say_end("cannot ", (uint32_t)error);
  bare_ended(127 << 8);
}

static _Noreturn void run(void) {
  /* Static, since bare_enter() copies it to the end of the stack, where it would overwrite itself. */
  static registers core;
  struct bare_file file;
  memory_clear();
  signals_clear();
  faults_clear();
  running = true;
  if (words[0][0] != '/' || !archive_find(archive, words[0] + 1, &file)) refuse(ENOENT);
  const int refused = load_program(file, words, &core);
  if (refused) refuse(refused);
  calls_clear(file, archive);
  core_forget_fpu();
  core_set_thread(0);
  bare_read_wire(); /* what came after the command, of which no interrupt may tell again */
  clock_restart();
  bare_enter(&core);
}

void bare_attend(void) {
  static char line[LONGEST_LINE];
  for (;;) {
    bare_read_wire();
    if (!input.whole) {
      board_wait();
      continue;
    }
    memcpy(line, input.text, sizeof line);
    input.whole = false;
    split(line);
    if (words[0]) run();
  }
}
