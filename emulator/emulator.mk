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

.PHONY: emulator
emulator: $(EMULATOR)/count.so $(foreach one,x86_64 arm,$(and $(CC_FOR_$(one)),$(EMULATOR)/init.$(one)))

$(EMULATOR)/count.so: emulator/count.c emulator/emulator.mk
	@mkdir -p $(@D) && $(CC) $(EMULATOR_FLAGS) -fPIC -fvisibility=hidden -shared $< -o $@

# A program for ARM's oldest EABI runs on every later core, and needs no FPU.
$(EMULATOR)/init.%: emulator/init.c emulator/emulator.mk
	@mkdir -p $(@D) && $(or $(CC_FOR_$*),echo "no compiler for $*" && false) $(EMULATOR_FLAGS) -static $< -o $@
