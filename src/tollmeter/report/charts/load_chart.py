# SPDX-License-Identifier: Apache-2.0
"""Latency under load: what a dependent load waits while others move bytes, over the bytes that they move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.curves_chart import Curves, Lines
from tollmeter.report.charts.marks import datum, label_of
from tollmeter.report.numbers import quantity

LOAD = Subject(
    "load",
    "Latency under load",
    "How much longer does a load wait while other CPUs use the memory?",
    ("latency-of-traffic", "traffic-beside"),
)
X_TITLE = "traffic of the other CPUs per second"


def load(bench: Bench) -> Iterator[Chart]:
    """One line a mix of reads and writes. Each point has its own traffic, measured beside the latency."""
    pairs = beside(bench)
    data = tuple(_datum(row, traffic) for row, traffic in pairs)
    if len(data) < 2:
        return
    rows, traffics = zip(*pairs, strict=True)
    curves = Curves("delay", _mix, "one dependent load", X_TITLE, log=False, banded=False)
    tips = ("series", "traffic"), ("beside", "background traffic")
    yield LOAD.chart(Lines(data, rows[0].unit, curves, _x, tips), [*rows, *traffics])


def beside(bench: Bench) -> list[tuple[Row, Row]]:
    """Each latency with the traffic beside it."""
    traffic = {_point(row): row for row in bench.meaning("traffic-beside")}
    rows = bench.own(bench.meaning("latency-of-traffic"))
    return [(row, traffic[_point(row)]) for row in rows if _point(row) in traffic]


def _x(_: Sequence[float]) -> alt.X:
    axis, scale = alt.Axis(labelExpr=label_of("B/s"), grid=False), alt.Scale(zero=True, nice=True)
    return alt.X("x:Q", title=X_TITLE, axis=axis, scale=scale)


def _mix(row: Row) -> str:
    return str(row.parameters.get("mix", "traffic"))


def _point(row: Row) -> tuple[object, ...]:
    return row.probe, row.abi, tuple(sorted((name, str(value)) for name, value in row.parameters.items()))


def _datum(row: Row, beside: Row) -> Datum:
    moved = quantity(beside.median, beside.unit, beside.low, beside.high)
    return datum(row, x=beside.median, beside=str(moved), series=_mix(row))
