# SPDX-License-Identifier: Apache-2.0
#
# What kernel.call_library is linked with where there is an archive of it for this ABI.

tirpc := $(call archive,libtirpc,libtirpc)
dbus  := $(call archive,libdbus,libdbus-1)
kernel.call_library.flags := $(if $(tirpc),-DTOLL_HAS_TIRPC -isystem $(LIBRARIES)/libtirpc/usr/include/tirpc) \
                             $(if $(dbus),-DTOLL_HAS_DBUS -isystem $(LIBRARIES)/libdbus/usr/include/dbus-1.0 \
                               -isystem $(dir $(dbus))dbus-1.0/include)
# What they could ask of the system's list of users warns of the C library that it would need: nothing here asks.
kernel.call_library.libs  := $(if $(tirpc)$(dbus),$(tirpc) $(dbus) -Xlinker --no-warnings)
