# SPDX-License-Identifier: Apache-2.0
"""The lines of a study's figure, drawn anew from this run: each row, and the one that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from tollmeter.model import Book, FigureLine, Row, RowOf, StudyFigure
from tollmeter.studies.asked_rows import matching, own_reason

Place = tuple[str, str, str]
"""Target, clock and ABI."""


def lines(book: Book, figure: StudyFigure, places: list[Place]) -> dict[str, list[tuple[Row, Row]]]:
    """Of each place a line for each of the figure's. Two ABIs are two measurements, so their names say which."""
    by_name = {
        (line.name, place[2]): list(_pairs(book, figure, line, place)) for line in figure.line for place in places
    }
    several = len({abi for (_, abi), pairs in by_name.items() if pairs}) > 1
    return {f"{name}, {abi}" if several else name: pairs for (name, abi), pairs in by_name.items() if pairs}


def at(figure: StudyFigure, row: Row) -> float:
    """Its place on the axis; 0 for none."""
    place = row.parameters.get(figure.axis)
    return place if isinstance(place, int) else 0


def why_none(book: Book, figure: StudyFigure) -> str:
    """Why this run draws none of it: the reason of its first row that has one, else that there are too few numbers."""
    reasons = (own_reason(book, line.row) for line in figure.line)
    return figure.missing or next(filter(None, reasons), "This run has too few numbers for it.")


def _pairs(book: Book, figure: StudyFigure, line: FigureLine, place: Place) -> Iterator[tuple[Row, Row]]:
    rows = _rows_of_line(book, figure, line.row, place)
    others = {at(figure, row): row for row in _rows_of_line(book, figure, line.over, place)} if line.over else {}
    nearest = min(rows, key=lambda row: abs(log(at(figure, row) / (figure.base or 1.0))), default=None)
    for row in rows:
        other = others.get(at(figure, row)) if line.over else nearest
        if other is not None:
            yield row, other


def _rows_of_line(book: Book, figure: StudyFigure, wanted: RowOf, place: Place) -> list[Row]:
    """Along the axis."""
    here = [row for row in matching(book, wanted) if (row.target, row.clock, row.abi) == place]
    usable = [row for row in here if row.status == "ok" and (row.median or 0) > 0 and at(figure, row) > 0]
    return sorted(usable, key=lambda row: at(figure, row))
