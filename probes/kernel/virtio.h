/* SPDX-License-Identifier: Apache-2.0
 *
 * A register of a virtual device that may be read at any time: the number of queues of a virtio device on PCI (Virtual
 * I/O Device 1.2, 4.1.4.3). It never changes, and reading it does nothing; of other devices' registers, and of virtio's
 * own interrupt status, that is not so.
 */
#ifndef TOLL_KERNEL_VIRTIO_H
#define TOLL_KERNEL_VIRTIO_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "toll.h"

enum {
  VIRTIO_VENDOR = 0x1af4,
  PCI_FIRST_CAPABILITY = 0x34,
  PCI_CAPABILITY_OF_VENDOR = 9,
  VIRTIO_COMMON_CONFIGURATION = 1,
  VIRTIO_QUEUES = 0x12 /* in the common configuration */
};

static inline bool virtio_is(const uint8_t space[256]) {
  return (space[0] | space[1] << 8) == VIRTIO_VENDOR;
}

/* Finds the BAR of the common configuration and its offset there. Returns false if the device has none. */
static inline bool virtio_find(const uint8_t space[256], unsigned *bar, uint32_t *offset) {
  if (!virtio_is(space)) return false;
  unsigned at = space[PCI_FIRST_CAPABILITY];
  for (unsigned left = 48; left && at >= 64 && at <= 256 - 16; left--, at = space[at + 1]) {
    if (space[at] != PCI_CAPABILITY_OF_VENDOR || space[at + 3] != VIRTIO_COMMON_CONFIGURATION) continue;
    *bar = space[at + 4];
    *offset =
        space[at + 8] | (uint32_t)space[at + 9] << 8 | (uint32_t)space[at + 10] << 16 | (uint32_t)space[at + 11] << 24;
    return true;
  }
  return false;
}

static inline bool virtio_read_space(const char *device, uint8_t space[256]) {
  char name[512];
  snprintf(name, sizeof name, "%s/config", device);
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read(file, space, 256); /* the first 64 without CAP_SYS_ADMIN */
  if (file >= 0) close(file);
  return got == 256;
}

/* NULL with errno after a refusal. */
static inline const volatile uint16_t *virtio_map(const char *device, unsigned bar, uint32_t offset) {
  char name[512];
  const size_t page = toll_page_bytes(), first = offset / page * page;
  snprintf(name, sizeof name, "%s/resource%u", device, bar);
  const int file = open(name, O_RDONLY | O_SYNC | O_CLOEXEC);
  if (file < 0) return NULL;
  const char *start = mmap(NULL, page, PROT_READ, MAP_SHARED, file, (off_t)first);
  const int error = errno;
  close(file);
  errno = error;
  return start == MAP_FAILED ? NULL : (const volatile uint16_t *)(const void *)(start + offset - first + VIRTIO_QUEUES);
}

/* The register of the first device that gives it; NULL with errno, ENODEV where there is no such device. */
static inline const volatile uint16_t *virtio_register(void) {
  const volatile uint16_t *found = NULL;
  int error = ENODEV;
  glob_t devices = {0};
  if (glob("/sys/bus/pci/devices/*", 0, NULL, &devices) != 0) devices.gl_pathc = 0;
  for (size_t i = 0; !found && i < devices.gl_pathc; i++) {
    uint8_t space[256] = {0};
    unsigned bar = 0;
    uint32_t offset = 0;
    const bool is_whole = virtio_read_space(devices.gl_pathv[i], space);
    if (!is_whole && virtio_is(space)) error = EPERM;
    if (!is_whole || !virtio_find(space, &bar, &offset)) continue;
    found = virtio_map(devices.gl_pathv[i], bar, offset);
    if (!found) error = errno;
  }
  globfree(&devices);
  errno = error;
  return found;
}

#endif
