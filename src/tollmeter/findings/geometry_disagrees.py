# SPDX-License-Identifier: Apache-2.0
"""A line or a number of ways that is not what the system says."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.model import Book, Evidence, Finding, Inference


def find(book: Book) -> Iterable[Finding]:
    """For the line, and for each level's ways, where the 95 % interval excludes the system's word."""
    told = {f"L{cache.level}": cache for cache in os_sizes(book.index.machine)}
    for line in inferences(book, "line") if told else ():
        first = min(told.values(), key=lambda cache: cache.level)
        yield from _compared("memory.line_disagrees", "the line", line, first.line_bytes)
    for ways in inferences(book, "ways"):
        cache = told.get((ways.level or "").removesuffix("d"))
        if cache is not None:
            yield from _compared("memory.ways_disagree", f"the {ways.name}", ways, cache.ways)


def _compared(name: str, what: str, found: Inference, told: int) -> Iterable[Finding]:
    if not isinstance(found.value, float) or found.low is None or found.high is None or not told:
        return
    if found.low <= told <= found.high:
        return
    yield Finding(
        name=name,
        severity="warning",
        claim=f"{what}: {found.value:.0f} by measurement, {told} by the system's word",
        evidence=(
            Evidence(what=f"{what}, measured", value=found.value, unit=found.unit or ""),
            Evidence(what=f"{what}, by the system", value=told, unit=found.unit or ""),
        ),
        remedy="firmware or hypervisor tells of another cache: pad and block for what was measured",
    )
