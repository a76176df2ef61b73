# SPDX-License-Identifier: Apache-2.0
"""A random walk that is too fast to be random: other rows show that loads there take longer."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import number, of_row, own_rows
from tollmeter.model import Book, Finding, Row
from tollmeter.numbers.units import short

LEAST_RATIO = 2.5
"""Small and huge pages, and other workloads in the cache, make a factor of two."""


def find(book: Book) -> Iterable[Finding]:
    """Where a load of the random walk takes less than 40 % of what a single chain, or a walk with a stride in random
    order, takes per load in no more memory. A larger buffer's loads do not take less time, so one of the two is wrong;
    and a prefetcher can only make a walk fast."""
    known = [*_chains(book), *_strides(book)]
    for row in own_rows(book, "latency-of-size"):
        slower = [other for other in known if _contradicts(row, other)]
        if slower:
            yield _finding(row, max(slower, key=lambda other: number(other, "size")))
            return


def _chains(book: Book) -> list[Row]:
    return [row for row in own_rows(book, "load-of-chains") if number(row, "chains") == 1]


def _strides(book: Book) -> list[Row]:
    return [row for row in own_rows(book, "latency-of-stride") if row.parameters.get("order") == "random"]


def _contradicts(row: Row, other: Row) -> bool:
    if row.high is None or other.low is None or row.unit != other.unit:
        return False
    return number(other, "size") <= number(row, "size") and row.high * LEAST_RATIO < other.low


def _finding(row: Row, other: Row) -> Finding:
    here, there = (short(walk.median or 0.0, walk.unit) for walk in (row, other))
    return Finding(
        name="memory.walk_is_not_random",
        severity="error",
        claim=f"two probes disagree about one load from {number(other, 'size') >> 10} KiB: {here} and {there}. "
        "A walk in the order of its addresses is prefetched, and looks like this",
        evidence=(of_row(row), of_row(other)),
        remedy="take neither number before it is known which of the two walks is random",
    )
