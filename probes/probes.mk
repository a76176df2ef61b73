# SPDX-License-Identifier: Apache-2.0
#
# All probes for one ABI. src/tollmeter/toolchain reads abis/NAME.toml and calls make once for each ABI, with
#
#   ABI        its name, and that of its folder in build/
#   CC         the compiler found for it, ABI_FLAGS its flags
#   ARCH       which NAME.ARCH.S belong to it: x86_64 i386 aarch64 ...
#
# probes/FAMILY/NAME.c (or .cc) becomes build/ABI/FAMILY.NAME, with FAMILY/NAME.ARCH.S linked in where there is one.
# Why each flag is there is in docs/decisions/0001-how-probes-are-built.md.

OUT     := build/$(ABI)
OBJ     := $(OUT)/obj
RUNTIME := probes/runtime

# Where there is an FPU, libgcc leaves out the soft-float routines; compiler-rt's builtins have them. Not for x32, which
# no distribution builds them for.
SOFT_FLOAT := $(if $(filter -mx32,$(ABI_FLAGS)),,$(firstword \
              $(wildcard /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.builtins-$(ARCH).a)))

# On ARM libgcc has them whatever the float ABI. But Debian's for the hard ABI are Thumb-2 code and the others' ARM code, so
# that a ratio of ABIs would be one of encodings: all take the soft ABI's, where it is installed. Of that library only what
# adds and multiplies: it is assembly, and bound to no float ABI, as what is compiled is.
LIBGCC_OF_SOFT := $(and $(filter arm,$(ARCH)),$(filter -mfloat-abi=hard,$(ABI_FLAGS)),$(lastword $(sort \
                  $(wildcard /usr/lib/gcc-cross/arm-linux-gnueabi/*/libgcc.a))))
SOFT_MEMBERS   := _arm_addsubdf3.o _arm_muldivdf3.o _arm_addsubsf3.o _arm_muldivsf3.o
SOFT_OF_ARM    := $(if $(LIBGCC_OF_SOFT),$(OUT)/libsoft.a)

# Clang, which zig is too, has another name for what keeps a loop from becoming a call of memcpy.
IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
PLAIN_LOOPS := $(if $(IS_CLANG),-mllvm -disable-loop-idiom-all,-fno-tree-loop-distribute-patterns)
# What Clang warns of and gcc does not, though both have the option not to: fields left out by name, options for the linker.
CLANG_CALM  := $(if $(IS_CLANG),-Wno-unknown-warning-option -Wno-missing-designated-field-initializers \
               -Wno-unused-command-line-argument)
CFLAGS   := -O2 -g1 -D_GNU_SOURCE -Wall -Wextra -Werror $(CLANG_CALM) $(PLAIN_LOOPS) -falign-functions=64 \
            -falign-loops=32 -fno-stack-protector -U_FORTIFY_SOURCE -fno-pie $(ABI_FLAGS) $(if $(SOFT_FLOAT),-DTOLL_SOFT_FLOAT)
STD_C    := -std=gnu11
STD_CXX  := -std=c++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -nostdinc++ -Wno-missing-field-initializers
LINK     := -static -no-pie
LIBS     := $(SOFT_FLOAT) -pthread -lm
INCLUDES  = -I$(RUNTIME) -I$(<D)
# No executable names the folder of the checkout, so that two builds of the same sources are the same file.
MAPPED    = "-ffile-prefix-map=$$PWD=."
# $(call identity,FAMILY.NAME): what the `build` record says. Only a probe's own objects carry it.
identity  = '-DTOLL_ABI="$(ABI)"' '-DTOLL_PROBE="$1"' '-DTOLL_FLAGS="$(CFLAGS)"'

SOURCES  := $(filter-out $(RUNTIME)/%,$(wildcard probes/*/*.c probes/*/*.cc))

# FAMILY/NAME=LIBRARY+LIBRARY for each probe that says so; what the host tool has brought of them (libraries.toml) is in
# build/libraries. Whether it is there the probe asks itself; NAME.from is written when one came or went, so that the probe
# is then made anew. In C++ it is compiled with the whole of that, if this ABI has its library.
LIBRARIES  := build/libraries
USERS      := $(shell sed -n 's|^ *\.library = "\(.*\)",$$|\1|;T;F;p' $(SOURCES) | sed 's|^probes/||' | \
                paste -d= - - | sed 's|\.cc*=|=|; s| |+|g')
library     = $(subst +, ,$(patsubst $1=%,%,$(filter $1=%,$(USERS))))
MULTILIB   := $(if $(filter -m32,$(ABI_FLAGS)),32,$(if $(filter -mx32,$(ABI_FLAGS)),x32))
# Of libraries' inline code gcc warns as of ours: for mipsel that LEMON's might use what it has not set.
STD_LIBRARY = -std=c++20 -fno-threadsafe-statics -Wno-missing-field-initializers -Wno-maybe-uninitialized \
                $(addprefix -isystem ,$(wildcard \
                $(if $(MULTILIB),$(LIBRARIES)/libstdcxx*/usr/include/*/c++/*/$(MULTILIB))))
headers     = $(addprefix -isystem ,$(wildcard $(foreach place,usr/include usr/include/eigen3 include src, \
                $(patsubst %,$(LIBRARIES)/%/$(place),$(call library,$1)))))
# zig's C++ library comes with `zig c++` alone, and is compiled when a program first links it.
CXX        := $(subst ziglang cc,ziglang c++,$(CC))
HAS_CXX    := $(if $(filter ziglang,$(CC)),yes,$(shell $(CC) $(ABI_FLAGS) $(STD_LIBRARY) -include bits/c++config.h \
                -x c++ -E /dev/null >/dev/null 2>&1 && echo yes))
CXX_LIBRARY = $(addprefix -L,$(if $(MULTILIB),$(wildcard $(LIBRARIES)/libstdcxx*/usr/lib/gcc/*/*/$(MULTILIB)))) -lstdc++
is_whole    = $(and $(HAS_CXX),$(wildcard probes/$1.cc),$(call library,$1))
origins     = $(if $(call library,$1),$(wildcard $(patsubst %,$(LIBRARIES)/%.from,$(call library,$1) libstdcxx*)))

SHARED   := $(wildcard $(RUNTIME)/*.c $(RUNTIME)/*.$(ARCH).S)
ARCHIVE  := $(OUT)/libtoll.a

# A probe that is linked with more has NAME.mk beside it, which sets FAMILY.NAME.flags and FAMILY.NAME.libs.
# $(call archive,LIBRARY,NAME): where its NAME.a for this ABI lies; empty where there is none, or it was made for another C
# library.
GLIBC   := $(findstring __GLIBC__,$(shell printf '\043include <features.h>\n' | $(CC) $(ABI_FLAGS) -E -dM - 2>/dev/null))
TRIPLE  := $(shell $(CC) $(ABI_FLAGS) -print-multiarch 2>/dev/null)
archive  = $(if $(GLIBC),$(wildcard $(LIBRARIES)/$1/usr/lib/$(TRIPLE)/$2.a))
include $(wildcard probes/*/*.mk)

# Rewritten only when the compiler or a flag changed: every object is younger than its own command.
COMMAND  := $(OBJ)/command
$(shell mkdir -p $(OBJ) && printf '%s\n' "$$($(CC) --version | head -n 1)" '$(CC) $(CFLAGS) $(LINK)' | \
        cmp -s - $(COMMAND) || printf '%s\n' "$$($(CC) --version | head -n 1)" '$(CC) $(CFLAGS) $(LINK)' > $(COMMAND))
RECIPE   := Makefile probes/probes.mk $(COMMAND)

$(ARCHIVE): $(SHARED:$(RUNTIME)/%=$(OBJ)/runtime/%.o)
	@rm -f $@ && $(AR) rcsD $@ $^ && echo $@

$(OUT)/libsoft.a: $(LIBGCC_OF_SOFT)
	@rm -f $@ && mkdir -p $(OBJ)/soft && $(AR) x --output $(OBJ)/soft $< $(SOFT_MEMBERS) && \
	  $(AR) rcsD $@ $(SOFT_MEMBERS:%=$(OBJ)/soft/%) && echo $@

$(OBJ)/runtime/%.c.o: $(RUNTIME)/%.c $(RECIPE)
	@mkdir -p $(@D) && $(CC) $(STD_C) $(CFLAGS) $(INCLUDES) $(MAPPED) -MMD -MP -c $< -o $@ && echo $@
$(OBJ)/runtime/%.S.o: $(RUNTIME)/%.S $(RECIPE)
	@mkdir -p $(@D) && $(CC) $(CFLAGS) $(INCLUDES) $(MAPPED) -MMD -MP -c $< -o $@ && echo $@

# $(call probe,FAMILY/NAME,FAMILY.NAME)
define probe
$(OBJ)/$1/%.c.o: probes/$(dir $1)%.c $(RECIPE) $(wildcard probes/$1.mk) $(call origins,$1)
	@mkdir -p $$(@D) && $(CC) $(STD_C) $(CFLAGS) $(call identity,$2) $($2.flags) $$(INCLUDES) $$(MAPPED) -MMD -MP -c $$< -o $$@ && echo $$@
$(OBJ)/$1/%.cc.o: probes/$(dir $1)%.cc $(RECIPE) $(call origins,$1)
	@mkdir -p $$(@D) && $(if $(call is_whole,$1),$(CXX) $(STD_LIBRARY) $(call headers,$1),$(CC) $(STD_CXX)) $(CFLAGS) $(call identity,$2) $$(INCLUDES) $$(MAPPED) -MMD -MP -c $$< -o $$@ && echo $$@
$(OBJ)/$1/%.S.o: probes/$(dir $1)%.S $(RECIPE)
	@mkdir -p $$(@D) && $(CC) $(CFLAGS) $$(INCLUDES) $$(MAPPED) -MMD -MP -c $$< -o $$@ && echo $$@
$(OUT)/$2: $(patsubst probes/$(dir $1)%,$(OBJ)/$1/%.o,$(wildcard probes/$1.c probes/$1.cc probes/$1.$(ARCH).S)) \
           $(ARCHIVE) $(SOFT_OF_ARM)
	@$(if $(call is_whole,$1),$(CXX),$(CC)) $(CFLAGS) $(LINK) $$^ $($2.libs) $(if $(call is_whole,$1),$(CXX_LIBRARY)) $(LIBS) -o $$@ && echo $$@
endef
$(foreach source,$(SOURCES),$(eval $(call probe,$(patsubst probes/%,%,$(basename $(source))),$(subst \
  /,.,$(patsubst probes/%,%,$(basename $(source)))))))

# What a probe is linked with that is not ours.
-include $(wildcard probes/*/*/*.mk)

-include $(wildcard $(OBJ)/runtime/*.d $(OBJ)/*/*/*.d)
