# SPDX-License-Identifier: Apache-2.0
"""The rows of a small run, as they are: whoever asked for a few points wants to see those numbers and no digest."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from tollmeter.model import Book, Row
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import size
from tollmeter.report.tables import Column, Line, Table, table
from tollmeter.root import COMMAND

MOST_ROWS = 40
LOCAL = "local, hardware"


def listing(book: Book, most: int = MOST_ROWS, *, whole: bool = False) -> Table | None:
    """Every row with a number, its parameters as far as they were asked for or tell it from its neighbours, and where
    it ran if that was not all one place. Of more rows than a person reads on a terminal the typical ones, and where
    the rest is; None where there are more than `most`, which is fewer. whole: all of them.
    """
    rows = [row for row in book.index.rows if row.status == "ok"]
    if not rows or (len(rows) > most < MOST_ROWS and not whole):
        return None
    shown = rows if whole or len(rows) <= MOST_ROWS else _typical(rows, book)[:MOST_ROWS]
    abis, places = {row.abi for row in shown}, {_place(row) for row in shown}
    has_abi, has_place = len(abis) > 1, len(places) > 1
    title = f"Rows ({_place(shown[0])})" if len(places) == 1 and places != {LOCAL} else "Rows"
    columns = [
        Column(title),
        Column("metric"),
        *[Column("ABI")] * has_abi,
        *[Column("where, by which clock")] * has_place,
    ]
    lines = [_line(row, shown, book, has_abi, has_place) for row in shown]
    return table(title, [*columns, Column("median", True)], _with_rest(lines, len(rows) - len(shown), book))


def _typical(rows: Sequence[Row], book: Book) -> Sequence[Row]:
    """Those at the values that were asked for, and else at those that their probes call typical; all where there are
    none."""
    return [row for row in rows if _is_typical(row, book)] or rows


def _is_typical(row: Row, book: Book) -> bool:
    probe = book.probes.get(row.probe)
    usual = {one.name: one.typical for one in probe.parameters if one.typical is not None} if probe else {}
    return all(str(row.parameters.get(name)) == usual[name] for name in usual if not _is_asked(name, row, book))


def _with_rest(lines: list[Line], more: int, book: Book) -> list[Line]:
    if more:
        where = f"{shlex.quote(COMMAND)} show {shlex.quote(book.index.run.folder)} --format csv"
        lines[-1] = replace(lines[-1], note=f"and {more} rows more: {where}")
    return lines


def _place(row: Row) -> str:
    return f"{row.target}, {row.clock}"


def _line(row: Row, rows: Sequence[Row], book: Book, has_abi: bool, has_place: bool) -> Line:
    shown = [name for name in row.parameters if _varies(name, row.probe, rows) or _is_asked(name, row, book)]
    values = ", ".join(f"{name} {_value(book, row, name)}" for name in shown)
    words = [f"{row.probe} {values}".rstrip(), row.metric, *[row.abi] * has_abi, *[_place(row)] * has_place]
    return Line((*words, of_row(row)))


def _is_asked(name: str, row: Row, book: Book) -> bool:
    """Whether a selection of the row's probe names the parameter."""
    selects = book.suite.select if book.suite else ()
    return any(name in select.parameters and fnmatchcase(row.probe, select.probe) for select in selects)


def _varies(name: str, probe: str, rows: Sequence[Row]) -> bool:
    return len({row.parameters.get(name) for row in rows if row.probe == probe}) > 1


def _value(book: Book, row: Row, name: str) -> str:
    value = row.parameters[name]
    kinds = {p.name: p.kind for p in book.probes[row.probe].parameters} if row.probe in book.probes else {}
    return str(size(value)) if kinds.get(name) == "size" and isinstance(value, int) else str(value).replace("_", " ")
