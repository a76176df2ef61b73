# SPDX-License-Identifier: Apache-2.0
"""A number over a swept parameter: one line a series, its interval shaded, and small multiples on shared axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import altair as alt

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Datum, Spec
from tollmeter.report.charts.marks import (
    ABOVE,
    curve_layers,
    datum,
    finished,
    hover,
    linear_y,
    log_y,
    number_x,
    series_colour,
    values,
)
from tollmeter.report.numbers import size

DENSE_POINTS = 8
HEADROOM = 1.6
Name = Callable[[Row], str]


def no_panel(row: Row) -> str:
    return ""


@dataclass(frozen=True)
class Curves:
    """What to draw: rows over the parameter `axis`, a line for each name of `series`, a panel for each of `panel`.

    more holds further layers (rules, labels) that bring their own data; they go with a single panel only.
    """

    axis: str
    series: Name
    y_title: str
    x_title: str
    panel: Name = no_panel
    log: bool = True
    legend: str | None = None
    height: int = 340
    more: Sequence[alt.Chart] = field(default=())


def draw(bench: Bench, rows: Sequence[Row], curves: Curves) -> Spec | None:
    """The specification, or None where no row has the axis as a number."""
    usable = [row for row in rows if isinstance(row.parameters.get(curves.axis), int)]
    if not usable:
        return None
    in_bytes = is_size(bench, usable[0], curves.axis)
    data = [_datum(row, curves, in_bytes) for row in usable]
    order, panels = _ordered(data, "series"), _ordered(data, "panel")
    headroom, above = (HEADROOM if curves.more else 1.0), (ABOVE if len(panels) == 1 else {})
    y = (log_y if curves.log else linear_y)(data, usable[0].unit, curves.y_title, headroom, above)
    x = number_x([d["x"] for d in data], curves.x_title, in_bytes)
    tips = hover(*([("panel", "of")] if len(panels) > 1 else []), ("series", "series"), ("at", curves.axis))
    dense = len(data) >= DENSE_POINTS * len(order) * len(panels)
    inline = values(data)
    own = curve_layers(inline, x, y, series_colour("series", order, curves.legend), tips, dense)
    if len(panels) == 1:
        return finished(alt.layer(*curves.more, *own), curves.height)
    bare = [layer.properties(data=alt.Undefined) for layer in own]
    faceted = alt.layer(*bare, data=inline).properties(height=220, width=300)
    spec = finished(faceted.facet(facet=alt.Facet("panel:N", title=None, sort=list(panels)), columns=2).properties(bounds="flush", spacing={"row": 44, "column": 22}))
    return {**spec, "usermeta": {"panels": len(panels)}}


def _datum(row: Row, curves: Curves, in_bytes: bool) -> Datum:
    x = row.parameters[curves.axis]
    assert isinstance(x, int)
    at = str(size(x)) if in_bytes else f"{x:,}"
    return datum(row, x=x, at=at, series=curves.series(row), panel=curves.panel(row))


def _ordered(data: Sequence[Datum], key: str) -> tuple[str, ...]:
    """Names in the order of their first datum."""
    return tuple(dict.fromkeys(str(d[key]) for d in data))


def is_size(bench: Bench, row: Row, name: str) -> bool:
    parameter = bench.parameter(row, name)
    return parameter is not None and parameter.kind == "size"


def named_by(bench: Bench, rows: Sequence[Row], parameters: Sequence[str]) -> Name:
    """Names a series by the parameters given: `huge`, `16 KiB`, `load, 8`; a bare number is told what it counts."""
    sizes = {name for name in parameters if rows and is_size(bench, rows[0], name)}

    def name(row: Row) -> str:
        parts = []
        for key in parameters:
            value = row.parameters.get(key)
            if isinstance(value, int):
                parts.append(str(size(value)) if key in sizes else f"{key} {value}")
            elif value is not None:
                parts.append(str(value))
        return ", ".join(parts) or row.metric

    return name
