# SPDX-License-Identifier: Apache-2.0
"""Copies that fall to single bytes where their ends are not aligned alike."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import of_row, own_rows
from tollmeter.model import Book, Finding, Row, Severity

CLIFF = 2.5


def find(book: Book) -> Iterable[Finding]:
    """Each routine whose copy of the same bytes is at some offset more than 2.5 times slower than at its best."""
    routines: dict[tuple[str, object], list[Row]] = {}
    for row in own_rows(book, "copy-of-offset"):
        routines.setdefault((str(row.parameters.get("routine")), row.parameters.get("bytes")), []).append(row)
    cliffs: dict[str, tuple[Row, Row]] = {}
    for (routine, _), rows in routines.items():
        worst, best = min(rows, key=_rate), max(rows, key=_rate)
        if _ratio(worst, best) > max(CLIFF, _ratio(*cliffs[routine]) if routine in cliffs else 0):
            cliffs[routine] = worst, best
    yield from (_finding(routine, worst, best) for routine, (worst, best) in sorted(cliffs.items()))


def _rate(row: Row) -> float:
    return row.median or 0.0


def _ratio(worst: Row, best: Row) -> float:
    """By the ends of the intervals that make it least."""
    return (best.low or 0.0) / (worst.high or 1.0)


def _finding(routine: str, worst: Row, best: Row) -> Finding:
    library = routine == "libc"
    severity: Severity = "warning" if library else "note"
    subject = "this C library's memcpy" if library else f"a copy by {routine.replace('_', ' ')}"
    return Finding(
        name="alignment.copies_fall_off_a_cliff",
        severity=severity,
        claim=f"{subject} is {_rate(best) / _rate(worst):.1f} times slower when its ends are not aligned alike",
        evidence=(of_row(worst), of_row(best)),
        remedy="receive packets 2 bytes later so that the IP header is aligned, or copy by unaligned words",
    )
