# SPDX-License-Identifier: Apache-2.0
"""A number over a swept parameter: one line a series, its interval shaded, and small multiples on shared axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import altair as alt

from tollmeter.model import Row, Value
from tollmeter.numbers.meanings import sizes_of
from tollmeter.report.charts.chart import Bench, Chart, DataDrawing, Datum, Drawing, Spec, Subject
from tollmeter.report.charts.dots_and_heat import Rungs, rung
from tollmeter.report.charts.marks import (
    ABOVE,
    RUN_SHAPES,
    Curve,
    curve_layers,
    datum,
    finished,
    hover,
    linear_y,
    log_y,
    number_x,
    of_runs,
    ordered,
    panelled,
    run_and_series,
    series_colour,
    values,
)
from tollmeter.report.numbers import of_row, size

DENSE_POINTS = 8
HEADROOM = 1.6
LEAST_FOR_LINE = 2
Name = Callable[[Row], str]


@dataclass(frozen=True)
class Curves:
    """What to draw: rows over the parameter `axis`, a line for each name of `series`, a panel for each of `panel`.

    more holds further layers with their own data, boundaries those of one machine (rules, labels): they are drawn with
    a single panel only, and boundaries with one run only. banded: where points are close, their intervals make one
    band."""

    axis: str
    series: Name
    y_title: str
    x_title: str
    panel: Name | None = None
    log: bool = True
    legend: str | None = None
    height: int = 340
    more: Sequence[alt.Chart] = field(default=())
    boundaries: Sequence[alt.Chart] = field(default=())
    banded: bool = True


@dataclass(frozen=True)
class Lines(DataDrawing):
    """Data with an x, a series, perhaps a panel and a run, and how they are drawn. x: makes the axis of its values;
    tips: fields that lead in the hover, with their titles."""

    unit: str
    curves: Curves
    x: Callable[[Sequence[float]], alt.X]
    tips: tuple[tuple[str, str], ...]

    @cached_property
    def spec(self) -> Spec:
        layers, panels = curve_layers(self._curve(), self._colour()), ordered(self.data, "panel")
        if len(panels) == 1:
            return finished(alt.layer(*self.curves.boundaries, *self.curves.more, *layers), self.curves.height)
        bare = [layer.properties(data=alt.Undefined) for layer in layers]
        return panelled(alt.layer(*bare, data=layers[0].data).properties(height=220, width=300), panels)

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:
        series = {d["series"] for drawing in (self, other) if isinstance(drawing, Lines) for d in drawing.data}
        if not isinstance(other, Lines) or other.unit != self.unit or len(series) > len(RUN_SHAPES):
            return self, other
        more = (*self.curves.more, *other.curves.more)
        curves = replace(self.curves, log=self.curves.log or other.curves.log, more=more, boundaries=())
        tips = tuple(dict.fromkeys((("run", "run"), *self.tips, *other.tips)))
        return (replace(self, data=of_runs((self.data, other.data), runs), curves=curves, tips=tips),)

    def _colour(self) -> Spec:
        series, runs = (ordered(self.data, key) for key in ("series", "run"))
        if len(runs) > 1:
            return run_and_series(runs, series, self.curves.legend)
        return series_colour("series", series, self.curves.legend)

    def _curve(self) -> Curve:
        series, panels, runs = (len(ordered(self.data, key)) for key in ("series", "panel", "run"))
        headroom, above = (
            (HEADROOM if self.curves.boundaries or self.curves.more else 1.0),
            (ABOVE if panels == 1 else {}),
        )
        return Curve(
            data=values(self.data),
            x=self.x([d["x"] for d in self.data]),
            y=(log_y if self.curves.log else linear_y)(self.data, self.unit, self.curves.y_title, headroom, above),
            tips=hover(*self.tips),
            dense=self.curves.banded and len(self.data) >= DENSE_POINTS * series * panels * runs,
        )


def charted(bench: Bench, rows: Sequence[Row], subject: Subject, curves: Curves) -> Iterator[Chart]:
    """One chart: curves, or dots where there is nothing to be drawn along; none where there is nothing to compare."""
    drawing = draw(bench, rows, curves)
    if drawing is not None:
        yield subject.chart(drawing, rows)


def draw(bench: Bench, rows: Sequence[Row], curves: Curves) -> Drawing | None:
    """Two values of the axis make a line; one makes dots."""
    usable = [row for row in rows if isinstance(row.parameters.get(curves.axis), int)]
    if len({row.parameters[curves.axis] for row in usable}) < LEAST_FOR_LINE:
        return _as_dots(usable or rows, curves)
    in_bytes = is_size(bench, usable[0], curves.axis)
    data = tuple(_datum(row, curves, in_bytes) for row in usable)
    panel = (("panel", "of"),) if len(ordered(data, "panel")) > 1 else ()
    x = partial(number_x, title=curves.x_title, in_bytes=in_bytes)
    return Lines(data, usable[0].unit, curves, x, (*panel, ("series", "series"), ("at", curves.axis)))


def _as_dots(rows: Sequence[Row], curves: Curves) -> Rungs | None:
    positive = [row for row in rows if row.median is not None and row.median > 0]
    if len(positive) < 2:
        return None
    names = [
        ", ".join(filter(None, (curves.panel(row) if curves.panel else "", curves.series(row)))) for row in positive
    ]
    texts = (str(of_row(row)) for row in positive)
    rungs = tuple(rung(row, name, text) for row, name, text in zip(positive, names, texts, strict=True))
    return Rungs(rungs, positive[0].unit, curves.y_title)


def _datum(row: Row, curves: Curves, in_bytes: bool) -> Datum:
    x = row.parameters[curves.axis]
    assert isinstance(x, int)
    at = str(size(x)) if in_bytes else f"{x:,}"
    return datum(row, x=x, at=at, series=curves.series(row), panel=curves.panel(row) if curves.panel else "")


def is_size(bench: Bench, row: Row, name: str) -> bool:
    return name in sizes_of(bench.probe(row))


def panel_by(bench: Bench, rows: Sequence[Row], parameters: Sequence[str]) -> Name | None:
    return named_by(bench, rows, parameters) if parameters else None


def named_by(bench: Bench, rows: Sequence[Row], parameters: Sequence[str]) -> Name:
    """Names a series by the parameters given: `huge`, `16 KiB`, `processes 8`; by its metric where there are none."""
    sizes = sizes_of(bench.probe(rows[0])) if rows else frozenset()

    def word(name: str, value: Value) -> str:
        if not isinstance(value, int):
            return value.replace("_", " ")
        return str(size(value)) if name in sizes else f"{name} {value}"

    def name(row: Row) -> str:
        parts = (word(key, row.parameters[key]) for key in parameters if key in row.parameters)
        return ", ".join(parts) or row.metric

    return name
