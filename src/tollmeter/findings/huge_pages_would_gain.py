# SPDX-License-Identifier: Apache-2.0
"""Memory that would be nearer if its translations were larger, on a system that doesn't give large ones by itself."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import is_separate, number, of_row, own_rows
from tollmeter.model import Book, Finding, Row
from tollmeter.numbers.percent import in_percent

WORTH = 0.10


def find(book: Book) -> Iterable[Finding]:
    """At the largest size that was walked on both kinds of page, where huge ones save more than 10 %."""
    if "[always]" in book.index.machine.facts.get("transparent_hugepage", ""):
        return
    walked: dict[int, dict[str, Row]] = {}
    for row in own_rows(book, "latency-of-size"):
        walked.setdefault(number(row, "size"), {})[str(row.parameters.get("pages"))] = row
    both = [size for size, rows in walked.items() if {"small", "huge"} <= set(rows)]
    if both:
        yield from _gain(walked[max(both)]["small"], walked[max(both)]["huge"])


def _gain(small: Row, huge: Row) -> Iterable[Finding]:
    saved = 1 - (huge.median or 0.0) / (small.median or 1.0)
    if saved <= WORTH or not is_separate(huge, small):
        return
    yield Finding(
        name="memory.huge_pages_would_gain",
        severity="note",
        claim=f"huge pages would cut a random walk's latency over {number(small, 'size') >> 20} MiB by "
        f"{in_percent(saved)}",
        evidence=(of_row(small), of_row(huge)),
        remedy="echo always > /sys/kernel/mm/transparent_hugepage/enabled, or madvise(MADV_HUGEPAGE) in the program",
    )
