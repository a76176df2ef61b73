# SPDX-License-Identifier: Apache-2.0
"""Names the microarchitecture of an x86 CPU by its family and model: two machines called "AMD EPYC" may have different
ones.

Sources: Linux, arch/x86/kernel/cpu/amd.c (ranges of models of each Zen generation) and arch/x86/include/asm/
intel-family.h (its code names; names of platforms for CPUs with two kinds of cores). Intel, "Architecture Instruction
Set Extensions Programming Reference", table of the processors that first have an extension (AMX)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tollmeter.model import Machine

_RANGES = {
    23: ((0x00, 0x2F, "Zen"), (0x30, 0x4F, "Zen 2"), (0x50, 0x5F, "Zen"), (0x60, 0x7F, "Zen 2"), (0x90, 0x91, "Zen 2"),
         (0xA0, 0xAF, "Zen 2")),
    25: ((0x00, 0x0F, "Zen 3"), (0x10, 0x1F, "Zen 4"), (0x20, 0x5F, "Zen 3"), (0x60, 0xAF, "Zen 4")),
    26: ((0x00, 0x2F, "Zen 5"), (0x40, 0x4F, "Zen 5"), (0x60, 0x7F, "Zen 5")),
}  # fmt: skip
_MODELS = {
    "Nehalem": (0x1A, 0x1E, 0x1F, 0x2E), "Westmere": (0x25, 0x2C, 0x2F), "Sandy Bridge": (0x2A, 0x2D),
    "Ivy Bridge": (0x3A, 0x3E), "Haswell": (0x3C, 0x3F, 0x45, 0x46), "Broadwell": (0x3D, 0x47, 0x4F, 0x56),
    "Skylake": (0x4E, 0x55, 0x5E), "Kaby Lake": (0x8E, 0x9E), "Cannon Lake": (0x66,),
    "Ice Lake": (0x6A, 0x6C, 0x7D, 0x7E), "Rocket Lake": (0xA7,), "Tiger Lake": (0x8C, 0x8D),
    "Sapphire Rapids": (0x8F,), "Emerald Rapids": (0xCF,), "Granite Rapids": (0xAD, 0xAE), "Lakefield": (0x8A,),
    "Alder Lake": (0x97, 0x9A), "Raptor Lake": (0xB7, 0xBA, 0xBF), "Meteor Lake": (0xAA, 0xAC),
    "Arrow Lake": (0xB5, 0xC5, 0xC6), "Goldmont": (0x5C, 0x5F), "Tremont": (0x86, 0x96),
}  # fmt: skip
"""Models of Intel's family 6, by the name of the core."""
_L2_BYTES = {"Rocket Lake": 512 << 10}
"""L2 sizes of cores whose model number hypervisors also report for other CPUs: a guest with AMX and an L2 of 2 MiB is
no Rocket Lake (Intel's optimisation manual). Hypervisors also report other caches, so that no other name depends on the
L2."""
_PUBLISHED_CYCLES = {"Zen 3": {"L1d": 4, "L2": 12, "L3": 46}, "Zen 4": {"L2": 14, "L3": 50}}
"""Published latencies in cycles of a load from each cache. Sources: Chips and Cheese, "Going Armchair Quarterback on
Golden Cove's Caches", 2022 (the first cache of Zen 3); the table of Zen 3's and Zen 4's caches by Chiakokhua, 2022 (the
others)."""

_GOLDEN_COVE = {"L2 BTB": "12k", "op cache": "4k", "L1I": "32 KiB", "L1 ITLB": "256", "L2 ITLB": "2,048",
                "reorder buffer": "512", "integer scheduler": "97", "load queue": "192",
                "store queue": "112"}  # fmt: skip
"""Published sizes of structures in Golden Cove. Redwood Cove has the same sizes except for L1I, so Raptor Cove (Emerald
Rapids), a core between these two, is taken to have them too."""
_AMX, _AMX_OF_HALVES = "Sapphire or Emerald Rapids", "Granite Rapids"
_PUBLISHED_SIZES = {
    "Sapphire Rapids": _GOLDEN_COVE, "Emerald Rapids": _GOLDEN_COVE, _AMX: _GOLDEN_COVE,
    _AMX_OF_HALVES: _GOLDEN_COVE | {"L1I": "64 KiB"},
    "Zen 3": {"L1 BTB": "1,024", "L2 BTB": "6.5k", "op cache": "4k", "L1I": "32 KiB", "reorder buffer": "256",
              "store queue": "64"},
    "Zen 4": {"L1 BTB": "2 x 1.5k", "L2 BTB": "2 x 7k", "op cache": "6.75k", "L1I": "32 KiB",
              "reorder buffer": "320", "load queue": "136"},
}  # fmt: skip
"""Published sizes of structures of a core whose sibling hyperthread is idle. The sources are in
docs/instruction-side.md."""


def published_size(machine: Machine, structure: str) -> str:
    """Returns the published size of one structure of this core; empty if none is recorded."""
    return _PUBLISHED_SIZES.get(microarchitecture(machine), {}).get(structure, "")


def published_latencies(machine: Machine, levels: Iterable[str]) -> str:
    """Returns the published latencies of these levels, as a sentence; empty if none is recorded."""
    core = microarchitecture(machine)
    cycles = _PUBLISHED_CYCLES.get(core, {})
    stated = [f"{cycles[level]} for {level}" for level in levels if level in cycles]
    return f"Published for {core}, in cycles of a load: {', '.join(stated)}." if stated else ""


def microarchitecture(machine: Machine) -> str:
    """Returns the name of the core; empty if no source names it. If the system reports another L2 than this model has,
    the model number is the hypervisor's, and the core's matrix extensions determine the name."""
    name = _by_model(machine.facts)
    size, known = machine.data_sizes().get(2, 0), _L2_BYTES.get(name, 0)
    return _by_matrix_extensions(machine.facts) if size and known and size != known else name


def _by_matrix_extensions(facts: Mapping[str, str]) -> str:
    extensions = facts.get("matrix_extensions", "").split()
    if not extensions:
        return ""
    return _AMX_OF_HALVES if "amx_fp16" in extensions else _AMX


def _by_model(facts: Mapping[str, str]) -> str:
    """Returns the name of the core by its family and model; empty if the facts have no family, or one without a
    source."""
    try:
        family, model = int(facts.get("cpu_family", "")), int(facts.get("cpu_model_number", ""))
    except ValueError:
        return ""
    if family == 6:
        return next((name for name, models in _MODELS.items() if model in models), "")
    return next((name for first, last, name in _RANGES.get(family, ()) if first <= model <= last), "")
