# SPDX-License-Identifier: Apache-2.0
#
# HepMC3 for datamodel.event_record, from where src/tollmeter/toolchain/sources.py found or put its source. Its few files are
# compiled as one with the probe. Without it the probe is built all the same, and says so.

HEPMC3_SOURCE := $(shell cat build/sources/hepmc3.path 2>/dev/null)
HEPMC3_USER    = $(OBJ)/datamodel/event_record/event_record.cc.o

# Rewritten only when HepMC3 came, went or is another.
HEPMC3_FROM   := $(OBJ)/hepmc3.from
$(shell echo '$(HEPMC3_SOURCE)' | cmp -s - $(HEPMC3_FROM) || echo '$(HEPMC3_SOURCE)' > $(HEPMC3_FROM))
$(HEPMC3_USER): $(HEPMC3_FROM)
ifneq ($(HEPMC3_SOURCE),)
$(HEPMC3_USER): INCLUDES += -isystem $(HEPMC3_SOURCE)/include -isystem $(HEPMC3_SOURCE)/src
endif
