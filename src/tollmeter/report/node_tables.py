# SPDX-License-Identifier: Apache-2.0
"""Costs between memory nodes: a matrix of requesting and holding nodes for each measured quantity."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.inference.nodes import is_loaded
from tollmeter.model import Book, Row
from tollmeter.numbers.meanings import native, with_meaning
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import DASH, Figure
from tollmeter.report.tables import Column, Line, Table, table

QUANTITIES = (
    ("Latency", "latency-of-node", False),
    ("Latency, all CPUs reading", "latency-of-node", True),
    ("Read by one CPU", "bandwidth-of-node", False),
    ("Read by all CPUs", "traffic-of-node", True),
    ("A page moved", "move-of-page", False),
)
MOST_WITH_INTERVALS = 4
"""Nodes with memory whose columns have room for intervals on a terminal."""


def node_tables(book: Book) -> tuple[Table, ...]:
    """A line for each node that asks, a column for each that holds the memory; none of what was not measured."""
    own = native(book.index.rows, book.index.machine.architecture)
    measured = [
        (title, [row for row in with_meaning(own, book.probes, means) if is_loaded(row) == loaded])
        for title, means, loaded in QUANTITIES
    ]
    return tuple(_matrix(title, rows) for title, rows in measured if rows)


def _matrix(title: str, rows: Sequence[Row]) -> Table:
    cells = {(row.parameters["node"], row.parameters["home"]): row for row in rows}
    nodes, homes = (sorted({int(pair[side]) for pair in cells}) for side in (0, 1))
    columns = [Column(title), *(Column(f"to node {home}", True) for home in homes)]
    lines = [
        Line((f"from node {node}", *(_cell(cells.get((node, home)), len(homes)) for home in homes))) for node in nodes
    ]
    return table(title, columns, lines)


def _cell(row: Row | None, homes: int) -> Figure | str:
    if row is None:
        return DASH
    figure = of_row(row)
    return figure if homes <= MOST_WITH_INTERVALS else Figure(figure.number, figure.unit, "")
