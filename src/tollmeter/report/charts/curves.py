# SPDX-License-Identifier: Apache-2.0
"""A number over a swept parameter: one line a series, its interval shaded, and small multiples on shared axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import altair as alt

from tollmeter.model import Row, Value
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, Subject
from tollmeter.report.charts.dots import dots, rung
from tollmeter.report.charts.marks import (
    ABOVE,
    Curve,
    curve_layers,
    datum,
    finished,
    hover,
    linear_y,
    log_y,
    number_x,
    panelled,
    series_colour,
    values,
)
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import size

DENSE_POINTS = 8
HEADROOM = 1.6
LEAST_FOR_LINE = 2
Name = Callable[[Row], str]


@dataclass(frozen=True)
class Curves:
    """What to draw: rows over the parameter `axis`, a line for each name of `series`, a panel for each of `panel`.

    more holds further layers (rules, labels) that bring their own data; they go with a single panel only.
    """

    axis: str
    series: Name
    y_title: str
    x_title: str
    panel: Name | None = None
    log: bool = True
    legend: str | None = None
    height: int = 340
    more: Sequence[alt.Chart] = field(default=())


def charted(bench: Bench, rows: Sequence[Row], subject: Subject, curves: Curves) -> Iterator[Chart]:
    """One chart: curves, or bars where there is nothing to be drawn along; none where there is nothing to compare."""
    spec = draw(bench, rows, curves)
    if spec is not None:
        yield subject.chart(spec, rows)


def draw(bench: Bench, rows: Sequence[Row], curves: Curves) -> Spec | None:
    """The specification. Two values of the axis are a line; one is no line, and stands as bars."""
    usable = [row for row in rows if isinstance(row.parameters.get(curves.axis), int)]
    if len({row.parameters[curves.axis] for row in usable}) < LEAST_FOR_LINE:
        return _as_dots(usable or rows, curves)
    in_bytes = is_size(bench, usable[0], curves.axis)
    data = [_datum(row, curves, in_bytes) for row in usable]
    order, panels = _ordered(data, "series"), _ordered(data, "panel")
    layers = curve_layers(_curve(data, usable[0].unit, curves, in_bytes), series_colour("series", order, curves.legend))
    if len(panels) == 1:
        return finished(alt.layer(*curves.more, *layers), curves.height)
    bare = [layer.properties(data=alt.Undefined) for layer in layers]
    return panelled(alt.layer(*bare, data=layers[0].data).properties(height=220, width=300), panels)


def _curve(data: Sequence[Datum], unit: str, curves: Curves, in_bytes: bool) -> Curve:
    order, panels = _ordered(data, "series"), _ordered(data, "panel")
    headroom, above = (HEADROOM if curves.more else 1.0), (ABOVE if len(panels) == 1 else {})
    return Curve(
        data=values(data),
        x=number_x([d["x"] for d in data], curves.x_title, in_bytes),
        y=(log_y if curves.log else linear_y)(data, unit, curves.y_title, headroom, above),
        tips=hover(*([("panel", "of")] if len(panels) > 1 else []), ("series", "series"), ("at", curves.axis)),
        dense=len(data) >= DENSE_POINTS * len(order) * len(panels),
    )


def _as_dots(rows: Sequence[Row], curves: Curves) -> Spec | None:
    positive = [row for row in rows if row.median is not None and row.median > 0]
    if len(positive) < 2:
        return None
    names = [
        ", ".join(filter(None, (curves.panel(row) if curves.panel else "", curves.series(row)))) for row in positive
    ]
    said = (str(of_row(row)) for row in positive)
    rungs = [rung(row, name, text) for row, name, text in zip(positive, names, said, strict=True)]
    return dots(rungs, positive[0].unit, curves.y_title)


def _datum(row: Row, curves: Curves, in_bytes: bool) -> Datum:
    x = row.parameters[curves.axis]
    assert isinstance(x, int)
    at = str(size(x)) if in_bytes else f"{x:,}"
    return datum(row, x=x, at=at, series=curves.series(row), panel=curves.panel(row) if curves.panel else "")


def _ordered(data: Sequence[Datum], key: str) -> tuple[str, ...]:
    """Names in the order of their first datum."""
    return tuple(dict.fromkeys(str(d.get(key, "")) for d in data))


def is_size(bench: Bench, row: Row, name: str) -> bool:
    parameter = bench.parameter(row, name)
    return parameter is not None and parameter.kind == "size"


def panel_by(bench: Bench, rows: Sequence[Row], parameters: Sequence[str]) -> Name | None:
    return named_by(bench, rows, parameters) if parameters else None


def named_by(bench: Bench, rows: Sequence[Row], parameters: Sequence[str]) -> Name:
    """Names a series by the parameters given: `huge`, `16 KiB`, `processes 8`; by its metric where there are none."""
    sizes = {name for name in parameters if rows and is_size(bench, rows[0], name)}

    def word(name: str, value: Value) -> str:
        if not isinstance(value, int):
            return value.replace("_", " ")
        return str(size(value)) if name in sizes else f"{name} {value}"

    def name(row: Row) -> str:
        parts = (word(key, row.parameters[key]) for key in parameters if key in row.parameters)
        return ", ".join(parts) or row.metric

    return name
