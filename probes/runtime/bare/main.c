/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning, and what the host asks for, one line at a time.
 */
#include <linux/errno.h>

#include "bare.h"
#include "limits/limits.h"

enum { LONGEST_LINE = 4096, MOST_WORDS = 256 };

static struct bare_file archive;
static bool running;
static char *words[MOST_WORDS + 1];

static void write_text(const char *text) {
  board_write(text, strlen(text));
}

static uint32_t first_free(void) {
  const uint32_t image = (uint32_t)(uintptr_t)bare_zero_end;
  const uint32_t archive_end = (uint32_t)(uintptr_t)archive.bytes + archive.size;
  const uint32_t used = archive_end > image ? archive_end : image;
  return (used + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1u);
}

void bare_begin(uint32_t left, uint32_t behind) {
  struct told told = {.memory_bytes = 64 << 20, .wire = 0x10009000, .timer_hz = 100000000};
  told_read(&told, (const void *)(uintptr_t)(left - behind));
  archive.bytes = (const void *)(uintptr_t)(told.archive_start - behind);
  archive.size = told.archive_end - told.archive_start;
  board_open(told.wire, told.timer_hz, told.real);
  load_for_real_time(told.real);
  const uint32_t bytes = told.memory_bytes < MEMORY_BYTES ? told.memory_bytes : MEMORY_BYTES;
  memory_open(first_free(), MEMORY_AT + bytes, behind);
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

void bare_hear(void) {
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
    board_say_number(said[i].number);
  }
  board_say("\n");
}

void bare_ended(int status) {
  running = false;
  limits_forget();
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
  static const uint32_t fpu_at_rest[65];
  static struct fpa_core core; /* not on the stack, whose end is where its copy goes */
  struct bare_file file;
  memory_clear();
  signals_clear();
  faults_clear();
  running = true;
  if (words[0][0] != '/' || !archive_find(archive, words[0] + 1, &file)) refuse(ENOENT);
  const int refused = load_program(file, words, &core);
  if (refused) refuse(refused);
  calls_clear(file, archive);
  bare_fpu_load(fpu_at_rest);
  __asm__ volatile("mcr p15, 0, %0, c13, c0, 3" ::"r"(0)); /* TPIDRURO: no thread's pointer yet */
  clock_restart();
  bare_enter(&core);
}

void bare_attend(void) {
  static char line[LONGEST_LINE];
  for (;;) {
    bare_hear();
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
