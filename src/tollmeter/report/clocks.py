# SPDX-License-Identifier: Apache-2.0
"""Rows that a line's other end timed: both clocks beside each other, and what became of the marks."""

from __future__ import annotations

from statistics import median

from tollmeter.model import Book, Marks, Row
from tollmeter.report.numbers import DASH, count, quantity
from tollmeter.report.tables import Column, Line, Table, table
from tollmeter.studies.attempts import outcomes_of

RATES = ("B/s", "flop/s", "op/s")


def clocks_table(book: Book) -> Table | None:
    """One line for each point that was timed over a line; None where none was."""
    first: dict[tuple[object, ...], Row] = {}
    for row in book.index.rows:
        if row.clock == "external" and row.status == "ok":
            first.setdefault((row.probe, row.abi, row.target, *sorted(row.parameters.items())), row)
    lines = [_line(row, seen) for row in first.values() if (seen := _marks(book, row))]
    right = [Column(name, right=True) for name in ("by the line", "by its own", "ratio", "empty test")]
    return table("Two clocks", [Column("Two clocks"), *right, Column("bytes")], lines) if lines else None


def _marks(book: Book, row: Row) -> list[Marks]:
    return [outcome.marks for outcome in outcomes_of(book, row) if outcome.marks]


def _line(row: Row, seen: list[Marks]) -> Line:
    empty = [marks.empty_ns for marks in seen if marks.empty_ns is not None]
    ratio = row.own_ratio
    own = row.median * (1 / ratio if row.unit in RATES else ratio) if ratio and row.median else None
    name = " ".join([row.probe, *(str(value) for value in row.parameters.values())])
    return Line(
        (
            f"{name}, {row.metric}",
            quantity(row.median, row.unit),
            quantity(own, row.unit) if own else DASH,
            f"{ratio:.4f}" if ratio else DASH,
            quantity(median(empty), "ns") if empty else DASH,
            _bytes(seen),
        )
    )


def _bytes(seen: list[Marks]) -> str:
    came, lost, doubled, inserted = (
        sum(getattr(marks, what) for marks in seen) for what in ("came", "lost", "doubled", "inserted")
    )
    return f"{count(came)}, lost {count(lost)}, doubled {count(doubled)}, foreign {count(inserted)}"
