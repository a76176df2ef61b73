# SPDX-License-Identifier: Apache-2.0
"""What a line costs that another CPU's cache holds, by the line's state and by what is done to it."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.heat import Cells, Heat
from tollmeter.report.charts.marks import datum
from tollmeter.report.numbers import quantity

LEAST_STATES = 2
HOMES = {"timed": "pages of the timed CPU", "partner": "pages of its partner"}

TRANSFER = Subject(
    "transfer",
    "Lines from another core, by state",
    "What does a line cost that another core's cache holds?",
    ("transfer-of-state",),
)


def transfer(bench: Bench) -> Iterator[Chart]:
    """A row a state, a column an access, a panel for the CPUs and for where the pages live."""
    rows = [row for row in bench.own(bench.meaning(*TRANSFER.means)) if {"state", "access"} <= set(row.parameters)]
    if len({row.parameters["state"] for row in rows}) < LEAST_STATES:
        return
    panels = {_panel(row) for row in rows}
    want = Heat(
        rows="a",
        columns="b",
        titles=("state of the line", "access"),
        unit=rows[0].unit,
        tips=(("a", "state"), ("b", "access"), ("panel", "where")),
        panel=len(panels) > 1,
    )
    yield TRANSFER.chart(Cells(tuple(_cell(row) for row in rows), want), rows)


def _cell(row: Row) -> Datum:
    place = {"a": row.parameters["state"], "b": row.parameters["access"]}
    return datum(row, **place, panel=_panel(row), said=str(quantity(row.median, row.unit)))


def _panel(row: Row) -> str:
    home = HOMES.get(str(row.parameters.get("home")), "")
    return ", ".join(text for text in (row.relation or "", home) if text)
