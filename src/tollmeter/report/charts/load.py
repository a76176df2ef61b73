# SPDX-License-Identifier: Apache-2.0
"""Latency under load: what a dependent load waits while others move bytes, over the bytes that they move."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.marks import (
    Curve,
    curve_layers,
    datum,
    finished,
    hover,
    label_of,
    linear_y,
    series_colour,
    values,
)
from tollmeter.report.numbers import quantity

LOAD = Subject(
    "load",
    "Latency under load",
    "How much longer does a load wait while others use the memory?",
    ("latency-of-traffic", "traffic-beside"),
)


def load(bench: Bench) -> Iterator[Chart]:
    """One line a mix of reads and writes. Each point has its own traffic, measured beside the latency."""
    rows = bench.own(bench.meaning("latency-of-traffic"))
    traffic = {_point(row): row for row in bench.meaning("traffic-beside")}
    data = [_datum(row, traffic[_point(row)]) for row in rows if _point(row) in traffic]
    if len(data) < 2:
        return
    order = tuple(dict.fromkeys(str(d["series"]) for d in data))
    axis = alt.Axis(labelExpr=label_of("B/s"), grid=False)
    x = alt.X("x:Q", title="bytes that the others move in a second", axis=axis, scale=alt.Scale(zero=True, nice=True))
    y = linear_y(data, rows[0].unit, "one dependent load")
    tips = hover(("series", "traffic"), ("beside", "moved beside it"))
    spec = finished(
        alt.layer(*curve_layers(Curve(values(data), x, y, tips, dense=False), series_colour("series", order)))
    )
    yield LOAD.chart(spec, [*rows, *traffic.values()])


def _point(row: Row) -> tuple[object, ...]:
    return row.probe, row.abi, tuple(sorted((name, str(value)) for name, value in row.parameters.items()))


def _datum(row: Row, beside: Row) -> Datum:
    moved = quantity(beside.median, beside.unit, beside.low, beside.high)
    return datum(row, x=beside.median, beside=str(moved), series=str(row.parameters.get("mix", "traffic")))
