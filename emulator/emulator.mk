# SPDX-License-Identifier: Apache-2.0
#
# What stands beside a probe in an emulator. Built when a person first asks for one:
#
#   make emulator                    all that the machine's compilers can build
#   make build/emulator/count.so     counts a program's instructions inside qemu-ARCH
#   make build/emulator/profile.so   tells which they are
#   make build/emulator/misses.so    what a modelled cache would miss of its loads
#   make build/emulator/distances.so how far apart its loads of the same line lie
#   make build/emulator/init.x86_64  process 1 of a guest, static; likewise init.arm, init.aarch64, init.mipsel
#   make build/emulator/x32-loader   runs x32 executables on a kernel without x32
#   make build/emulator/bare.arm     the supervisor of a board without an operating system; likewise bare.aarch64, bare.riscv64, bare.sparc
#   make build/emulator/sparc/gcc.specs  a C library for the programs of bare.sparc

EMULATOR       := build/emulator
EMULATOR_FLAGS := -std=gnu11 -O2 -D_GNU_SOURCE -Wall -Wextra -Werror
CC_FOR_x86_64  := $(firstword $(foreach one,x86_64-linux-gnu-gcc-12 x86_64-linux-gnu-gcc gcc,$(shell command -v $(one))))
CC_FOR_aarch64 := $(firstword $(foreach one,aarch64-linux-gnu-gcc-12 aarch64-linux-gnu-gcc,$(shell command -v $(one))))
CC_FOR_riscv64 := $(firstword $(foreach one,riscv64-linux-gnu-gcc-12 riscv64-linux-gnu-gcc,$(shell command -v $(one))))
CC_FOR_mipsel  := $(firstword $(foreach one,mipsel-linux-gnu-gcc-12 mipsel-linux-gnu-gcc,$(shell command -v $(one))))
CC_FOR_sparc   := $(firstword $(foreach one,sparc64-linux-gnu-gcc-12,$(shell command -v $(one))))
CC_FOR_arm     := $(firstword $(foreach one,arm-linux-gnueabi-gcc-12 arm-linux-gnueabi-gcc,$(shell command -v $(one))))

.PHONY: emulator abis

# Every compiler that an ABI file names, and every emulator. What cannot be had is named and the rest goes on: an ABI
# without its compiler is a gap with a sentence.
MISSING := from tollmeter.toolchain.packages import missing_anywhere as find; from tollmeter.library.places import ROOT; print(*find(ROOT))
abis:
	@./toll --set-up
	@missing=$$(.venv/bin/python -I -c '$(MISSING)') && ./toll --install $$missing
	@./toll list abis

emulator: $(EMULATOR)/count.so $(EMULATOR)/profile.so $(EMULATOR)/misses.so $(EMULATOR)/distances.so $(foreach one,x86_64 arm aarch64 mipsel,$(and $(CC_FOR_$(one)),$(EMULATOR)/init.$(one))) \
          $(foreach one,arm aarch64 riscv64,$(and $(CC_FOR_$(one)),$(EMULATOR)/bare.$(one))) \
          $(and $(CC_FOR_sparc),$(wildcard build/libraries/musl),$(EMULATOR)/bare.sparc)

# Each file appears whole: another process may start it, or make it, at the same time.
part := $$$$.part
$(EMULATOR)/%.so: emulator/%.c emulator/plugin.h emulator/gate.h emulator/emulator.mk
	@mkdir -p $(@D) && $(CC) $(EMULATOR_FLAGS) -fPIC -fvisibility=hidden -shared $(filter %.c,$^) -o $@.$(part) && mv $@.$(part) $@
$(EMULATOR)/misses.so: emulator/cache.c emulator/cache.h probes/runtime/random.c
$(EMULATOR)/distances.so: emulator/reuse.c emulator/reuse.h emulator/stack.c emulator/stack.h

# A program for ARM's oldest EABI runs on every later core, and needs no FPU.
$(EMULATOR)/init.%: emulator/init.c emulator/emulator.mk
	@mkdir -p $(@D) && $(or $(CC_FOR_$*),echo "no compiler for $*" && false) $(EMULATOR_FLAGS) -static $< -o $@.$(part) && mv $@.$(part) $@

# Its code runs in the middle of a program's: it has no C library, which would use the program's thread-local storage, and
# no vector registers. It lies above 4 GiB, and the image of a vDSO for x32 in its data.
X32         := emulator/x32_loader
X32_SOURCES := $(wildcard $(X32)/*.c $(X32)/start.S)
X32_FLAGS   := $(EMULATOR_FLAGS) -ffreestanding -fbuiltin -fPIE -fno-stack-protector -fcf-protection=none -mno-red-zone \
               -mgeneral-regs-only -fno-tree-loop-distribute-patterns
X32_LINK    := -nostdlib -static -no-pie -Wl,-Ttext-segment=0x200000000000 -Wl,--build-id=none -Wl,-z,noexecstack
$(EMULATOR)/x32-vdso: $(X32)/vdso.S $(X32)/vdso.ld emulator/emulator.mk
	@mkdir -p $(@D) && $(CC_FOR_x86_64) -mx32 -fcf-protection=none -shared -nostdlib -Wl,-T,$(X32)/vdso.ld \
	  -Wl,-soname=linux-vdso.so.1 -Wl,--hash-style=both -Wl,--build-id=none -Wl,-e,native_functions $< -o $@.$(part) && mv $@.$(part) $@
$(EMULATOR)/x32-loader: $(EMULATOR)/x32-vdso $(X32_SOURCES) $(X32)/loader.h emulator/emulator.mk
	@$(CC_FOR_x86_64) $(X32_FLAGS) $(X32_LINK) '-DVDSO="$<"' $(X32_SOURCES) -o $@.$(part) && mv $@.$(part) $@

# Without the FPU's instructions: its registers are the program's, and on 32-bit ARM the emulator of FPA computes by the
# soft-float library. A loop that fills memory must not become a call of the memset that it is.
BARE         := probes/runtime/bare
BARE_FLAGS   := $(EMULATOR_FLAGS) -ffreestanding -fbuiltin -fno-pie -fno-stack-protector -fno-tree-loop-distribute-patterns \
                -nostdlib -static -no-pie -Wl,--build-id=none
BARE_arm     := -march=armv7-a -marm -mfloat-abi=soft
BARE_aarch64 := -march=armv8-a -mgeneral-regs-only -mno-outline-atomics
BARE_riscv64 := -march=rv64imac_zicsr_zifencei -mabi=lp64 -mcmodel=medany -mno-relax
BARE_sparc   := -m32 -mcpu=leon3 -mno-fpu
BARE_LIBRARY_arm     := -lgcc
BARE_DEVICES_arm     := pl011 gic
BARE_DEVICES_aarch64 := pl011 gic
BARE_DEVICES_riscv64 := ns16550
BARE_DEVICES_sparc   := apbuart
BARE_FORMAT_sparc    := elf32-sparc
BARE_SHARED  := $(addprefix $(BARE)/,board.c calls.c files.c load.c main.c memory.c signals.c text.c timer.c boot.c)
BARE_HEADERS_sparc   := -isystem $(EMULATOR)/sparc/include
BARE_FOLDER_aarch64  := $(BARE)/bits64
BARE_FOLDER_riscv64  := $(BARE)/bits64
# GNU ld warns of the one segment from 2.39 on, and refuses the option before.
comma        := ,
BARE_QUIET    = $(if $(findstring no-warn-rwx-segments,$(shell $1 -Wl,--help 2>/dev/null)),-Wl$(comma)--no-warn-rwx-segments)
bare_sources  = $(BARE_SHARED) $(BARE_DEVICES_$1:%=$(BARE)/%.c) $(wildcard $(BARE_FOLDER_$1:%=%/*.c) $(BARE)/$1/*.[cS] $(BARE)/$1/*/*.[cS])
$(EMULATOR)/bare.%: $(wildcard $(BARE)/*.* $(BARE)/*/*.* $(BARE)/*/*/*.*) probes/runtime/fpa.h probes/runtime/custom_vectors.h emulator/emulator.mk
	@mkdir -p $(@D) && $(or $(CC_FOR_$*),echo "no compiler for $*" && false) $(BARE_FLAGS) $(BARE_$*) -I $(BARE) -I $(BARE)/$* $(BARE_FOLDER_$*:%=-I %) $(BARE_HEADERS_$*) \
	  $(call BARE_QUIET,$(CC_FOR_$*)) -T $(or $(BARE_FOLDER_$*),$(BARE)/$*)/bare.ld $(call bare_sources,$*) $(BARE_LIBRARY_$*) -o $@.$(part) && \
	  $(firstword $(subst gcc,objcopy ,$(CC_FOR_$*))) -S -O $(or $(BARE_FORMAT_$*),binary) $@.$(part) $@.$(part).image && rm $@.$(part) && mv $@.$(part).image $@

# musl, and Linux's general headers, for SPARC V8: Debian has no C library for it.
MUSL := emulator/musl_sparc
$(EMULATOR)/bare.sparc: $(EMULATOR)/sparc/gcc.specs
$(EMULATOR)/sparc/gcc.specs: $(MUSL)/build $(wildcard $(MUSL)/*.c $(MUSL)/*/*/*.[hs] $(MUSL)/*/*/*/*.[hs]) $(BARE)/sparc/wide.c
	@$(MUSL)/build build/libraries/musl $(EMULATOR)/sparc
