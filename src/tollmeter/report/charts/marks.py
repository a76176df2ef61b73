# SPDX-License-Identifier: Apache-2.0
"""Axes and marks that all charts are put together from, so that one unit always looks the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from tollmeter.model import Row
from tollmeter.report import numbers
from tollmeter.report.charts.chart import Datum, Spec
from tollmeter.report.look import DASHES, SHAPES

SIZE_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '.4~g') + ' GiB' : "
    "datum.value >= 1048576 ? format(datum.value / 1048576, '.4~g') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '.4~g') + ' KiB' : format(datum.value, '.4~g') + ' B'"
)
TIME_LABEL = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '.4~g') + ' s' : "
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.4~g') + ' ms' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '.4~g') + ' µs' : format(datum.value, '.4~g') + ' ns'"
)
COUNT_LABEL = "abs(datum.value) >= 1000 ? format(datum.value, ',.0f') : format(datum.value, '.4~g')"
TITLES = {"ns": "time", "B/s": "bytes per second", "flop/s": "floating-point operations per second",
          "op/s": "operations per second", "B": "bytes", "cycle": "core cycles", "instruction": "instructions",
          "fault": "faults", "ratio": "ratio", "count": "count"}  # fmt: skip
LEGEND_WIDTH, LEGEND_LETTER, LEGEND_GAP = 720, 6, 42
ABOVE: Spec = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleY": -14, "titleX": -4}


def rate_label(suffix: str) -> str:
    """A decimal prefix and the unit: 40 GB/s."""
    steps = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))
    parts = [f"datum.value >= {step:g} ? format(datum.value / {step:g}, '.4~g') + '{name}{suffix}' : " for step, name in steps]
    return "".join(parts) + f"format(datum.value, '.4~g') + ' {suffix}'"


LABELS = {"ns": TIME_LABEL, "B": SIZE_LABEL, "B/s": rate_label("B/s"), "flop/s": rate_label("FLOPS"),
          "op/s": rate_label("/s")}  # fmt: skip


def label_of(unit: str) -> str:
    return LABELS.get(unit, COUNT_LABEL)


def datum(row: Row, **more: object) -> Datum:
    """One row as a mark needs it: y with its interval, and what the hover says, already in words."""
    low = row.median if row.low is None else row.low
    high = row.median if row.high is None else row.high
    return {"y": _short(row.median), "lo": _short(low), "hi": _short(high), "abi": row.abi, **sure(row), **more}


def sure(row: Row) -> Datum:
    """Value, interval and samples in words, as the hover gives them."""
    ends = (row.median if end is None else end for end in (row.low, row.high))
    low, high = (numbers.quantity(end, row.unit) for end in ends)
    aside = f", {row.set_aside} set aside" if row.set_aside else ""
    visits = f"{row.visits} visit{'' if row.visits == 1 else 's'}"
    return {
        "value": str(numbers.quantity(row.median, row.unit, row.low, row.high)),
        "interval": f"{low} to {high}",
        "samples": f"{row.samples} in {visits}{aside}",
    }


def _short(value: float | None) -> float | None:
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def hover(*first: tuple[str, str]) -> list[alt.Tooltip]:
    """The fields that lead, then value, interval and samples: the same on every chart."""
    rest = (("value", "value"), ("interval", "95 % interval"), ("samples", "samples"))
    return [alt.Tooltip(field=field, type="nominal", title=title) for field, title in (*first, *rest)]


def log_ticks(values: Iterable[float]) -> list[float]:
    """Decades, with 2 and 5 between them where fewer than three decades are spanned. Values are above zero."""
    low, high = bounds(values)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first < 3 else (1,)
    every = 1 if last - first <= 7 else 2
    ticks = [step * 10.0**decade for decade in range(first, last + 1, every) for step in steps]
    return [float(f"{tick:.3g}") for tick in ticks if low <= tick * 1.0001 and tick * 0.9999 <= high]


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """A log domain from 1, 2 or 5 times a power of ten below the least positive value to one above the largest."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if not positive:
        return 1.0, 10.0
    low, high = _step(min(positive), math.floor), _step(max(positive), math.ceil)
    return (low, high) if low < high else (low / 2, high * 2)


def _step(value: float, way: Any) -> float:
    """The nearest 1, 2 or 5 times a power of ten at or below (floor) or at or above (ceil) a value."""
    decade = 10.0 ** math.floor(math.log10(value))
    steps = [decade * step for step in (1, 2, 5, 10)]
    if way is math.floor:
        return max(step for step in steps if step <= value * 1.000001)
    return min(step for step in steps if step >= value * 0.999999)


def log_y(rows: Sequence[Datum], unit: str, title: str, headroom: float = 1.0, above: Spec = ABOVE) -> alt.Y:
    """headroom: how many times the largest value the axis reaches at least; above: where the title stands."""
    seen = [v for d in rows for v in (d["y"], d["lo"], d["hi"]) if v is not None]
    domain = bounds([*seen, max(seen, default=1.0) * headroom])
    return alt.Y(
        "y:Q",
        title=title,
        scale=alt.Scale(type="log", domain=list(domain), nice=False, clamp=True),
        axis=alt.Axis(values=log_ticks(domain), labelExpr=label_of(unit), **above),
    )


def linear_y(rows: Sequence[Datum], unit: str, title: str, headroom: float = 1.0, above: Spec = ABOVE) -> alt.Y:
    """From zero: a line that is twice as high is twice as much."""
    top = max((d["hi"] or d["y"] or 0.0 for d in rows), default=1.0) * headroom
    ticks = {"values": binary_ticks(top)} if unit == "B" and top > 0 else {"tickCount": 6}
    return alt.Y("y:Q", title=title, scale=alt.Scale(domain=[0, top * 1.06 or 1.0], nice=unit != "B", clamp=True),
                 axis=alt.Axis(labelExpr=label_of(unit), **ticks, **above))  # fmt: skip


def binary_ticks(top: float) -> list[float]:
    """From zero by a power of two, four to eight steps: whole KiB and MiB."""
    step = 2.0 ** math.floor(math.log2(top / 4))
    return [step * place for place in range(int(top / step) + 1)]


def number_x(values: Iterable[float], title: str, in_bytes: bool, log: bool | None = None) -> alt.X:
    """Powers of two on a log axis where the values span more than eightfold, else a plain axis."""
    seen = sorted(set(values))
    positive = [value for value in seen if value > 0]
    wide = bool(positive) and len(positive) == len(seen) and positive[-1] / positive[0] > 8
    label = SIZE_LABEL if in_bytes else COUNT_LABEL
    if log is False or not wide:
        axis = alt.Axis(labelExpr=label, grid=False, tickMinStep=1, **({"values": seen} if len(seen) <= 9 else {}))
        return alt.X("x:Q", title=title, axis=axis, scale=alt.Scale(zero=False, nice=False, padding=12))
    axis = alt.Axis(labelExpr=label, values=powers_of_two(positive[0], positive[-1]), grid=False)
    return alt.X("x:Q", title=title, axis=axis, scale=alt.Scale(type="log", base=2, nice=False, domain=[seen[0], seen[-1]]))


def powers_of_two(low: float, high: float, most: int = 10) -> list[int]:
    """At most so many powers of two between two values, evenly spaced in octaves."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / most))
    return [2**exponent for exponent in range(first, last + 1, every)]


def series_colour(field: str, order: Sequence[str], title: str | None = None) -> Spec:
    """Colour, shape and dash of a series by the same field, so that no difference rests on colour alone. From the
    seventh series on colours come again, with another shape and dash."""
    longest = max((len(name) for name in order), default=0) * LEGEND_LETTER + LEGEND_GAP
    shown = alt.Legend(title=title, columns=max(1, LEGEND_WIDTH // longest)) if len(order) > 1 else None
    domain, turns = list(order), [place + place // 6 for place in range(len(order))]
    shapes = alt.Scale(domain=domain, range=[SHAPES[turn % 6] for turn in turns])
    dashes = alt.Scale(domain=domain, range=[DASHES[turn % 6] for turn in turns])
    return {
        "color": alt.Color(f"{field}:N", scale=alt.Scale(domain=domain), legend=shown),
        "shape": alt.Shape(f"{field}:N", scale=shapes, legend=shown),
        "dash": alt.StrokeDash(f"{field}:N", scale=dashes, legend=shown),
    }


def curve_layers(data: alt.NamedData, x: alt.X, y: alt.Y, by: Spec, tips: list[alt.Tooltip], dense: bool) -> list[alt.Chart]:
    """Interval, line, points, and unseen targets that make the points easy to hit with a finger."""
    base = alt.Chart(data)
    alone = alt.selection_point(fields=["series"], bind="legend", name="alone")
    low, high = alt.Y("lo:Q", title=y["title"]), alt.Y2("hi:Q", title=y["title"])
    around = base.mark_area(style="interval", clip=True) if dense else base.mark_rule(style="whisker")
    interval = around.encode(x, low, high, color=by["color"]).transform_filter(alone)
    dimmed = alt.when(alone).then(alt.value(1)).otherwise(alt.value(0.12))
    line = base.mark_line(style="curve", clip=True).encode(x, y, color=by["color"], strokeDash=by["dash"], opacity=dimmed)
    points = base.mark_point(style="dot").encode(x, y, color=by["color"], shape=by["shape"], opacity=dimmed)
    line = line.add_params(alone)
    target = base.mark_point(style="target").encode(x, y, tooltip=tips)
    return [interval, line, points, target]


class Named(str):
    """The name of a data set that carries its rows past Altair, which would copy and check every one of them."""

    __slots__ = ("rows",)
    rows: list[Datum]


def values(rows: Sequence[Datum]) -> alt.NamedData:
    name = Named(f"rows-{id(rows)}")
    name.rows = list(rows)
    return alt.NamedData(name=name)


def finished(chart: Any, height: int | None = 340) -> Spec:
    """A chart as Vega-Lite that fills its column; Altair's own look is left out."""
    spec: Spec = chart.to_dict(validate=False)
    spec.pop("config", None)
    spec["datasets"] = _datasets(spec, {})
    if "facet" not in spec:
        spec["width"] = "container"
        if height is not None:
            spec["height"] = height
    return spec


def _datasets(node: Any, found: dict[str, list[Datum]]) -> dict[str, list[Datum]]:
    """Gives each data set its place's number for a name, so that the same rows make the same specification."""
    if isinstance(node, list):
        for item in node:
            _datasets(item, found)
    if not isinstance(node, dict):
        return found
    name = node.get("name")
    if isinstance(name, Named):
        known = next((key for key, rows in found.items() if rows is name.rows), f"rows-{len(found)}")
        found[known] = name.rows
        node["name"] = known
    for item in node.values():
        _datasets(item, found)
    return found
