# SPDX-License-Identifier: Apache-2.0
"""What follows from the rows beyond the hierarchy, as a table: each line with its interval, beside the system's word
where it has one; where it cannot be told, with the reason.
"""

from __future__ import annotations

from tollmeter.model import Book, Inference
from tollmeter.report.numbers import Figure, percent, plus_minus, quantity
from tollmeter.report.numbers import count as counted
from tollmeter.report.tables import Cell, Column, Line, Table, table

CANNOT = "cannot tell"
PASSED_BY = 1.1
BEHIND = ("prefetched", "reading_share", "store_that_fits", "reload_after_store", "idle_latency", "loaded_latency",
          "most_traffic")  # fmt: skip
"""What a line of another kind rests on, and has no line of its own here."""


def inferred_table(book: Book) -> Table | None:
    """None where the run measured nothing that more than the hierarchy can be read from."""
    lines = [_line(book, one) for one in book.index.inferred if one.kind not in BEHIND or _stands_alone(book, one)]
    columns = [Column("Inferred"), Column("measured", True), Column("system says", True)]
    return table("Inferred", columns, lines) if lines else None


def _stands_alone(book: Book, one: Inference) -> bool:
    """A direction of which nothing was timed, so that no gain says that it could not be told."""
    return one.kind == "prefetched" and _twin(book, one, "prefetch_gain", "direction") is None


def _line(book: Book, one: Inference) -> Line:
    return Line((one.name, _value(one), one.system or ""), _note(book, one))


def _value(one: Inference) -> Cell:
    if one.value is None:
        return CANNOT
    if isinstance(one.value, bool):
        return "yes" if one.value else "no"
    return (
        Figure(counted(one.value), "", plus_minus(one.value, one.low, one.high))
        if one.unit == "count"
        else quantity(one.value, one.unit or "", one.low, one.high)
    )


def _note(book: Book, one: Inference) -> str:
    """Why it cannot be told; or what is said beside it of another kind."""
    if one.kind == "prefetch_gain":
        verdict = _twin(book, one, "prefetched", "direction")
        return (verdict.reason if verdict else None) or ""
    reached = _twin(book, one, "reading_share", "level") if one.kind == "yardstick" else None
    return _said_of(reached) if reached is not None else one.reason or ""


def _said_of(reached: Inference) -> str:
    share = float(reached.value or 0)
    passed = (
        "the core starts more loads of this width than two a cycle"
        if "load_bytes" in reached.parameters
        else "the rest is fetched ahead, by no load"
    )
    return f"reading goes at {percent(share)} of it" + (f": {passed}" if share > PASSED_BY else "")


def _twin(book: Book, one: Inference, kind: str, by: str) -> Inference | None:
    """What was inferred of another kind in the same direction, or of the same level."""

    def place(other: Inference) -> object:
        return other.level if by == "level" else other.parameters.get(by)

    return next((other for other in book.index.inferred if other.kind == kind and place(other) == place(one)), None)
