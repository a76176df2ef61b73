# SPDX-License-Identifier: Apache-2.0
#
# The tests and checks: `make test` and `make lint` are made of what stands here.
#
# The runtime's unit tests are tests/runtime/test_*.c, each a main that ends with a status other than 0 where it fails.
# Each is built plain, plain for 32 bit where the compiler can, and under the address and undefined-behaviour
# sanitizers. tests/runtime/fuzz_*.c are libFuzzer targets, run for FUZZ_SECONDS each; an input that breaks one is left
# in build/tests/fuzz, and belongs into a unit test. The host's readers are given changed inputs for READ_SECONDS in all.

PYTHON       := .venv/bin/python
FUZZ_SECONDS ?= 10
READ_SECONDS ?= 2
TEST_SECONDS := 120
FAILED       := build/tests/cache

# The version that Debian 12 has, since each formats a little differently from the last.
found        = $(firstword $(foreach one,$1,$(shell command -v $(one))) $(lastword $1))
CLANG_FORMAT = $(call found,clang-format-14 clang-format)
CLANG        = $(call found,clang-14 clang)
TEST_CC      = $(call found,gcc-12 gcc cc)

# What lint checks and format rewrites.
C_FILES      = $(wildcard abis/*.c emulator/*.[ch] probes/*/*.[ch] probes/*/*/*.[ch] probes/*/*/*/*.[ch] probes/*/*.cc \
               tests/*/*.[ch])
PYTHON_FILES = src tests $(wildcard bench packaging)

# Prints the elapsed seconds until the recipe's shell ends: some parts take longer than a watched log may stay silent.
TICK = (at=0; while sleep 10 >/dev/null && kill -0 $$$$; do at=$$((at + 10)); echo "$$at s"; done) 2>/dev/null & \
  trap "kill $$!" EXIT;

# Kept, as elsewhere, where the environment tells Python to keep nothing that it compiled: each of the processes that share
# the tests would compile all 200 of their files, and pytest, for itself.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: test all-tests lint format set-up-tests lint-c lint-python lint-sh collect test-runtime fuzz test-python faults models bench \
        lock schema index

# Prints the machine and its load before and after, whether or not a test failed.
test: set-up-tests
	-@$(PYTHON) tests/support/print_machine.py before
	@trap '$(PYTHON) tests/support/print_machine.py after' EXIT; $(MAKE) --no-print-directory all-tests

all-tests:
	@$(TICK) $(MAKE) --no-print-directory -j$$(($$(nproc) + 1)) lint-python fuzz test-runtime collect lint-c lint-sh && \
	  $(MAKE) --no-print-directory test-python

lint: set-up-tests
	@$(MAKE) --no-print-directory lint-c lint-python lint-sh

# Compiles every probe with -Wall -Wextra -Werror for every ABI besides.
set-up-tests:
	@./toll --set-up-tests

lint-c:
	@echo 'lint: clang-format'
	@$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)
lint-python:
	@echo 'lint: ruff, mypy'
	@$(PYTHON) -m ruff check -q $(PYTHON_FILES)
	@$(PYTHON) -m ruff format -q --check $(PYTHON_FILES)
	@$(PYTHON) -m mypy --no-error-summary
lint-sh:
	@echo 'lint: shellcheck'
	@shellcheck toll .ci/run

# Compiles all tests once, where each of the processes that share them would compile them for itself.
collect:
	@mkdir -p build/tests; $(PYTHON) -m pytest -q --collect-only >build/tests/collected || { cat build/tests/collected; exit 1; }

# Sorts imports too; what ruff cannot mend safely is left to lint. It needs the formatters, and no more.
format:
	@command -v $(CLANG_FORMAT) >/dev/null && $(PYTHON) -m ruff --version >/dev/null 2>&1 || ./toll --set-up-tests
	@$(CLANG_FORMAT) -i $(C_FILES)
	@$(PYTHON) -m ruff check -q --fix --exit-zero $(PYTHON_FILES)
	@$(PYTHON) -m ruff format -q $(PYTHON_FILES)

# What measures has the machine to itself, and only its files are collected for it. All else shares it: many tests wait for
# other processes and emulators, so there are two workers for each CPU. A file is one worker's: a browser, a guest, a modelled machine is started once for all of it.
# Those that take longest come first in the alphabet (browser, faults, model), and the many short ones fill the end.
# What fails, up to eight tests, is tried once more, alone.
test-python:
	@rm -rf $(FAILED)
	@$(PYTHON) -m pytest -m machine $$(grep -rl --include='test_*.py' mark.machine tests); machine=$$?; \
	  $(PYTHON) -m pytest -m 'not machine and not fleet' -n $$(($$(nproc) * 2)) --dist loadfile --no-loadscope-reorder; \
	  rest=$$?; \
	  case $$machine$$rest in 00) ;; 01 | 10 | 11) $(PYTHON) tests/support/failed_again.py $(FAILED) ;; *) exit 1 ;; esac

# 200 is 350 kills and signals, and all else in proportion: half an hour. SEED has the same ones again.
COUNT ?= 200
SEED  ?= 4711
faults:
	@TOLL_INSTALL=no PYTHONPATH=tests:src $(PYTHON) -m storm --count $(COUNT) --seed $(SEED)

# How often levels are found on modelled machines of both generators, about an hour: SEEDS=1000-1019 for a short one.
SEEDS ?= 1000-1099
models:
	@for one in first second; do PYTHONPATH=tests:src $(PYTHON) -m model.judge $$one --seeds $(SEEDS) || exit; done

# Simulates all that tests of the inferences ask of modelled machines, five minutes: after a change of the model.
.PHONY: model-recording snapshots
model-recording:
	@MODEL_RECORD=yes $(PYTHON) -m pytest -q tests/model

# Approves what users see of example runs today: read its diff.
snapshots:
	@rm -f tests/snapshots/*.txt
	@TOLL_SNAPSHOTS=renew $(PYTHON) -m pytest -q $$(grep -rl --include='test_*.py' support.snapshots tests)
	@git diff --stat tests/snapshots

# ---- stock systems ------------------------------------------------------------------------------------------------
# Names in SYSTEMS choose among them: debian-12 debian-13. What they download is kept in ~/.cache/tollmeter/roots, or below
# $XDG_CACHE_HOME. What each command said stays in build/roots/logs.

SYSTEMS ?=
.PHONY: test-roots readme-lines
test-roots: set-up-tests
	@PYTHONPATH=tests:src $(PYTHON) -m roots $(SYSTEMS)

# Half an hour: every command of README.md in its default budget, in a fresh clone.
readme-lines:
	@rm -rf build/readme && git clone -q . build/readme
	@python3 tests/support/readme_commands.py build/readme; status=$$?; rm -rf build/readme; exit $$status

# Starts a Slurm of its own, as root, in two to three minutes: docs/decisions/0040-fleets.md.
FLEET_PACKAGES := slurm-wlm munge iproute2
.PHONY: fleet-test
fleet-test: set-up-tests
	@for one in slurmctld munged ip; do command -v $$one >/dev/null || \
	  { apt-get update -q && exec apt-get install -y --no-install-recommends $(FLEET_PACKAGES); }; done
	@$(TICK) $(PYTHON) -m pytest -m fleet tests/fleet

bench:
	@./toll --set-up
	@for one in bench/*.py; do $(PYTHON) "$$one" || exit; done

# A test holds it to the built probes.
index:
	@$(PYTHON) -m tollmeter.library.probe_index >build/index.jsonl && mv build/index.jsonl probes/index.jsonl

# A test holds it to the records of src/tollmeter/model/.
schema:
	@$(PYTHON) -m tollmeter.store.document >docs/show.schema.json

# Each file takes the versions of those before it, where it names them with -c.
LOCKED := pyproject.toml $(foreach one,charts parquet serial zig dev,requirements/$(one).in)
lock:
	python3 -m venv build/pip-tools
	build/pip-tools/bin/pip install -q pip-tools
	for one in $(LOCKED); do build/pip-tools/bin/pip-compile -q --generate-hashes --strip-extras --allow-unsafe --no-header \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  -o $$(echo $$one | sed 's/pyproject/requirements\/run/; s/\.[a-z]*$$/.lock/') $$one || exit; done

# ---- the runtime's unit tests -----------------------------------------------------------------------------------

TEST_FLAGS  := -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Wno-psabi \
               -Iprobes/runtime -Itests/runtime -MMD -MP
TEST_LIBS   := -pthread -lm
# Without its entry, since each test brings its own.
TEST_RUNTIME := $(filter-out probes/runtime/start.c,$(wildcard probes/runtime/*.c))
UNIT_TESTS  := $(patsubst tests/runtime/%.c,%,$(wildcard tests/runtime/test_*.c))
FUZZ_TESTS  := $(patsubst tests/runtime/%.c,%,$(wildcard tests/runtime/fuzz_*.c))
CAN_32      = $(shell echo 'int main(void){}' | $(TEST_CC) $(FLAGS_32) -x c - -pthread -o /dev/null 2>/dev/null && \
              echo plain-32)
FLAGS_32    := -m32 -msse2 -mfpmath=sse -idirafter /usr/include/x86_64-linux-gnu
SANITIZE    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# $(call variant,NAME,COMPILER,FLAGS FOR ALL,FLAGS FOR TESTS,TESTS): build/tests/NAME/TEST from its file and the runtime
define variant
build/tests/$1/%.o: probes/runtime/%.c Makefile tests/tests.mk
	@mkdir -p $$(@D) && $2 $(TEST_FLAGS) $3 -c $$< -o $$@
build/tests/$1/libtoll.a: $(TEST_RUNTIME:probes/runtime/%.c=build/tests/$1/%.o)
	@rm -f $$@ && $(AR) rcs $$@ $$^
$(5:%=build/tests/$1/%): build/tests/$1/%: tests/runtime/%.c build/tests/$1/libtoll.a Makefile tests/tests.mk
	@$2 $(TEST_FLAGS) $3 $4 $$< build/tests/$1/libtoll.a $(TEST_LIBS) -o $$@
-include $(wildcard build/tests/$1/*.d)
endef
$(eval $(call variant,plain,$(TEST_CC),,,$(UNIT_TESTS)))
$(eval $(call variant,plain-32,$(TEST_CC),$(FLAGS_32),,$(UNIT_TESTS)))
$(eval $(call variant,sanitized,$(TEST_CC),$(SANITIZE),,$(UNIT_TESTS)))
$(eval $(call variant,fuzz,$(CLANG),$(SANITIZE) -fsanitize=fuzzer-no-link,-fsanitize=fuzzer,$(FUZZ_TESTS)))

# $(call run,PROGRAM,WORDS): what it says is shown only where it fails.
run = timeout $(TEST_SECONDS) $1 $2 >$1.log 2>&1 || { cat $1.log; echo "$1 failed"; exit 1; }

# None of its own inside a make that has some to give.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

VARIANTS := plain sanitized
test-runtime: VARIANTS += $(CAN_32)
test-runtime:
	@$(MAKE) -s --no-print-directory $(JOBS) $(foreach one,$(VARIANTS),$(UNIT_TESTS:%=build/tests/$(one)/%))
	@$(foreach one,$(VARIANTS),echo 'unit tests of the runtime: $(one)'; \
	  $(foreach test,$(UNIT_TESTS),$(call run,build/tests/$(one)/$(test));))
	@echo "$(words $(UNIT_TESTS)) unit tests of the runtime passed, each $(VARIANTS)"

fuzz: $(FUZZ_TESTS:%=build/tests/fuzz/%)
	@$(foreach one,$(FUZZ_TESTS),echo '$(one): $(FUZZ_SECONDS) s'; mkdir -p build/tests/fuzz/$(one).found; $(call run,build/tests/fuzz/$(one),\
	  -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/tests/fuzz/$(one). build/tests/fuzz/$(one).found);)
	@echo "$(words $(FUZZ_TESTS)) fuzz targets stood $(FUZZ_SECONDS) s each"
	@PYTHONPATH=tests:src $(PYTHON) -m storm.readers $(READ_SECONDS)
