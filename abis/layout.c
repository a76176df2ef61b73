/* SPDX-License-Identifier: Apache-2.0
 *
 * How an ABI lays out its types: compiled for each ABI, never linked nor run, and read back from the object file. So
 * the sizes of an ABI that no machine here can run are known too, from its own compiler.
 *
 * Section .toll.layout: facts of 64 bytes, a name and a number in the ABI's own byte order. Section .toll.bytes: facts
 * of 64 bytes, a name and what one known value looks like in memory. Section .toll.double: 1.0 as the assembler writes
 * it. The assembler still supports the word order of the old ARM floating-point accelerator; today's compilers do not.
 */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <wchar.h>

struct number {
  char name[60];
  uint32_t value;
};
struct bytes {
  char name[48];
  union {
    unsigned char raw[16];
    struct {
      unsigned low : 4, middle : 12, high : 16;
    } fields;
    uint32_t word;
    uint64_t longest;
    float single;
  } value;
};

struct one_char {
  char only;
};
struct char_then_double {
  char first;
  double second;
};
struct char_then_int64 {
  char first;
  int64_t second;
};
struct char_then_long {
  char first;
  long second;
};
struct char_then_pointer {
  char first;
  void *second;
};
struct char_then_long_double {
  char first;
  long double second;
};
struct short_and_char {
  short first;
  char second;
};
struct three_chars {
  char first[3];
};
struct int_bits {
  unsigned first : 3;
  char second;
};
struct char_bits {
  char first : 3;
};
struct int_bits_of_none {
  char first;
  int : 0;
  char second;
};
struct packed_mix {
  char first;
  int32_t second;
  char third;
} __attribute__((packed));
struct list_node {
  struct list_node *next, *previous;
  void *item;
};
struct event {
  void *kind;
  int32_t id;
  double time;
  struct event *parent;
  char flag;
};
enum small { SMALL_ONE };

/* _Alignof is the alignment that the ABI requires, also inside a structure. gcc's __alignof__ is the alignment that
 * the compiler prefers: on ia32 it is 8 for a double that is at multiples of 4. */
#define SIZED(label, type)                \
  {"size of " label, sizeof(type)}, {     \
    "alignment of " label, _Alignof(type) \
  }
#define PLACED(label, type, member) \
  { "offset in " label " of " #member, offsetof(type, member) }
#define PAIR(label, type) SIZED("{" label "}", type), PLACED("{" label "}", type, second)

__attribute__((section(".toll.layout"), used)) const struct number toll_layout_numbers[] = {
    SIZED("char", char),
    SIZED("short", short),
    SIZED("int", int),
    SIZED("long", long),
    SIZED("long long", long long),
    SIZED("float", float),
    SIZED("double", double),
    SIZED("long double", long double),
    SIZED("pointer", void *),
    SIZED("size_t", size_t),
    SIZED("wchar_t", wchar_t),
    SIZED("time_t", time_t),
    SIZED("off_t", off_t),
    SIZED("enum of one", enum small),
    SIZED("max_align_t", max_align_t),
    {"char is signed", CHAR_MIN < 0},
    {"wchar_t is signed", (wchar_t)-1 < (wchar_t)1},
    SIZED("{char}", struct one_char),
    SIZED("{char[3]}", struct three_chars),
    SIZED("{short, char}", struct short_and_char),
    PAIR("char, int64_t", struct char_then_int64),
    PAIR("char, long", struct char_then_long),
    PAIR("char, double", struct char_then_double),
    PAIR("char, long double", struct char_then_long_double),
    PAIR("char, pointer", struct char_then_pointer),
    PAIR("unsigned:3, char", struct int_bits),
    SIZED("{char:3}", struct char_bits),
    PAIR("char, int:0, char", struct int_bits_of_none),
    PAIR("packed char, int32_t, char", struct packed_mix),
    SIZED("{3 pointers}", struct list_node),
    SIZED("event", struct event),
    PLACED("event", struct event, id),
    PLACED("event", struct event, time),
    PLACED("event", struct event, parent),
    PLACED("event", struct event, flag),
};

__attribute__((section(".toll.bytes"), used)) const struct bytes toll_layout_bytes[] = {
    {"bit-fields 4:1 12:0x234 16:0x5678", {.fields = {1, 0x234, 0x5678}}},
    {"uint32_t 0x01020304", {.word = 0x01020304}},
    {"uint64_t 0x0102030405060708", {.longest = UINT64_C(0x0102030405060708)}},
    {"float 1.0", {.single = 1.0f}},
};

#if defined(__arm__) && !defined(__ARM_EABI__)
#define ASSEMBLER_FOR_DOUBLE ".fpu fpa\n"
#else
#define ASSEMBLER_FOR_DOUBLE ""
#endif
__asm__(ASSEMBLER_FOR_DOUBLE ".pushsection .toll.double, \"a\"\n.double 1.0\n.popsection\n");
