# SPDX-License-Identifier: Apache-2.0
"""The parts of an answer: tables, listings, headings, without their content. Lists of verbs consist of these alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True)
class Figure:
    """A number separate from its unit and its interval, so that a table aligns each. sure: the interval, as text."""

    number: str
    unit: str = ""
    sure: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.number, self.unit, self.sure) if part)

    @property
    def bare(self) -> Figure:
        """Returns the figure without its interval."""
        return replace(self, sure="")


Cell = Figure | str


@dataclass(frozen=True)
class Column:
    """A column of a table. right: whether it is aligned to the right, as numbers are; spare: if the columns do not fit,
    the column with the highest value is dropped first, and a column with 0 stays; is_whole: its cells are never
    folded."""

    name: str
    right: bool = False
    spare: int = 0
    is_whole: bool = False


@dataclass(frozen=True)
class Line:
    cells: tuple[Cell, ...]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table. A Figure in a cell keeps number, unit and interval apart. own_title: replaces the first column's
    name."""

    columns: Sequence[Column]
    rows: Sequence[Line]
    own_title: str = ""

    @property
    def title(self) -> str:
        return self.own_title or self.columns[0].name

    @cached_property
    def sure(self) -> tuple[bool, ...]:
        """Returns for each column whether any of its numbers has an interval."""
        cells_by_column = zip(*(row.cells for row in self.rows), strict=True)
        return tuple(any(isinstance(cell, Figure) and cell.sure for cell in cells) for cells in cells_by_column)


@dataclass(frozen=True)
class Listing:
    """Lines that are printed unchanged, such as code; without an indent they are headings."""

    lines: Sequence[str]
    indent: int = 0


Block = str | Table | Listing
"""A part of an answer: a sentence, a table, or a listing. A view is a sequence of blocks: `text_layout` prints it on a
terminal, `markdown` as Markdown, and the macro `blocks` of page.html on a page."""


def heading(text: str) -> Listing:
    """Returns a heading, above a table or above sentences."""
    return Listing((text,))


def without_column(table: Table, dropped: int) -> Table:
    """Returns the table without one column, by its index."""
    rows = [replace(row, cells=(*row.cells[:dropped], *row.cells[dropped + 1 :])) for row in table.rows]
    return replace(table, columns=(*table.columns[:dropped], *table.columns[dropped + 1 :]), rows=tuple(rows))
