# SPDX-License-Identifier: Apache-2.0
#
# What stands beside a probe in an emulator. Built when a person first asks for one:
#
#   make emulator                    all that the machine's compilers can build
#   make build/emulator/count.so     counts a program's instructions inside qemu-ARCH
#   make build/emulator/init.x86_64  process 1 of a guest, static; likewise init.arm

EMULATOR       := build/emulator
EMULATOR_FLAGS := -std=gnu11 -O2 -D_GNU_SOURCE -Wall -Wextra -Werror
CC_FOR_x86_64  := $(firstword $(foreach one,x86_64-linux-gnu-gcc-12 x86_64-linux-gnu-gcc gcc,$(shell command -v $(one))))
CC_FOR_arm     := $(firstword $(foreach one,arm-linux-gnueabi-gcc-12 arm-linux-gnueabi-gcc,$(shell command -v $(one))))

.PHONY: emulator abis

# Every compiler that an ABI file names, and every emulator. Where something cannot be had, that is said and the rest
# goes on: an ABI without its compiler is a gap with a sentence.
EMULATORS := qemu-user qemu-system-x86 qemu-system-arm openssh-client
abis:
	@for package in $$(sed -n 's/^packages = \[\(.*\)\]/\1/p' abis/*.toml | tr -d '",' | tr ' ' '\n' | sort -u) $(EMULATORS); do \
	  dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed && continue; \
	  apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends $$package || echo "left out $$package"; done
	@./toll list abis

emulator: $(EMULATOR)/count.so $(foreach one,x86_64 arm,$(and $(CC_FOR_$(one)),$(EMULATOR)/init.$(one)))

$(EMULATOR)/count.so: emulator/count.c emulator/emulator.mk
	@mkdir -p $(@D) && $(CC) $(EMULATOR_FLAGS) -fPIC -fvisibility=hidden -shared $< -o $@

# A program for ARM's oldest EABI runs on every later core, and needs no FPU.
$(EMULATOR)/init.%: emulator/init.c emulator/emulator.mk
	@mkdir -p $(@D) && $(or $(CC_FOR_$*),echo "no compiler for $*" && false) $(EMULATOR_FLAGS) -static $< -o $@
