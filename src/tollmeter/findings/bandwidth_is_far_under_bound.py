# SPDX-License-Identifier: Apache-2.0
"""Reading that gets a small share of what the core or the misses under way would allow."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.analysis.bounds import bounds
from tollmeter.model import Book, Evidence, Finding, Level

LEAST_SHARE = 0.4
FEATURE_BYTES = 16
"""Every 64-bit core of today loads 16 bytes twice a cycle; wider ones are not asked for here."""


def find(book: Book) -> Iterable[Finding]:
    """Each level whose best reading is under 40 % of its bound: load ports for L1d, lines under way elsewhere."""
    clock = book.index.machine.core_clock_hz
    line = max((cache.line_bytes for cache in book.index.machine.caches), default=0) or 64
    levels = book.index.hierarchy
    for level, bound in zip(levels, bounds(levels, clock, FEATURE_BYTES, line), strict=True):
        if bound.share is not None and bound.bytes_per_second and bound.share < LEAST_SHARE:
            yield _finding(level, bound.share * bound.bytes_per_second, bound.bytes_per_second)


def _finding(level: Level, read: float, bound: float) -> Finding:
    return Finding(
        name="memory.bandwidth_is_far_under_bound",
        severity="warning",
        claim=f"reading from {level.level} reaches {read / bound:.0%} of its bound of {bound / 1e9:.0f} GB/s",
        evidence=(
            Evidence(what=f"best read bandwidth, {level.level}", value=read, unit="B/s"),
            Evidence(what="bound: ports for L1d, else parallelism x line / latency", value=bound, unit="B/s"),
        ),
        remedy="look for a bandwidth limit of the guest, empty memory channels, or traffic of others",
    )
