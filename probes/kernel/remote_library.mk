# SPDX-License-Identifier: Apache-2.0
#
# What kernel.remote_library is linked with, as kernel.call_library is.

tirpc := $(call archive,libtirpc,libtirpc)
kernel.remote_library.flags := $(if $(tirpc),-DTOLL_HAS_TIRPC -isystem $(LIBRARIES)/libtirpc/usr/include/tirpc)
kernel.remote_library.libs  := $(if $(tirpc),$(tirpc) -Xlinker --no-warnings)
