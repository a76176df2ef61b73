# SPDX-License-Identifier: Apache-2.0
"""A number over a swept parameter: one line a series, its interval shaded, and small multiples on shared axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from tollmeter.model import Row
from tollmeter.numbers.meanings import sizes_of
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Chart, Datum, Drawing, Name, Spec, Subject
from tollmeter.report.charts.dots_and_heat import dots
from tollmeter.report.numbers import size

DENSE_POINTS = 8
HEADROOM = 1.6
LEAST_FOR_LINE = 2


@dataclass(frozen=True)
class Lines(Drawing):
    """Data with an x, a series, and optionally a panel and a run, with their encoding. x: makes the axis of its values;
    tips: leading fields of the tooltip, with their titles.

    more: further layers with their own data, drawn if there is a single panel. boundaries: layers of one machine
    (rules, labels), drawn if there is also only one run. joined_by: the field of the data whose order joins the points;
    by default their x, and then the intervals of close points form one band."""

    unit: str
    x: Callable[[Sequence[float]], Spec]
    tips: tuple[tuple[str, str], ...]
    y_title: str
    log: bool = True
    legend: str | None = None
    height: int = 340
    more: Sequence[Spec] = ()
    boundaries: Sequence[Spec] = ()
    joined_by: str = ""

    @cached_property
    def spec(self) -> Spec:
        data = self.data
        series, panels, runs = (marks.ordered(data, key) for key in ("series", "panel", "run"))
        by = (marks.run_and_series(runs, series, self.legend) if len(runs) > 1
              else marks.series_colour("series", series, self.legend))  # fmt: skip
        headroom = HEADROOM if self.boundaries or self.more else 1.0
        axis = marks.log_y if self.log else marks.linear_y
        y = axis(data, self.unit, self.y_title, headroom, marks.ABOVE if len(panels) == 1 else {})
        dense = not self.joined_by and len(data) >= DENSE_POINTS * len(series) * len(panels) * len(runs)
        x, tips = self.x([d["x"] for d in data]), marks.hover(*self.tips)
        layers = marks.curve_layers(x, y, tips, by, dense=dense, joined_by=self.joined_by)
        if len(panels) > 1:
            return marks.panelled(data, layers, panels)
        return marks.layered(data, [*self.boundaries, *self.more, *layers], self.height)

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:
        series = {d["series"] for drawing in (self, other) if isinstance(drawing, Lines) for d in drawing.data}
        if not isinstance(other, Lines) or other.unit != self.unit or len(series) > len(marks.RUN_SHAPES):
            return self, other
        data = marks.of_runs((self.data, other.data), runs)
        tips = tuple(dict.fromkeys((("run", "run"), *self.tips, *other.tips)))
        more, log = (*self.more, *other.more), self.log or other.log
        return (replace(self, data=data, tips=tips, log=log, more=more, boundaries=()),)


def charted(bench: Bench, rows: Sequence[Row], subject: Subject, **curves: Any) -> Iterator[Chart]:
    """Yields one chart: curves, or dots if no parameter has enough values; none if there is nothing to compare. curves:
    as for `draw`."""
    drawing = draw(bench, rows, **curves)
    if drawing is not None:
        yield subject.chart(drawing, rows)


def draw(
    bench: Bench, rows: Sequence[Row], *, axis: str, series: Name, x_title: str, y_title: str,
    panel: Name | None = None, **look: Any,
) -> Drawing | None:  # fmt: skip
    """Returns lines over the parameter `axis`, one for each name of `series`, in a panel for each of `panel`; dots if
    the axis has fewer than two values. look: further fields of Lines."""
    panel = panel or (lambda _: "")
    usable = [row for row in rows if isinstance(row.parameters.get(axis), int)]
    if len({row.parameters[axis] for row in usable}) < LEAST_FOR_LINE:
        return dots(usable or rows, lambda row: ", ".join(filter(None, (panel(row), series(row)))), y_title)
    in_bytes = is_size(bench, usable[0], axis)

    def datum(row: Row) -> Datum:
        x = row.parameters[axis]
        assert isinstance(x, int)
        at = str(size(x)) if in_bytes else f"{x:,}"
        return marks.datum(row, x=x, at=at, series=series(row), panel=panel(row))

    data = tuple(map(datum, usable))
    of_panels = (("panel", "of"),) if len(marks.ordered(data, "panel")) > 1 else ()
    x = partial(marks.number_x, title=x_title, in_bytes=in_bytes)
    return Lines(data, usable[0].unit, x, (*of_panels, ("series", "series"), ("at", axis)), y_title, **look)


def is_size(bench: Bench, row: Row, name: str) -> bool:
    return name in sizes_of(bench.probe(row))
