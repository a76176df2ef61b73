# SPDX-License-Identifier: Apache-2.0
#
# lwIP for the probes alignment.receive_path_*. Without it they are built all the same, and say so in every row.

LWIP          := $(LIBRARIES)/lwip
LWIP_FOUND    := $(wildcard $(LWIP)/src/core/tcp_in.c)
# Younger than what was made before lwIP came, went or was another.
LWIP_FROM     := $(wildcard $(LWIP).from)
RECEIVE_WAYS  := overlay packed halves copy shifted
RECEIVE_OBJ    = $(OBJ)/alignment/receive_path_$1/receive_path_$1.c.o

$(foreach way,$(RECEIVE_WAYS),$(call RECEIVE_OBJ,$(way))): $(LWIP_FROM)

ifdef LWIP_FOUND
LWIP_PORT     := probes/alignment/lwip
LWIP_FILES    := core/def core/inet_chksum core/init core/ip core/mem core/memp core/netif core/pbuf core/tcp core/tcp_in \
                 core/tcp_out core/ipv4/etharp core/ipv4/ip4 core/ipv4/ip4_addr netif/ethernet
LWIP_INCLUDES := -I$(LWIP_PORT) -I$(OBJ)/lwip -isystem $(LWIP)/src/include
# Where a header is read that has just come.
LWIP_HALVES   := -include $(LWIP_PORT)/halves.h

# lwIP wants a file of the port by this name; all that ours says stands in lwipopts.h.
$(OBJ)/lwip/arch/cc.h: $(LWIP_FROM)
	@mkdir -p $(@D) && : >$@

# $(call lwip,WAY): lwIP's own code with a way's macro. It is not ours to warn of.
define lwip
$(OBJ)/lwip/$1/%.o: $(LWIP)/src/%.c $(OBJ)/lwip/arch/cc.h $(wildcard $(LWIP_PORT)/*) $(RECIPE)
	@mkdir -p $$(@D) && $(CC) $(STD_C) $(CFLAGS) -w -DRECEIVE_$(shell echo $1 | tr a-z A-Z) $$(LWIP_HALVES_$1_$$(notdir $$*)) \
	  $(LWIP_INCLUDES) $$(MAPPED) -c $$< -o $$@
$(call RECEIVE_OBJ,$1): INCLUDES += $(LWIP_INCLUDES) -DRECEIVE_HAS_LWIP
$(call RECEIVE_OBJ,$1): $(OBJ)/lwip/arch/cc.h
$(OUT)/alignment.receive_path_$1: $(LWIP_FILES:%=$(OBJ)/lwip/$1/%.o)
endef

# For `toll casts`: how the headers are laid over a frame as plain structures, with lwIP's own headers as ours.
LWIP_DATABASE := $(OBJ)/lwip/compile_commands.json
lwip_unit      = {"directory": "$(CURDIR)", "file": "$(LWIP)/src/$1.c", "command": "cc -DRECEIVE_OVERLAY \
                 $(subst -isystem ,-I,$(LWIP_INCLUDES)) -c $(LWIP)/src/$1.c"}
$(LWIP_DATABASE): $(LWIP_PORT)/lwip.mk $(OBJ)/lwip/arch/cc.h
	@{ printf '['; printf '%s' '$(call lwip_unit,$(firstword $(LWIP_FILES)))'; \
	   printf ',\n%s' $(foreach file,$(wordlist 2,99,$(LWIP_FILES)),'$(call lwip_unit,$(file))'); echo ']'; } >$@
$(call RECEIVE_OBJ,overlay): $(LWIP_DATABASE)

LWIP_HALVES_halves_ip4    = $(LWIP_HALVES)
LWIP_HALVES_halves_tcp_in = $(LWIP_HALVES)
$(foreach way,$(RECEIVE_WAYS),$(eval $(call lwip,$(way))))
endif
