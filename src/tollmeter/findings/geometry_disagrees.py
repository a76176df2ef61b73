# SPDX-License-Identifier: Apache-2.0
"""A line size or associativity that differs from the value that the system reports."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.model import Book, Evidence, Finding, Inference


def find(book: Book) -> Iterable[Finding]:
    """For the line size, and for each level's associativity, where the 95 % interval excludes the value that the system
    reports."""
    reported = {f"L{cache.level}": cache for cache in os_sizes(book.index.machine)}
    for line in inferences(book, "line") if reported else ():
        first = min(reported.values(), key=lambda cache: cache.level)
        yield from _compared("memory.line_disagrees", "the line", line, first.line_bytes)
    for ways in inferences(book, "ways"):
        cache = reported.get((ways.level or "").removesuffix("d"))
        if cache is not None:
            yield from _compared("memory.ways_disagree", f"the {ways.name}", ways, cache.ways)


def _compared(name: str, what: str, measured: Inference, reported: int) -> Iterable[Finding]:
    if not isinstance(measured.value, float) or measured.low is None or measured.high is None or not reported:
        return
    if measured.low <= reported <= measured.high:
        return
    yield Finding(
        name=name,
        severity="warning",
        claim=f"{what}: {measured.value:.0f} by measurement, {reported} by the system's word",
        evidence=(
            Evidence(what=f"{what}, measured", value=measured.value, unit=measured.unit or ""),
            Evidence(what=f"{what}, by the system", value=reported, unit=measured.unit or ""),
        ),
        remedy="the firmware or hypervisor reports another cache: pad and block for the measured one",
    )
