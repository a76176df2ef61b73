# SPDX-License-Identifier: Apache-2.0
"""Reading that gets a small share of what two loads a cycle, or the misses under way alone, would carry."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import native_rows
from tollmeter.inference.yardsticks import Yardstick, widest_load_bytes, yardsticks
from tollmeter.model import Book, Evidence, Finding

LEAST_SHARE = 0.4
FEATURE_BYTES = 16
"""Every 64-bit core of today loads 16 bytes twice a cycle; wider ones are not asked for here, and nothing is said of
the first cache where no kernel was timed that asks for as much."""


def find(book: Book) -> Iterable[Finding]:
    """Each level whose best reading is under 40 % of its yardstick: load ports for L1d, lines under way elsewhere."""
    line = max((cache.line_bytes for cache in book.index.machine.caches), default=0) or 64
    timed = widest_load_bytes(native_rows(book), book.probes) or 0
    load = FEATURE_BYTES if timed >= FEATURE_BYTES else None
    for held in yardsticks(book.index.hierarchy, book.index.machine.core_clock_hz, load, line):
        if held.share is not None and held.bytes_per_second and held.share < LEAST_SHARE:
            yield _finding(held, held.share, held.bytes_per_second)


def _finding(held: Yardstick, share: float, rate: float) -> Finding:
    return Finding(
        name="memory.reading_is_slow",
        severity="warning",
        claim=f"reading from {held.level} goes at {share:.0%} of {rate / 1e9:.0f} GB/s, what {held.by} would carry",
        evidence=(
            Evidence(what=f"best read bandwidth, {held.level}", value=share * rate, unit="B/s"),
            Evidence(what=held.by, value=rate, unit="B/s"),
        ),
        remedy="look for a bandwidth limit of the guest, empty memory channels, or traffic of others",
    )
