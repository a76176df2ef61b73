/* SPDX-License-Identifier: Apache-2.0
 *
 * Six ways to read an IP header that follows an Ethernet header of 14 bytes, and so two bytes off.
 *
 *   overlay   a structure laid over the frame, read with plain loads: free, slow, or fatal, as the CPU and kernel like
 *   packed    the same structure declared packed: the compiler chooses loads that cannot trap
 *   halves    every 32-bit field as two 16-bit loads, which the 14 bytes leave aligned
 *   copy      the header copied to an aligned place first (what an "ipalign" in the driver does to all of the frame)
 *   shifted   the frame received two bytes further on, so that the header is aligned and the frame is not
 *   trapped   the overlay with each misaligned load trapped and made good by a handler
 *
 * A LEON3 network stack was sped up by a third by choosing among them (suite rtems-2005); and trapped over packed says at
 * how many fields a header trapping loses to anything else. The frames fit the first cache: a driver has just written
 * them. Each of the two 32-bit addresses is misaligned, the 16-bit length is not, the protocol cannot be.
 */
#include "align_trap.h"

enum way { OVERLAY, PACKED, HALVES, COPY, SHIFTED, TRAPPED };
enum { FRAMES = 64, FRAME_BYTES = 64, ETHERNET_BYTES = 14, SHIFT = 2, TRAPS_OF_HEADER = 2 };

struct ip_header {
  uint8_t version, service;
  uint16_t length, id, fragment;
  uint8_t life, protocol;
  uint16_t checksum;
  uint32_t source, target;
} __attribute__((may_alias));
struct packed_header {
  struct ip_header header;
} __attribute__((packed, may_alias));

struct frames {
  unsigned char *headers; /* headers of the first frame; the others follow at FRAME_BYTES */
  uint32_t expected, sum;
  uint64_t trapped_passes;
};

static inline uint32_t read_overlay(const unsigned char *at) {
  const volatile struct ip_header *header = (const void *)at;
  return header->length + header->protocol + header->source + header->target;
}

static inline uint32_t read_packed(const unsigned char *at) {
  const volatile struct packed_header *packed = (const void *)at;
  return packed->header.length + packed->header.protocol + packed->header.source + packed->header.target;
}

/* The halves are kept separate; otherwise the compiler would merge them into one load. */
static inline uint32_t two_halves(const volatile uint16_t *half) {
  uint32_t first = half[0], second = half[1];
  TOLL_OPAQUE(first);
  TOLL_OPAQUE(second);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return first | second << 16;
#else
  return first << 16 | second;
#endif
}

static inline uint32_t read_halves(const unsigned char *at) {
  typedef uint16_t half __attribute__((may_alias));
  const volatile half *source = (const volatile half *)(at + offsetof(struct ip_header, source));
  const volatile half *length = (const volatile half *)(at + offsetof(struct ip_header, length));
  return *length + at[offsetof(struct ip_header, protocol)] + two_halves(source) + two_halves(source + 2);
}

static inline uint32_t read_copy(const unsigned char *at) {
  struct ip_header aligned;
  const struct ip_header *header = &aligned;
  memcpy(&aligned, at, sizeof aligned);
  TOLL_OPAQUE(header);
  TOLL_MEMORY();
  return header->length + header->protocol + header->source + header->target;
}

static inline uint32_t read_trapped(const unsigned char *at) {
  const volatile struct ip_header *header = (const void *)at;
  const uintptr_t source = (uintptr_t)at + offsetof(struct ip_header, source);
  const uintptr_t target = (uintptr_t)at + offsetof(struct ip_header, target);
  return header->length + header->protocol + (uint32_t)align_trap_load(source, sizeof(uint32_t)) +
         (uint32_t)align_trap_load(target, sizeof(uint32_t));
}

#define EACH_HEADER(read) \
  for (size_t i = 0; i < FRAMES; i++) sum += read(headers + i * FRAME_BYTES)

static uint32_t read_all(const unsigned char *headers, unsigned way) {
  uint32_t sum = 0;
  TOLL_OPAQUE(headers);
  switch (way) {
    case PACKED: EACH_HEADER(read_packed); break;
    case HALVES: EACH_HEADER(read_halves); break;
    case COPY: EACH_HEADER(read_copy); break;
    case TRAPPED:
      align_trap_on();
      EACH_HEADER(read_trapped);
      align_trap_off();
      break;
    default: EACH_HEADER(read_overlay);
  }
  return sum;
}

static void read_overlays(void *headers) {
  TOLL_USE(read_all(headers, OVERLAY));
}

static uint32_t fill(struct frames *frames, uint64_t random) {
  uint32_t sum = 0;
  for (size_t i = 0; i < FRAMES; i++) {
    struct ip_header header = {0};
    header.length = (uint16_t)toll_random(&random);
    header.protocol = (uint8_t)toll_random(&random);
    header.source = (uint32_t)toll_random(&random);
    header.target = (uint32_t)toll_random(&random);
    memcpy(frames->headers + i * FRAME_BYTES, &header, sizeof header);
    sum += header.length + header.protocol + header.source + header.target;
  }
  return sum;
}

static enum toll_status prepare(struct toll_run *r) {
  struct frames *frames = r->state;
  const unsigned way = toll_choice(r, "way");
  unsigned char *room = toll_buffer(r, (struct toll_buffer_request){.bytes = (FRAMES + 1) * FRAME_BYTES});
  if (!room) return toll_refused(r);
  frames->headers = room + ETHERNET_BYTES + (way == SHIFTED ? SHIFT : 0);
  frames->expected = fill(frames, r->seed);
  if (way == TRAPPED && toll_needs_kernel(r) != TOLL_OK) return TOLL_SKIPPED;
  if (way == TRAPPED && !ALIGN_TRAP_KNOWN)
    return toll_skip(r, "no handler for alignment traps is written for this architecture");
  if (way == TRAPPED) align_trap_catch();
  if (way == OVERLAY) align_mend(true);
  if (way == OVERLAY && toll_guarded(read_overlays, frames->headers))
    return toll_skip(r, "a misaligned load ends the program here");
  return TOLL_OK;
}

static void read_headers(struct toll_run *r) {
  struct frames *frames = r->state;
  const unsigned way = toll_choice(r, "way");
  uint32_t sum = 0;
  for (uint64_t i = r->iterations; i; i--) sum = read_all(frames->headers, way);
  frames->sum = sum;
  frames->trapped_passes += way == TRAPPED ? r->iterations : 0;
}

static enum toll_status check(struct toll_run *r) {
  struct frames *frames = r->state;
  const uint32_t sum = frames->sum;
  const uint64_t traps = frames->trapped_passes * FRAMES * TRAPS_OF_HEADER;
  frames->sum = ~frames->expected;
  if (sum != frames->expected) return toll_wrong(r, "the fields add up to %#x, not %#x", sum, frames->expected);
  if (align_traps_taken == traps) return TOLL_OK;
  return toll_wrong(r, "%llu loads were trapped, not %llu", (unsigned long long)align_traps_taken,
                    (unsigned long long)traps);
}

static void work(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->operations = FRAMES;
}

static const char *const ways[] = {"overlay", "packed", "halves", "copy", "shifted", "trapped", NULL};
static const struct toll_parameter parameters[] = {
    {.name = "way",
     .kind = TOLL_CHOICE,
     .summary = "a structure over the frame, declared packed, 16-bit halves, a copy, a frame two bytes later, or traps",
     .choices = ways},
    {0}};
static const struct toll_metric metrics[] = {{.name = "header",
                                              .unit = "ns",
                                              .summary = "four fields of one header read",
                                              .means = "header-read",
                                              .toll = "read a misaligned IP header, {way}"},
                                             {0}};

const struct toll_probe toll_probe = {
    .question = "Which way to read a misaligned IP header is cheap on this CPU, and what does trapping cost?",
    .metrics = metrics,
    .parameters = parameters,
    .state_bytes = sizeof(struct frames),
    .prepare = prepare,
    .body = read_headers,
    .check = check,
    .work = work,
    .enters = true,
    .revision = 1,
};
