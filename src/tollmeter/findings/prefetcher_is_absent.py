# SPDX-License-Identifier: Apache-2.0
"""A walk in order through memory that takes as long as one at random: nothing fetches ahead."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import number, of_row, own_rows
from tollmeter.model import Book, Finding, Row

LEAST_HELP = 1.5
LEAST_BYTES = 4 << 20


def find(book: Book) -> Iterable[Finding]:
    """At the largest size beyond 4 MiB, where a walk line by line forward is not 1.5 times as fast as one at random."""
    line = max((cache.line_bytes for cache in book.index.machine.caches), default=0) or 64
    walks: dict[int, dict[str, Row]] = {}
    for row in own_rows(book, "latency-of-stride"):
        if number(row, "stride") == line and number(row, "size") >= LEAST_BYTES:
            walks.setdefault(number(row, "size"), {})[str(row.parameters.get("order"))] = row
    both = [size for size, rows in walks.items() if {"forward", "random"} <= set(rows)]
    if both:
        yield from _help(walks[max(both)]["forward"], walks[max(both)]["random"])


def _help(forward: Row, random: Row) -> Iterable[Finding]:
    """Doubt speaks for the prefetcher: the ends of the intervals that favour it are compared."""
    best = (random.high or 0.0) / (forward.low or 1.0)
    if best >= LEAST_HELP:
        return
    yield Finding(
        name="memory.prefetcher_is_absent",
        severity="warning",
        claim=f"walking memory in order is at most {best:.2f} times as fast as at random: no prefetcher fetches ahead",
        evidence=(of_row(forward), of_row(random)),
        remedy="turn the hardware prefetchers on in the firmware (or MSR 0x1A4 on Intel); else prefetch in the program",
    )
