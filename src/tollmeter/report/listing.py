# SPDX-License-Identifier: Apache-2.0
"""The rows of a small run, as they are: whoever asked for a few points wants to see those numbers and no digest."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from tollmeter.model import Book, Row
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import size
from tollmeter.report.tables import Column, Line, Table, table
from tollmeter.root import COMMAND

MOST_ROWS = 40
LOCAL = "local, hardware"


def listing(book: Book, most: int = MOST_ROWS) -> Table | None:
    """Every row with a number, what tells it from its neighbours, and where it ran if that was not all one place. None
    where there are more than a person reads on a terminal, unless no other table would show any: those are of a
    machine's own clock. Then the typical ones stand here, and where the rest is.
    """
    rows = [row for row in book.index.rows if row.status == "ok"]
    if not rows or (len(rows) > most and any(row.clock == "hardware" for row in rows)):
        return None
    shown = rows if len(rows) <= MOST_ROWS else _typical(rows, book)[:MOST_ROWS]
    abis, places = {row.abi for row in shown}, {_place(row) for row in shown}
    told = (len(abis) > 1, len(places) > 1)
    title = f"Rows ({_place(shown[0])})" if len(places) == 1 and places != {LOCAL} else "Rows"
    columns = [
        Column(title),
        Column("metric"),
        *[Column("ABI")] * told[0],
        *[Column("where, by which clock")] * told[1],
    ]
    lines = [_line(row, shown, book, told) for row in shown]
    return table(title, [*columns, Column("median", True)], _with_rest(lines, len(rows) - len(shown), book))


def _typical(rows: Sequence[Row], book: Book) -> Sequence[Row]:
    """Those at the values that their probes call typical; all where there are none."""
    wanted = {
        name: {p.name: p.typical for p in probe.parameters if p.typical is not None}
        for name, probe in book.probes.items()
    }
    found = [
        row
        for row in rows
        if all(str(row.parameters.get(name)) == value for name, value in wanted.get(row.probe, {}).items())
    ]
    return found or rows


def _with_rest(lines: list[Line], more: int, book: Book) -> list[Line]:
    if more:
        where = f"{shlex.quote(COMMAND)} show {shlex.quote(book.index.run.folder)} --format csv"
        lines[-1] = replace(lines[-1], note=f"and {more} rows more: {where}")
    return lines


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
