/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for a probe where a script cannot: under an emulated CPU, in a guest, on another machine. Speaks the protocol
 * with its own few lines, and misbehaves as the last line of its own file tells: "behaviour=NAME".
 */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *target = "local", *visit = "0", *round_ = "0";
static int samples = 1;
static unsigned number;
static volatile sig_atomic_t stopped;

static uint32_t crc32_of(const char *text) {
  uint32_t crc = ~0u;
  for (; *text; text++) {
    crc ^= (unsigned char)*text;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* One record: its payload without the closing brace. */
static void say(const char *format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  snprintf(line + length, sizeof line - (size_t)length, ",\"n\":%u", number++);
  printf("%s,\"c\":\"%08x\"}\n", line, (unsigned)crc32_of(line));
}

static void say_end(void) {
  say("{\"k\":\"end\",\"records\":%u%s", number, stopped ? ",\"stopped\":true" : "");
}

static void say_visit(const char *id) {
  say("{\"k\":\"visit\",\"visit\":%s,\"round\":%s,\"probe\":\"kernel.enter\",\"revision\":1,\"abi\":\"x86_64\","
      "\"target\":\"%s\","
      "\"parameters\":{},\"cpus\":[0],\"seed\":1,\"samples\":%d,\"sample_ns\":1000,\"work\":{}",
      id, round_, target, samples);
}

static void say_samples(int count) {
  say("{\"k\":\"clock\",\"source\":\"monotonic_raw\",\"kind\":\"hardware\",\"resolution_ns\":1,\"cost_ns\":20");
  say("{\"k\":\"control\",\"when\":\"before\",\"adds\":400000,\"ns\":100000");
  for (int i = 0; i < count; i++) {
    const int off = (i + 16 * atoi(visit)) % 97; /* of a real clock no two samples are equal */
    say("{\"k\":\"sample\",\"i\":%d,\"iterations\":1000,\"body\":[%d,%d]", i, 100000 + off, 200000 + 2 * off);
    say("{\"k\":\"witness\",\"i\":%d,\"cpu_before\":0,\"cpu_after\":0,\"control_hz\":4e9", i);
  }
}

static void good(void) {
  say_visit(visit);
  say_samples(samples);
  say_end();
}

static void garbage(void) {
  fwrite("\0\xfe boot\n", 1, 8, stdout);
  say_visit(visit);
  printf("\nnoise\n{}\n");
  say_samples(samples);
  printf("\nguest\n");
  say_end();
}

static void print_many(size_t bytes) {
  static char block[65536];
  memset(block, 'x', sizeof block);
  for (size_t done = 0; done < bytes; done += sizeof block) fwrite(block, 1, sizeof block, stdout);
  printf("\n");
}

static void flood(void) {
  print_many(10 << 20);
  good();
}

static void endless(void) {
  for (;;) print_many(1 << 20);
}

static void cut(void) {
  say_visit(visit);
  say_samples(1);
  printf("{\"k\":\"control\",\"wh");
}

static void hang(void) {
  say_visit(visit);
  say_samples(1);
  fflush(stdout);
  for (;;) continue;
}

static void bad_exit(void) {
  good();
  fflush(stdout);
  fprintf(stderr, "wrote past the arena\n");
  exit(3);
}

static void crash(void) {
  say_visit(visit);
  say_samples(1);
  fflush(stdout);
  raise(SIGSEGV);
}

static void closed_output(void) {
  good();
  fflush(stdout);
  close(1);
  close(2);
  raise(SIGABRT);
}

static void orphan(void) {
  if (fork() == 0) {
    sleep(600);
    _exit(0);
  }
  good();
}

static void other_visit(void) {
  say_visit("6");
  say_samples(samples);
  say_end();
}

static void skip(void) {
  say_visit(visit);
  say("{\"k\":\"skip\",\"reason\":\"no such gate here\"");
  say_end();
}

static void wrong(void) {
  say_visit(visit);
  say("{\"k\":\"fail\",\"status\":\"wrong_answer\",\"reason\":\"the sum is off by one\"");
  say_end();
}

static void deadline(void) {
  exit(124);
}

static void silent(void) {}

static void on_stop(int signal_number) {
  (void)signal_number;
  stopped = 1;
}

static void interruptible(void) {
  struct sigaction action = {0};
  action.sa_handler = on_stop;
  sigaction(SIGINT, &action, NULL);
  for (uint64_t turn = 0; !stopped && turn < UINT64_C(20000000000); turn++) continue;
  say_visit(visit);
  say_samples(1);
  say_end();
}

static const struct {
  const char *name;
  void (*act)(void);
} behaviours[] = {{"good", good},
                  {"garbage", garbage},
                  {"flood", flood},
                  {"endless", endless},
                  {"cut", cut},
                  {"hang", hang},
                  {"bad_exit", bad_exit},
                  {"crash", crash},
                  {"closed_output", closed_output},
                  {"orphan", orphan},
                  {"other_visit", other_visit},
                  {"skip", skip},
                  {"wrong", wrong},
                  {"deadline", deadline},
                  {"silent", silent},
                  {"interruptible", interruptible}};

static const char *value_of(const char *word, const char *name) {
  size_t length = strlen(name);
  return strncmp(word, name, length) == 0 ? word + length : NULL;
}

static int misbehave(void) {
  static char tail[64];
  int file = open("/proc/self/exe", O_RDONLY);
  off_t size = lseek(file, -(off_t)(sizeof tail - 1), SEEK_END);
  if (file < 0 || size < 0 || read(file, tail, sizeof tail - 1) < 0) return 1;
  const char *name = NULL;
  for (size_t i = 0; i + 11 < sizeof tail; i++)
    if (memcmp(tail + i, "\nbehaviour=", 11) == 0) name = tail + i + 11;
  for (size_t i = 0; name && i < sizeof behaviours / sizeof behaviours[0]; i++) {
    if (strcmp(name, behaviours[i].name) != 0) continue;
    behaviours[i].act();
    return 0;
  }
  fprintf(stderr, "no behaviour\n");
  return 1;
}

static void describe(void) {
  say("{\"k\":\"probe\",\"protocol\":1,\"probe\":\"kernel.enter\",\"revision\":1,\"question\":\"?\",\"metrics\":[]");
  say("{\"k\":\"build\",\"probe\":\"kernel.enter\",\"abi\":\"x86_64\",\"compiler\":\"gcc\",\"flags\":\"\"");
  say_end();
}

static void machine(void) {
  say("{\"k\":\"machine\",\"host\":\"rogue\",\"cpu\":\"?\",\"kernel\":\"Linux\",\"hypervisor\":null,\"cpus\":1,"
      "\"memory_bytes\":1");
  say("{\"k\":\"control\",\"when\":\"before\",\"adds\":400000,\"ns\":100000");
  say_end();
}

int main(int count, char **words) {
  const char *value;
  for (int i = 1; i < count; i++) {
    if (strcmp(words[i], "--describe") == 0) return describe(), 0;
    if (strcmp(words[i], "--machine") == 0) return machine(), 0;
    if (strncmp(words[i], "--", 2) != 0) return 2;
    if ((value = value_of(words[i], "--visit="))) visit = value;
    if ((value = value_of(words[i], "--round="))) round_ = value;
    if ((value = value_of(words[i], "--target="))) target = value;
    if ((value = value_of(words[i], "--samples="))) samples = atoi(value);
  }
  return misbehave();
}
