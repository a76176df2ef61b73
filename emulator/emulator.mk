# SPDX-License-Identifier: Apache-2.0
#
# What stands beside a probe in an emulator. Built when a person first asks for one: `make emulator`.
#
#   build/emulator/count.so     counts a program's instructions inside qemu-ARCH

EMULATOR       := build/emulator
EMULATOR_FLAGS := -std=gnu11 -O2 -D_GNU_SOURCE -Wall -Wextra -Werror

.PHONY: emulator
emulator: $(EMULATOR)/count.so

$(EMULATOR)/count.so: emulator/count.c emulator/emulator.mk
	@mkdir -p $(@D) && $(CC) $(EMULATOR_FLAGS) -fPIC -fvisibility=hidden -shared $< -o $@
