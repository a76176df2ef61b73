# SPDX-License-Identifier: Apache-2.0
"""Whether a guest's kernel entries were the hardware's or its host's: a host without hardware help emulates each of
them, and its program is timed."""

from __future__ import annotations

from tollmeter.model import Book, Row
from tollmeter.numbers.meanings import meaning

OWN_EXITS = 0.5
"""A turn: below it, a guest's entries are the hardware's own."""
HOSTED = "A hypervisor in software stood in between each time: its price, and not the hardware's."


def exits_of(book: Book, row: Row) -> float | None:
    """The guest exits of the same point, as its host counts them."""
    point = row.probe, row.abi, row.target, row.parameters
    beside = (other for other in book.index.rows if (other.probe, other.abi, other.target, other.parameters) == point)
    return next((other.median for other in beside if meaning(other, book.probes) == "guest-exits"), None)


def is_hosted(book: Book, row: Row) -> bool:
    return (exits_of(book, row) or 0.0) > OWN_EXITS
