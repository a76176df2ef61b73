# SPDX-License-Identifier: Apache-2.0
"""A line or a number of ways that is not what the system says."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import native_rows
from tollmeter.inference.answers import Answer
from tollmeter.inference.associativity import associativity
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.inference.line import line_bytes
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """For the line, and for each level's ways, where the 95 % interval excludes the system's word."""
    told = {f"L{cache.level}": cache for cache in os_sizes(book.index.machine)}
    rows = native_rows(book)
    if told:
        first = min(told.values(), key=lambda cache: cache.level)
        yield from _compared("memory.line_disagrees", "the line", line_bytes(rows, book.probes), first.line_bytes, "B")
    for found in associativity(rows, book.probes, book.index.hierarchy):
        cache = told.get(found.level.removesuffix("d"))
        if cache is not None:
            yield from _compared("memory.ways_disagree", f"the ways of {found.level}", found.ways, cache.ways, "count")


def _compared(name: str, what: str, answer: Answer, told: int, unit: str) -> Iterable[Finding]:
    if answer.value is None or answer.low is None or answer.high is None or not told:
        return
    if answer.low <= told <= answer.high:
        return
    yield Finding(
        name=name,
        severity="warning",
        claim=f"{what}: {answer.value:.0f} by measurement, {told} by the system's word",
        evidence=(
            Evidence(what=f"{what}, measured", value=answer.value, unit=unit),
            Evidence(what=f"{what}, by the system", value=told, unit=unit),
        ),
        remedy="firmware or hypervisor tells of another cache: pad and block for what was measured",
    )
