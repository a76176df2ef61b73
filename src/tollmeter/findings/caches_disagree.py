# SPDX-License-Identifier: Apache-2.0
"""A cache that serves clearly less, or more, than the size that the system reports."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.inference.hierarchy import disagrees
from tollmeter.model import Book, Evidence, Finding, Level
from tollmeter.numbers.units import short


def find(book: Book) -> Iterable[Finding]:
    """For each level whose 95 % interval, or range of latency and reading, ends beyond tolerance of the system's size.
    Less than that is no disagreement where CPUs outside this machine may use the rest."""
    for level in book.index.hierarchy:
        if level.size_bytes and level.os_size_bytes and disagrees(level, book.index.machine):
            yield _finding(level, level.size_bytes, level.os_size_bytes)


def _finding(level: Level, size_bytes: float, os_size_bytes: int) -> Finding:
    less = size_bytes < os_size_bytes
    serves = f"{short(size_bytes, 'B')} {'of' if less else 'more than'} the {short(os_size_bytes, 'B')}"
    return Finding(
        name="memory.cache_disagrees",
        severity="warning",
        claim=f"{level.level} serves {serves} that the system reports",
        evidence=(
            Evidence(what=f"{level.level} size measured", value=size_bytes, unit="B"),
            Evidence(what=f"{level.level} size by the system", value=os_size_bytes, unit="B"),
        ),
        remedy=(
            "others use the rest, or it is partitioned (resctrl): plan for the size that was measured"
            if less
            else "the system was told wrongly, by firmware or hypervisor: plan for the size that was measured"
        ),
    )
