# SPDX-License-Identifier: Apache-2.0
"""Computes properties of the machine from rows, each once: line size, associativity, translation, write policy,
prefetching, yardsticks, scaling and load. Each has an interval and the value that the system reports, or the reason why
it is not resolved.

Findings and report read these records, and do not compute the properties again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tollmeter.inference.answers import InferredNumber, of_number
from tollmeter.inference.associativity import associativity, line_bytes
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.inference.instruction_side import instruction_side
from tollmeter.inference.load_and_scaling import efficiency, load_curves, slowdown
from tollmeter.inference.properties import (
    prefetching,
    translation,
    widest_load_bytes,
    write_policies,
    yardsticks,
)
from tollmeter.inference.worker_scaling import worker_scaling
from tollmeter.model import USUAL_LINE_BYTES, Inference, Level, Machine, Probe, Row
from tollmeter.numbers.meanings import meaning, native


def inferred(
    rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level], machine: Machine
) -> tuple[Inference, ...]:
    """Returns the properties for which at least one row was measured."""
    return tuple(_properties(native(rows, machine.architecture), probes, levels, machine))


def _properties(
    rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level], machine: Machine
) -> Iterator[Inference]:
    """Yields the properties of the machine. rows: of the machine's own ABI and clock."""
    meanings = {meaning(row, probes) for row in rows}
    line = InferredNumber()
    if "line-pair-of-distance" in meanings:
        line = line_bytes(rows, probes)
        reported = sorted({cache.line_bytes for cache in os_sizes(machine) if cache.line_bytes})
        yield of_number("line", "line", line, "B", system=", ".join(f"{size} B" for size in reported) or None)
    line_or_usual = int(line.value or USUAL_LINE_BYTES)
    if "conflict-of-lines" in meanings:
        ways_of = {f"L{cache.level}": str(cache.ways) for cache in os_sizes(machine) if cache.ways}
        for level, ways in associativity(rows, probes, levels).items():
            system = ways_of.get(level.removesuffix("d"))
            yield of_number(f"ways of {level}", "ways", ways, "count", system=system, level=level)
    if "translation-of-pages" in meanings:
        for pages in ("small", "huge"):
            yield from translation(rows, probes, levels, pages)
    if meanings.issuperset({"write-policy", "write-policy-baseline"}):
        yield from write_policies(rows, probes, levels)
    if "latency-of-stride" in meanings:
        yield from prefetching(rows, probes, line_or_usual)
    yield from yardsticks(levels, machine.core_clock_hz, widest_load_bytes(rows, probes), line_or_usual)
    yield from efficiency(rows, probes)
    yield from slowdown(rows, probes)
    yield from load_curves(rows, probes)
    yield from instruction_side(rows, probes)
    yield from worker_scaling(rows, probes, len(machine.allowed_cpus) or machine.cpus)
