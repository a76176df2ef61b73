# SPDX-License-Identifier: Apache-2.0
#
# The only build entry, for the probes and for Python.
#
#   make probes   every probe for every ABI that can be built here, into build/ABI/FAMILY.NAME
#   make test     sets up what the tests need, then lint and all tests
#   make test-roots  stock Debian 12 and 13, made anew as root: README.md's commands in them, by three kinds of user
#   make fleet-test  a Slurm of a controller and three nodes in network namespaces, as root: toll fleet with it
#   make lint     formats and warnings of C, Python and sh
#   make format   rewrites C and Python as lint wants them
#   make readme-lines  types every command of README.md in a fresh clone: how long each takes, and what it answers
#   make faults   kill it, feed it what is damaged, deny it system calls: COUNT=10 for a short one
#   make models   how often levels are found as they are on modelled machines: SEEDS=1000-1019 for a short one
#   make run      measure this machine
#   make bench    what Tollmeter itself costs, and docs/benchmarks.md: beside other programs, also those of PEERS=DIR
#   make release  archive and wheels with prebuilt probes, into build/release: RELEASE_ABIS="x86_64 aarch64"
#   make debian-source  the Debian source package of the last commit, into build/debian
#   make lock     renew the lock files from pyproject.toml and requirements/*.in
#   make index    renew probes/index.jsonl from the built probes: after a change of what a probe says of itself
#   make schema   renew docs/show.schema.json from the records
#   make snapshots  approve what users see of example runs today: a review reads the diff of tests/snapshots
#   make abis     the compilers and emulators of every ABI, by apt; one that is asked for by name brings its own
#   make emulator what stands beside a probe in an emulator
#   make clean    forget all that was built; what was measured stays

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:

ifdef ABI
include probes/probes.mk
else
.DEFAULT_GOAL := probes
# A wheel brings no tests.
include $(wildcard tests/tests.mk)
include emulator/emulator.mk

# What `make release` builds probes for; an ABI without its compiler is left out and named.
RELEASE_ABIS ?= x86_64 ia32 aarch64

.PHONY: probes run release debian-source clean
probes:
	@./toll --set-up
run:
	@./toll run
release:
	@./toll --set-up-tests
	@.venv/bin/python packaging/release.py build/release $(RELEASE_ABIS)
debian-source:
	@./toll --set-up-tests
	@.venv/bin/python packaging/debian.py build/debian
clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
endif
