# SPDX-License-Identifier: Apache-2.0
"""The rows of a small run, as they are: whoever asked for a few points wants to see those numbers and no digest."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.model import Book, Row
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import size
from tollmeter.report.tables import Column, Line, Table, table

MOST_ROWS = 40
LOCAL = "local, hardware"


def listing(book: Book, most: int = MOST_ROWS) -> Table | None:
    """Every row with a number, what tells it from its neighbours, and where it ran if that was not all one place. None
    where there are more than a person reads on a terminal."""
    rows = [row for row in book.index.rows if row.status == "ok"]
    if not rows or len(rows) > most:
        return None
    abis, places = {row.abi for row in rows}, {_place(row) for row in rows}
    told = (len(abis) > 1, len(places) > 1)
    title = f"Rows ({_place(rows[0])})" if len(places) == 1 and places != {LOCAL} else "Rows"
    columns = [
        Column(title),
        Column("metric"),
        *[Column("ABI")] * told[0],
        *[Column("where, by which clock")] * told[1],
    ]
    return table(title, [*columns, Column("median", True)], [_line(row, rows, book, told) for row in rows])


def _place(row: Row) -> str:
    return f"{row.target}, {row.clock}"


def _line(row: Row, rows: Sequence[Row], book: Book, told: tuple[bool, bool]) -> Line:
    varied = ", ".join(f"{name} {_value(book, row, name)}" for name in row.parameters if _varies(name, row.probe, rows))
    words = [f"{row.probe} {varied}".rstrip(), row.metric, *[row.abi] * told[0], *[_place(row)] * told[1]]
    return Line((*words, of_row(row)))


def _varies(name: str, probe: str, rows: Sequence[Row]) -> bool:
    return len({row.parameters.get(name) for row in rows if row.probe == probe}) > 1


def _value(book: Book, row: Row, name: str) -> str:
    value = row.parameters[name]
    kinds = {p.name: p.kind for p in book.probes[row.probe].parameters} if row.probe in book.probes else {}
    return str(size(value)) if kinds.get(name) == "size" and isinstance(value, int) else str(value).replace("_", " ")
