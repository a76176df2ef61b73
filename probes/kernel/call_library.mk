# SPDX-License-Identifier: Apache-2.0
#
# What kernel.call_library is linked with where the compiler finds it for this ABI, and the Debian packages that bring it.
# docs/decisions/0026-libraries-of-probes.md tells why these, and how.

kernel.call_library.packages := libdbus-1-dev libtirpc-dev

tirpc := $(call archive,libtirpc)
dbus  := $(call archive,libdbus-1)
kernel.call_library.flags := $(if $(tirpc),-DTOLL_HAS_TIRPC -isystem /usr/include/tirpc) \
                             $(if $(dbus),-DTOLL_HAS_DBUS -isystem /usr/include/dbus-1.0 -isystem $(dir $(dbus))dbus-1.0/include)
# What they could ask of the system's list of users warns of the C library that it would need: nothing here asks.
kernel.call_library.libs  := $(if $(tirpc)$(dbus),$(tirpc) $(dbus) -Xlinker --no-warnings)
