# SPDX-License-Identifier: Apache-2.0
"""Properties of the machine besides the hierarchy: each with its interval and the system's value, or why it is not
resolved."""

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
    """None where the run measured nothing from which more than the hierarchy follows."""
    lines = [
        _line(book, inference)
        for inference in book.index.inferred
        if inference.kind not in BEHIND
        or (inference.kind == "prefetched" and _twin(book, inference, "prefetch_gain", "direction") is None)
    ]
    columns = [Column("Inferred"), Column("measured", True), Column("system says", True)]
    return table("Inferred", columns, lines) if lines else None


def _line(book: Book, inference: Inference) -> Line:
    return Line((inference.name, _value(inference), inference.system or ""), _note(book, inference))


def _value(inference: Inference) -> Cell:
    if inference.value is None:
        return CANNOT
    if isinstance(inference.value, bool):
        return "yes" if inference.value else "no"
    return (
        Figure(counted(inference.value), "", plus_minus(inference.value, inference.low, inference.high))
        if inference.unit == "count"
        else quantity(inference.value, inference.unit or "", inference.low, inference.high)
    )


def _note(book: Book, inference: Inference) -> str:
    """Why it is not resolved; or the related inference of another kind."""
    if inference.kind == "prefetch_gain":
        verdict = _twin(book, inference, "prefetched", "direction")
        return (verdict.reason if verdict else None) or ""
    reached = _twin(book, inference, "reading_share", "level") if inference.kind == "yardstick" else None
    return _share_text(reached) if reached is not None else inference.reason or ""


def _share_text(reached: Inference) -> str:
    share = float(reached.value or 0)
    passed = (
        "the core starts more loads of this width than two a cycle"
        if "load_bytes" in reached.parameters
        else "the rest is prefetched"
    )
    return f"reading goes at {percent(share)} of it" + (f": {passed}" if share > PASSED_BY else "")


def _twin(book: Book, inference: Inference, kind: str, by: str) -> Inference | None:
    """The inference of another kind in the same direction, or of the same level."""

    def place(other: Inference) -> object:
        return other.level if by == "level" else other.parameters.get(by)

    return next(
        (other for other in book.index.inferred if other.kind == kind and place(other) == place(inference)), None
    )
