# SPDX-License-Identifier: Apache-2.0
"""A hierarchy and a toll table for each kind of core, on a machine that has several."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from tollmeter.model import Book, KindAnswer
from tollmeter.model.topology import listed, numbers
from tollmeter.report import groups, tables
from tollmeter.report.numbers import DASH, plain
from tollmeter.report.tables import Table


def kind_tables(book: Book, *, few: bool = False) -> list[Table]:
    """Of each kind but the first, whose tables are the run's own. few: the best known tolls alone."""
    return [table for answer in book.index.kinds[1:] for table in _tables(book, answer, few=few)]


def _tables(book: Book, answer: KindAnswer, *, few: bool) -> list[Table]:
    index = msgspec.structs.replace(book.index, hierarchy=answer.hierarchy, tolls=answer.tolls, rows=())
    own = msgspec.structs.replace(book, index=index)
    tolls = tables.brief(tables.toll_table(own, groups.best_known(own))) if few else tables.toll_table(own)
    titled = (("Memory", tables.memory_table(own)), ("Tolls", tolls))
    return [_titled(table, f"{title}, {answer.kind}") for title, table in titled if table is not None]


def _titled(table: Table, title: str) -> Table:
    """Without columns of what was not measured on this kind."""
    empty = [
        place
        for place in range(1, len(table.columns))
        if all(str(line.cells[place]).strip() == DASH for line in table.rows)
    ]
    for place in reversed(empty):
        table = tables.without_column(table, place)
    first, *others = table.columns
    return replace(table, title=title, columns=(replace(first, name=title), *others))


def of_kinds(book: Book) -> tuple[str, ...]:
    """Which kind the run's own tables are of, and which kinds were left out and why; empty on other machines."""
    if not book.index.kinds:
        return ()
    own, *others = book.index.kinds
    measured = [f"{answer.kind} ({_cpus(answer)}{_clock(answer)})" for answer in (own, *others) if not answer.reason]
    return (
        f"Kinds of core: {', '.join(measured)}. Tables without a kind are of {own.kind}.",
        *(f"{answer.kind} ({_cpus(answer)}) was left out: {answer.reason}." for answer in others if answer.reason),
    )


def _cpus(answer: KindAnswer) -> str:
    return f"CPU {listed(numbers(answer.cpus))}"


def _clock(answer: KindAnswer) -> str:
    return f", {plain(answer.core_clock_hz / 1e9, 3)} GHz" if answer.core_clock_hz else ""
