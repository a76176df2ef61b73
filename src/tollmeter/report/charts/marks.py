# SPDX-License-Identifier: Apache-2.0
"""Axes and marks that all charts are put together from, so that one unit always looks the same."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import altair as alt

from tollmeter.judgement.verdict import has_interval
from tollmeter.model import Row
from tollmeter.report import numbers
from tollmeter.report.chart_style import DASHES, SERIES, SHAPES, by_value, places
from tollmeter.report.charts.chart import Datum, Spec


def _scaled(unit: str, *steps: tuple[str, str]) -> str:
    """An expression of Vega: a number over the first step that it reaches, with the name of that step."""
    parts = (f"datum.value >= {step} ? format(datum.value / {step}, '.4~g') + ' {name}' : " for step, name in steps)
    return "".join(parts) + f"format(datum.value, '.4~g') + ' {unit}'"


SIZE_LABEL = _scaled("B", ("1073741824", "GiB"), ("1048576", "MiB"), ("1024", "KiB"))
COUNT_LABEL = "abs(datum.value) >= 1000 ? format(datum.value, ',.0f') : format(datum.value, '.4~g')"
DECIMAL = (("1e+12", "T"), ("1e+09", "G"), ("1e+06", "M"), ("1000", "k"))
LABELS = {
    "ns": _scaled("ns", ("1e9", "s"), ("1e6", "ms"), ("1e3", "µs")),
    "B": SIZE_LABEL,
    **{unit: _scaled(name, *((step, f"{prefix}{name}") for step, prefix in DECIMAL))
       for unit, name in (("B/s", "B/s"), ("bit/s", "bit/s"), ("flop/s", "FLOPS"), ("op/s", "/s"))},
}  # fmt: skip
REACH = 3.0
RUN_SHAPES = (*SHAPES, "triangle-right", "triangle-left")
"""Of series that two runs share: their colours are the runs'."""
STROKE_SIZE, HOLLOW_WIDTH = 400, 1.4
LEGEND_WIDTH, LEGEND_LETTER, LEGEND_GAP = 720, 6, 42
ABOVE: Spec = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleY": -14, "titleX": -4}
NARROW = 560
"""Pixels of a chart's inside, below which words take a line of their own."""


def by_width(narrow: object, wide: object) -> alt.ExprRef:
    """An expression of Vega, since only the page knows how wide a chart is."""
    return alt.ExprRef(f"width < {NARROW} ? {narrow} : {wide}")


LABEL_LETTERS = 28
"""Of one line of words beside an axis: as many as half the width of a phone takes."""
LABEL_LINE = 12
BESIDE_WORDS: Spec = {"titleAnchor": "end"}
"""Where words take the left half of a chart, the title below it needs both."""


def words_axis(**more: Any) -> Spec:
    """Beside lines that are named in words: a long name takes two lines, and none is cut or left out."""
    label = wrapped("datum.label")
    return guide(labelExpr=label, labelLineHeight=LABEL_LINE, labelOverlap=False, ticks=False, domain=False, **more)


def wrapped(words: str) -> str:
    """An expression of Vega: the lines of what another expression is."""
    return f"split(trim(replace({words}, regexp('(.{{1,{LABEL_LETTERS}}})( |$)', 'g'), '$1\\n')), '\\n')"


def label_height(words: str) -> int:
    """Pixels that the wrapped label takes, with a gap to the next."""
    return LABEL_LINE * (len(textwrap.wrap(words, LABEL_LETTERS)) + 1)


def label_of(unit: str) -> str:
    return LABELS.get(unit, COUNT_LABEL)


def datum(row: Row, **more: object) -> Datum:
    """One row as a mark needs it: y with its interval, if it has one, and the text of the hover."""
    low, high = map(_short, _ends(row))
    given = {name: value for name, value in more.items() if value != ""}
    return {"y": _short(row.median), "lo": low, "hi": high, "abi": row.abi, "firm": is_firm(row), **sure(row), **given}


def _short(value: float | None) -> float | None:
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def _ends(row: Row) -> tuple[float | None, float | None]:
    """Too few visits make no interval."""
    if not has_interval(row):
        return row.median, row.median
    return row.median if row.low is None else row.low, row.median if row.high is None else row.high


def is_firm(row: Row) -> bool:
    """Whether a line may be drawn through it: it has one state, an interval, and that is no wider than it is read."""
    half = numbers.wider_side(row.median or 0.0, row.low, row.high)
    return has_interval(row) and row.state not in ("first", "second") and (half or 0.0) <= numbers.WIDE


def sure(row: Row) -> Datum:
    """Value, interval and samples in words, as the hover gives them."""
    low, high = (numbers.quantity(end, row.unit) for end in _ends(row))
    aside = f", {row.set_aside} discarded" if row.set_aside else ""
    return {
        "value": str(numbers.of_row(row)),
        "interval": f"{low} to {high}" if has_interval(row) else "none, of too few visits",
        "samples": f"{row.samples} in {row.visits} visit{'' if row.visits == 1 else 's'}{aside}",
    }


def tips(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    """Lines of the hover: fields that hold text, with their titles."""
    return [alt.Tooltip(field=field, type="nominal", title=title) for field, title in fields]


def hover(*first: tuple[str, str]) -> list[alt.Tooltip]:
    """The fields that lead, then value, interval and samples: the same on every chart."""
    return tips(*first, ("value", "value"), ("interval", "95 % interval"), ("samples", "samples"))


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
    low = max(step for step in _steps(min(positive)) if step <= min(positive) * 1.000001)
    high = min(step for step in _steps(max(positive)) if step >= max(positive) * 0.999999)
    return (low, high) if low < high else (low / 2, high * 2)


def _steps(value: float) -> list[float]:
    decade = 10.0 ** math.floor(math.log10(value))
    return [decade * step for step in (1, 2, 5, 10)]


def within_reach(rows: Sequence[Datum]) -> list[float]:
    """Medians, and ends of intervals as far as they are within REACH times the least and the largest median: one
    disturbed point must not press all others flat. What lies beyond is cut off at the edge."""
    medians = [float(d["y"]) for d in rows if d["y"] is not None]
    if not medians:
        return []
    low, high = min(medians), max(medians)
    ends = [float(end) for d in rows for end in (d["lo"], d["hi"]) if end is not None]
    return [*medians, *(max(low / REACH, min(high * REACH, end)) for end in ends)]


def log_y(rows: Sequence[Datum], unit: str, title: str, headroom: float = 1.0, above: Spec = ABOVE) -> alt.Y:
    """headroom: how many times the largest value the axis reaches at least; above: the place of the title."""
    seen = within_reach(rows)
    domain = bounds([*seen, max(seen, default=1.0) * headroom])
    return alt.Y(
        "y:Q",
        title=title,
        scale=guide(type="log", domain=list(domain), nice=False, clamp=True),
        axis=guide(values=log_ticks(domain), labelExpr=label_of(unit), **above),
    )


def linear_y(rows: Sequence[Datum], unit: str, title: str, headroom: float = 1.0, above: Spec = ABOVE) -> alt.Y:
    """From zero: a line that is twice as high is twice as much. Ticks of bytes are four to eight steps of a power of
    two: whole KiB and MiB."""
    top = max(within_reach(rows), default=1.0) * headroom
    ticks: Spec = {"tickCount": 6}
    if unit == "B" and top > 0:
        step = 2.0 ** math.floor(math.log2(top / 4))
        ticks = {"values": [step * place for place in range(int(top / step) + 1)]}
    scale = guide(domain=[0, top * 1.06 or 1.0], nice=unit != "B", clamp=True)
    return alt.Y("y:Q", title=title, scale=scale, axis=guide(labelExpr=label_of(unit), **ticks, **above))


def number_x(values: Iterable[float], title: str, in_bytes: bool) -> alt.X:
    """Powers of two on a log axis where the values span more than eightfold, else a plain axis."""
    seen = sorted(set(values))
    positive = [value for value in seen if value > 0]
    wide = bool(positive) and len(positive) == len(seen) and positive[-1] / positive[0] > 8
    label = SIZE_LABEL if in_bytes else COUNT_LABEL
    if not wide:
        ticks: Spec = {"values": seen} if len(seen) <= 9 else {}
        axis = guide(labelExpr=label, grid=False, tickMinStep=1, **ticks)
        return alt.X("x:Q", title=title, axis=axis, scale=guide(zero=False, nice=False, padding=12))
    axis = guide(labelExpr=label, values=powers_of_two(positive[0], positive[-1]), grid=False)
    scale = guide(type="log", base=2, nice=False, domain=[seen[0], seen[-1]])
    return alt.X("x:Q", title=title, axis=axis, scale=scale)


def powers_of_two(low: float, high: float, most: int = 10) -> list[int]:
    """At most so many powers of two between two values, evenly spaced in octaves."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / most))
    return [2**exponent for exponent in range(first, last + 1, every)]


def series_colour(field: str, order: Sequence[str], title: str | None = None, **legend: Any) -> Spec:
    """Colour, shape and dash of a series by the same field, so that no difference rests on colour alone.

    A thing keeps its colour, whatever is drawn beside it. From the seventh series on colours repeat, with another shape
    and dash. legend: how it is drawn."""
    shown, domain, colour_of = _legend(order, title, **legend), list(order), places(order)
    turns = [place + place // 6 for place in colour_of]
    colours = guide(domain=domain, range=[by_value(SERIES[place % 6]) for place in colour_of])
    shapes = guide(domain=domain, range=[SHAPES[turn % 6] for turn in turns])
    dashes = guide(domain=domain, range=[DASHES[turn % 6] for turn in turns])
    return {
        "color": alt.Color(f"{field}:N", scale=colours, legend=shown),
        "shape": alt.Shape(f"{field}:N", scale=shapes, legend=shown),
        "dash": alt.StrokeDash(f"{field}:N", scale=dashes, legend=shown),
        "alone": [field],
    }


def run_colour(runs: Sequence[str], **legend: Any) -> Spec:
    """Two runs by colour, dash, and filled or hollow marks: one that covers the other is visible."""
    by = series_colour("run", runs, **legend)
    filled = [by_value(SERIES[places(runs)[0]]), *["transparent"] * (len(runs) - 1)]
    scale = guide(domain=list(runs), range=filled)
    return {**by, "fill": alt.Fill("run:N", scale=scale, legend=by["color"]["legend"])}


def run_and_series(runs: Sequence[str], series: Sequence[str], title: str | None) -> Spec:
    """Two runs, and the series of each by shape."""
    by = run_colour(runs, symbolType="stroke", symbolSize=STROKE_SIZE)
    shapes = guide(domain=list(series), range=[RUN_SHAPES[place % len(RUN_SHAPES)] for place in range(len(series))])
    shape = alt.Shape("series:N", scale=shapes, legend=_legend(series, title))
    return {**by, "shape": shape, "alone": ["run", "series"] if len(series) > 1 else ["run"]}


def _legend(names: Sequence[str], title: str | None, **more: Any) -> Spec | None:
    longest = max((len(name) for name in names), default=0) * LEGEND_LETTER + LEGEND_GAP
    return guide(title=title, columns=max(1, LEGEND_WIDTH // longest), **more) if len(names) > 1 else None


def of_runs(data: Iterable[Sequence[Datum]], runs: Iterable[str]) -> tuple[Datum, ...]:
    """The data of several runs together, each datum with the label of its run."""
    return tuple({**datum, "run": run} for of_run, run in zip(data, runs, strict=True) for datum in of_run)


def ordered(data: Sequence[Datum], key: str) -> tuple[str, ...]:
    """Names in the order of their first datum."""
    return tuple(dict.fromkeys(str(d.get(key, "")) for d in data))


def curve_layers(
    data: alt.NamedData,
    x: alt.X,
    y: alt.Y,
    tips: Sequence[alt.Tooltip],
    by: Spec,
    *,
    dense: bool,
    joined_by: str = "",
) -> list[alt.Chart]:
    """Interval, line, points, and unseen targets that make the points easy to hit with a finger. dense: points are so
    close that intervals make one band.

    A series that is chosen in the legend is highlighted, the others fade. Where points are dense the line leaves out
    those that are not known to be one number: it would pass through values that were not measured."""
    base = alt.Chart(data).encode(detail="series:N")
    params = [alt.selection_point(fields=[field], bind="legend", name=f"alone_{field}") for field in by["alone"]]
    alone = params[0] if len(params) == 1 else params[0] & params[1]
    faded = with_value(alt.OpacityValue, **alt.when(alone).then(alt.value(1)).otherwise(alt.value(0.12)))
    around = base.mark_area(style="interval", clip=True) if dense else base.mark_rule(style="whisker", clip=True)
    ends = alt.Y("lo:Q", title=y["title"]), alt.Y2("hi:Q", title=y["title"])
    line = (base.transform_filter("datum.firm") if dense else base).mark_line(style="curve", clip=True)
    line = line.encode(order=alt.Order(f"{joined_by}:Q")) if joined_by else line
    points = point(base, "dot", by).encode(x, y, color=by["color"], shape=by["shape"], opacity=faded)
    # The layer that a legend chooses from has what that legend explains (colour and dash here, shape there), and comes
    # first: Vega-Lite takes a legend's manners from the first it meets.
    return [
        line.encode(x, y, color=by["color"], strokeDash=by["dash"], opacity=faded).add_params(params[0]),
        around.encode(x, *ends, color=by["color"]).transform_filter(alone),
        points.add_params(*params[1:]),
        base.mark_point(style="target").encode(x, y, tooltip=list(tips)),
    ]


def guide(**given: Any) -> Spec:
    """Returns an axis, a scale or a legend, in Altair's order: its own objects have some hundred fields that are not
    set, and it copies them all with each layer, a quarter of the time of a page."""
    return dict(sorted(given.items()))


def with_value(channel: Callable[..., Any], *value: object, **condition: object) -> Any:
    """Returns a channel with a value. Altair compares a value without a channel with the schemas of all of its classes,
    a fifth of the time of a page."""
    return channel(*value, **condition)


def point(base: alt.Chart, style: str, by: Spec, **more: Any) -> alt.Chart:
    """A filled point; of two runs the second's is hollow."""
    if "fill" in by:
        base, more = base.encode(fill=by["fill"]), {**more, "filled": False, "strokeWidth": HOLLOW_WIDTH}
    drawn: alt.Chart = base.mark_point(style=style, **more)
    return drawn


def small(layers: Sequence[alt.Chart], height: int = 220, width: int = 300) -> Any:
    """The layers of one panel. Altair takes the data of a facet from the layered chart alone."""
    bare = [layer.properties(data=alt.Undefined) for layer in layers]
    return alt.layer(*bare, data=layers[0].data).properties(height=height, width=width)


def panelled(panel: Any, panels: Sequence[str]) -> Spec:
    """Small multiples on shared axes. usermeta.panels says how many, so that a page can choose its columns."""
    facet = alt.Facet("panel:N", title=None, sort=list(panels))
    faceted = panel.facet(facet=facet, columns=2).properties(bounds="flush", spacing={"row": 44, "column": 22})
    return {**finished(faceted), "usermeta": {"panels": len(panels)}}


class Named(str):
    """The name of a data set that carries its rows past Altair, which would copy and check every one of them."""

    __slots__ = ("rows",)
    rows: list[Datum]


def values(rows: Sequence[Datum]) -> alt.NamedData:
    name = Named(f"rows-{id(rows)}")
    name.rows = list(rows)
    return alt.NamedData(name=name)


_OF_EVERY_OBJECT = ("constructor", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf", "__proto__")
_NOT_IN_EXPRESSIONS = str.maketrans({"\\": "\N{SET MINUS}", **dict.fromkeys("\n\r\u2028\u2029", " ")})


def finished(chart: Any, height: int | None = 340) -> Spec:
    """A chart as Vega-Lite that fills its column; Altair's own look is left out.

    Data sets and views are named by their place in the specification, so that the same rows make the same one: Altair
    numbers the views of a process. A title may be any word of a journal. Vega-Lite looks it up in an object that
    inherits `constructor`, and puts it into an expression with its backslashes and ends of lines as they are: charts
    with these titles were not drawn."""
    spec: Spec = chart.to_dict(validate=False)
    spec.pop("config", None)
    datasets: dict[str, list[Datum]] = {}
    views: dict[str, str] = {}
    for node in _objects(spec):
        title, name = node.get("title"), node.get("name")
        if isinstance(title, str):
            node["title"] = f"{title} " if title in _OF_EVERY_OBJECT else title.translate(_NOT_IN_EXPRESSIONS)
        if isinstance(name, Named):
            known = (key for key, rows in datasets.items() if rows is name.rows)
            node["name"] = next(known, f"rows-{len(datasets)}")
            datasets[node["name"]] = name.rows
        elif str(name).startswith("view_"):
            node["name"] = views.setdefault(str(name), f"view_{len(views)}")
        if "views" in node:
            node["views"] = [views.setdefault(view, f"view_{len(views)}") for view in node["views"]]
    spec["datasets"] = datasets
    if "facet" not in spec:
        spec["width"] = "container"
        if height is not None:
            spec["height"] = height
    return spec


def _objects(node: Any) -> Iterator[Spec]:
    """All objects of a specification, each before those inside it."""
    if isinstance(node, dict):
        yield node
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _objects(item)
