# SPDX-License-Identifier: Apache-2.0
"""What the inferences make of one modelled machine, beside what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from model.machine import Machine
from model.measured import (
    Noise,
    conflict_rows,
    described,
    description,
    latency_rows,
    line_rows,
    policy_rows,
    stride_rows,
    translation_rows,
)
from tollmeter.inference.answers import InferredNumber, YesOrNo
from tollmeter.inference.associativity import associativity, line_bytes
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.inference.properties import prefetching, translation, write_allocate, write_back
from tollmeter.model import Inference, Level

WITHIN = log(1.1)
PROBES = described()


@dataclass(frozen=True)
class Recovery:
    """Everything is inferred from rows alone; the system tells nothing of the caches."""

    machine: Machine
    levels: tuple[Level, ...]
    line: InferredNumber
    ways: dict[str, InferredNumber]
    translations: list[Inference]
    write_back: YesOrNo
    write_allocate: YesOrNo
    prefetch: list[float | bool | None]

    def ways_right(self) -> list[bool]:
        """Of the levels that were told, each at its own place."""
        told = {level: ways.value for level, ways in self.ways.items() if ways.value is not None}
        names = ["L1d", *(f"L{place}" for place in range(2, 9))]
        truth = {name: cache.ways for name, cache in zip(names, self.machine.caches, strict=False)}
        return [truth.get(level) == value for level, value in told.items()]

    def translations_right(self) -> list[bool]:
        """Of the buffers that were told, whether one of the machine's holds as many."""
        return [
            any((buffer.low or 0) <= tlb.entries <= (buffer.high or 0) for tlb in self.machine.tlbs)
            for buffer in self.translations
            if buffer.kind == "translations" and buffer.value is not None
        ]


def sizes_right(machine: Machine, levels: Sequence[Level]) -> list[bool]:
    """For each cache, whether one was found in its place and has its size within 10 %."""
    found = [level.size_bytes for level in levels if level.size_bytes]
    truth = [cache.size_bytes for cache in machine.caches]
    if len(found) != len(truth):
        return [any(abs(log(size / true)) < WITHIN for size in found) for true in truth]
    return [abs(log(size / true)) < WITHIN for size, true in zip(found, truth, strict=True)]


def false_levels(machine: Machine, levels: Sequence[Level]) -> int:
    return max(sum(level.size_bytes is not None for level in levels) - len(machine.caches), 0)


def recovered(machine: Machine) -> Recovery:
    """Runs every probe on the machine and infers all that can be."""
    noise, told = Noise(machine), description(machine, told=False)
    latency = latency_rows(machine, noise)
    levels = hierarchy(latency, PROBES, told)
    policy = policy_rows(machine, noise)
    line = line_bytes(line_rows(machine, noise), PROBES)
    strides = prefetching(stride_rows(machine, noise) + latency, PROBES, machine.line_bytes)
    return Recovery(
        machine=machine,
        levels=levels,
        line=line,
        ways=associativity(conflict_rows(machine, noise), PROBES, levels),
        translations=[*translation(translation_rows(machine, noise), PROBES, levels, line_bytes=machine.line_bytes)],
        write_back=write_back(policy, PROBES, levels),
        write_allocate=write_allocate(policy, PROBES, levels),
        prefetch=[gain.value for gain in strides if gain.kind == "prefetched"],
    )
