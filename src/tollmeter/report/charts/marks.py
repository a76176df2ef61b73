# SPDX-License-Identifier: Apache-2.0
"""Axes and marks of all charts, so that a unit looks the same in each of them. A chart is a Vega-Lite specification as
plain dicts; a test validates whole specifications against its published schema."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from tollmeter.judgement.verdict import has_interval
from tollmeter.model import Row
from tollmeter.report import numbers
from tollmeter.report.chart_style import DASHES, SERIES, SHAPES, by_value, places
from tollmeter.report.charts.chart import Datum, Spec
from tollmeter.report.numbers import count


def _scaled(unit: str, *steps: tuple[str, str]) -> str:
    """Returns a Vega expression for a number divided by the first step that it reaches, with the name of that step."""
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
"""Shapes of series in a chart of two runs, whose colours distinguish the runs."""
STROKE_SIZE, HOLLOW_WIDTH = 400, 1.4
LEGEND_WIDTH, LEGEND_LETTER, LEGEND_GAP = 720, 6, 42
ABOVE: Spec = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleY": -14, "titleX": -4}
_NARROW = 560
"""Width of a chart's inside in pixels below which words are on a line of their own."""


def by_width(narrow: object, wide: object) -> Spec:
    """Returns a Vega expression that chooses by the width of the chart, which only the page knows."""
    return {"expr": f"width < {_NARROW} ? {narrow} : {wide}"}


LABEL_LETTERS = 28
"""Letters in a line of words beside an axis: as many as half the width of a phone takes."""
LABEL_LINE = 12
BESIDE_WORDS: Spec = {"titleAnchor": "end"}
"""Position of an axis title if words take the left half of a chart: the title below needs both halves."""


def words_axis(**more: Any) -> Spec:
    """Returns the axis of lines that are named in words: a long name takes two lines, and none is cut or left out."""
    return {"labelExpr": wrapped_expression("datum.label"), "labelLineHeight": LABEL_LINE, "labelOverlap": False,
            "ticks": False, "domain": False, **more}  # fmt: skip


def wrapped_expression(words: str) -> str:
    """Returns a Vega expression for the wrapped lines of another expression."""
    return f"split(trim(replace({words}, regexp('(.{{1,{LABEL_LETTERS}}})( |$)', 'g'), '$1\\n')), '\\n')"


def label_height(words: str) -> int:
    """Returns the height in pixels of a wrapped label, with a gap to the next."""
    return LABEL_LINE * (len(textwrap.wrap(words, LABEL_LETTERS)) + 1)


def label_of(unit: str) -> str:
    return LABELS.get(unit, COUNT_LABEL)


def datum(row: Row, **more: object) -> Datum:
    """Returns one row as the data of a mark: y with its interval, if it has one, and the text of the tooltip."""
    low, high = map(_short, _ends(row))
    given = {name: value for name, value in more.items() if value != ""}
    return {"y": _short(row.median), "lo": low, "hi": high, "abi": row.abi, "firm": is_firm(row), **sure(row), **given}


def _short(value: float | None) -> float | None:
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def _ends(row: Row) -> tuple[float | None, float | None]:
    """Returns the ends of a row's interval; twice the median for too few visits."""
    if not has_interval(row):
        return row.median, row.median
    return row.median if row.low is None else row.low, row.median if row.high is None else row.high


def is_firm(row: Row) -> bool:
    """Returns whether a line may be drawn through a row: it has one state, and an interval that is narrow enough to
    read."""
    half = numbers.wider_side(row.median or 0.0, row.low, row.high)
    return has_interval(row) and row.state not in ("first", "second") and (half or 0.0) <= numbers.WIDE


def sure(row: Row) -> Datum:
    """Returns value, interval and number of samples as text, for the tooltip."""
    low, high = (numbers.quantity(end, row.unit) for end in _ends(row))
    aside = f", {row.discarded} discarded" if row.discarded else ""
    return {
        "value": str(numbers.of_row(row)),
        "interval": f"{low} to {high}" if has_interval(row) else "none, of too few visits",
        "samples": f"{row.samples} in {count(row.visits, 'visit')}{aside}",
    }


def tips(*fields: tuple[str, str]) -> list[Spec]:
    """Returns lines of the tooltip: fields that contain text, with their titles."""
    return [nominal(field, title=title) for field, title in fields]


def hover(*first: tuple[str, str]) -> list[Spec]:
    """Returns the tooltip's fields: leading fields, then value, interval and samples, in one order on every chart."""
    return tips(*first, ("value", "value"), ("interval", "95 % interval"), ("samples", "samples"))


def log_ticks(values: Iterable[float]) -> list[float]:
    """Returns the powers of ten in the range of the values, all above zero; also 2 and 5 times these if the range is
    less than three decades."""
    low, high = log_domain(values)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first < 3 else (1,)
    every = 1 if last - first <= 7 else 2
    ticks = [step * 10.0**decade for decade in range(first, last + 1, every) for step in steps]
    return [float(f"{tick:.3g}") for tick in ticks if low <= tick * 1.0001 and tick * 0.9999 <= high]


def log_domain(values: Iterable[float]) -> tuple[float, float]:
    """Returns a log domain: from 1, 2 or 5 times a power of ten below the lowest positive value to one above the
    highest."""
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
    """Returns the medians, and those ends of intervals that are within REACH times the lowest and the highest median:
    one disturbed point must not flatten all others. Values outside are cut off at the edge."""
    medians = [float(d["y"]) for d in rows if d["y"] is not None]
    if not medians:
        return []
    low, high = min(medians), max(medians)
    ends = [float(end) for d in rows for end in (d["lo"], d["hi"]) if end is not None]
    return [*medians, *(max(low / REACH, min(high * REACH, end)) for end in ends)]


def log_y(rows: Sequence[Datum], unit: str, title: str, headroom: float = 1.0, above: Spec = ABOVE) -> Spec:
    """Returns a logarithmic axis. headroom: ratio of the axis end to the largest value, at least; above: position of
    the title."""
    seen = within_reach(rows)
    domain = log_domain([*seen, max(seen, default=1.0) * headroom])
    axis = {"values": log_ticks(domain), "labelExpr": label_of(unit), **above}
    scale = {"type": "log", "domain": list(domain), "nice": False, "clamp": True}
    return quantitative("y", title=title, scale=scale, axis=axis)


def linear_y(rows: Sequence[Datum], unit: str, title: str, headroom: float = 1.0, above: Spec = ABOVE) -> Spec:
    """Returns a linear axis from zero, so that twice the height is twice the value. Ticks of bytes are four to eight
    steps of a power of two: whole KiB and MiB."""
    top = max(within_reach(rows), default=1.0) * headroom
    ticks: Spec = {"tickCount": 6}
    if unit == "B" and top > 0:
        step = 2.0 ** math.floor(math.log2(top / 4))
        ticks = {"values": [step * place for place in range(int(top / step) + 1)]}
    scale = {"domain": [0, top * 1.06 or 1.0], "nice": unit != "B", "clamp": True}
    return quantitative("y", title=title, scale=scale, axis={"labelExpr": label_of(unit), **ticks, **above})


def number_x(values: Iterable[float], title: str, in_bytes: bool) -> Spec:
    """Returns a log axis with powers of two if the values span more than eightfold, else a linear axis."""
    seen = sorted(set(values))
    positive = [value for value in seen if value > 0]
    wide = bool(positive) and len(positive) == len(seen) and positive[-1] / positive[0] > 8
    label = SIZE_LABEL if in_bytes else COUNT_LABEL
    if not wide:
        ticks: Spec = {"values": seen} if len(seen) <= 9 else {}
        axis = {"labelExpr": label, "grid": False, "tickMinStep": 1, **ticks}
        return quantitative("x", title=title, axis=axis, scale={"zero": False, "nice": False, "padding": 12})
    axis = {"labelExpr": label, "values": powers_of_two(positive[0], positive[-1]), "grid": False}
    scale = {"type": "log", "base": 2, "nice": False, "domain": [seen[0], seen[-1]]}
    return quantitative("x", title=title, axis=axis, scale=scale)


def powers_of_two(low: float, high: float, most: int = 10) -> list[int]:
    """Returns at most `most` powers of two between two values, evenly spaced in octaves."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / most))
    return [2**exponent for exponent in range(first, last + 1, every)]


def series_colour(field: str, order: Sequence[str], title: str | None = None, **legend: Any) -> Spec:
    """Returns colour, shape and dash of a series by one field, so that no distinction depends on colour alone.

    A name keeps its colour in all charts. From the seventh series on, colours repeat with another shape and dash.
    legend: how it is drawn. alone: the fields by which a legend selects."""
    shown, colour_of = _legend(order, title, **legend), places(order)
    turns = [(place + place // 6) % 6 for place in colour_of]
    ranges: dict[str, list[Any]] = {
        "color": [by_value(SERIES[place % 6]) for place in colour_of],
        "shape": [SHAPES[turn] for turn in turns],
        "strokeDash": [DASHES[turn] for turn in turns],
    }
    return {**{name: _scaled_by(field, order, range_, shown) for name, range_ in ranges.items()}, "alone": [field]}


def _scaled_by(field: str, domain: Sequence[str], range_: Sequence[object], legend: Spec | None) -> Spec:
    return nominal(field, scale={"domain": list(domain), "range": list(range_)}, legend=legend)


def run_colour(runs: Sequence[str], **legend: Any) -> Spec:
    """Returns the encoding of two runs by colour, dash, and filled or hollow marks, so that overlapping marks are
    visible."""
    by = series_colour("run", runs, **legend)
    filled = [by_value(SERIES[places(runs)[0]]), *["transparent"] * (len(runs) - 1)]
    return {**by, "fill": _scaled_by("run", runs, filled, by["color"]["legend"])}


def run_and_series(runs: Sequence[str], series: Sequence[str], title: str | None) -> Spec:
    """Returns the encoding of two runs, and of the series of each by shape."""
    by = run_colour(runs, symbolType="stroke", symbolSize=STROKE_SIZE)
    shapes = [RUN_SHAPES[place % len(RUN_SHAPES)] for place in range(len(series))]
    shape = _scaled_by("series", series, shapes, _legend(series, title))
    return {**by, "shape": shape, "alone": ["run", "series"] if len(series) > 1 else ["run"]}


def _legend(names: Sequence[str], title: str | None, **more: Any) -> Spec | None:
    longest = max((len(name) for name in names), default=0) * LEGEND_LETTER + LEGEND_GAP
    return {"title": title, "columns": max(1, LEGEND_WIDTH // longest), **more} if len(names) > 1 else None


def of_runs(data: Iterable[Sequence[Datum]], runs: Iterable[str]) -> tuple[Datum, ...]:
    """Returns the data of several runs together, each datum with the label of its run."""
    return tuple({**datum, "run": run} for of_run, run in zip(data, runs, strict=True) for datum in of_run)


def ordered(data: Sequence[Datum], key: str) -> tuple[str, ...]:
    """Returns names in the order of their first datum."""
    return tuple(dict.fromkeys(str(d.get(key, "")) for d in data))


def curve_layers(x: Spec, y: Spec, tips: Sequence[Spec], by: Spec, *, dense: bool, joined_by: str = "") -> list[Spec]:
    """Returns layers of interval, line, points, and invisible targets that make the points easy to touch. dense: points
    are so close that their intervals form one band.

    A series selected in the legend is highlighted, and the others fade. A line of dense points ends at a point with two
    modes or a wide interval, and begins again after it: across such points it would pass through values that were not
    measured."""
    params = [{"name": f"alone_{field}", "select": {"type": "point", "fields": [field]}, "bind": "legend"}
              for field in by["alone"]]  # fmt: skip
    alone = [{"param": param["name"]} for param in params]
    chosen: Spec = alone[0] if len(alone) == 1 else {"and": alone}
    faded = {"condition": {**(chosen if len(alone) == 1 else {"test": chosen}), "value": 1}, "value": 0.12}
    of_series: Spec = {"x": x, "detail": nominal("series")}
    around = {**of_series, "color": by["color"], "y": quantitative("lo", title=y["title"]),
              "y2": {"field": "hi", "title": y["title"]}}  # fmt: skip
    along = {"order": quantitative(joined_by)} if joined_by else {}
    line = {**of_series, "y": y, "color": by["color"], "strokeDash": by["strokeDash"], "opacity": faded, **along}
    dots = {**of_series, "y": y, "color": by["color"], "shape": by["shape"], "opacity": faded}
    field = y["field"]
    firm = [{"calculate": f"datum.firm ? datum.{field} : null", "as": field}] if dense else []
    kind, style = ("area", "interval") if dense else ("rule", "whisker")
    # The layer that a legend chooses from has what that legend explains (colour and dash here, shape there), and comes
    # first: Vega-Lite takes a legend's manners from the first it meets.
    return [
        layer("line", line, transform=firm, params=params[:1], style="curve", clip=True),
        layer(kind, around, transform=[{"filter": chosen}], style=style, clip=True),
        point("dot", dots, by, params=params[1:]),
        layer("point", {**of_series, "y": y, "tooltip": tips}, style="target"),
    ]


# ---- Vega-Lite ------------------------------------------------------------------------------------------------------


def quantitative(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "nominal", **more}


def layer(
    kind: str,
    encoding: Spec,
    *,
    data: Spec | None = None,
    transform: Sequence[Spec] = (),
    params: Sequence[Spec] = (),
    **look: Any,
) -> Spec:
    """Returns marks of one kind: Vega-Lite's unit specification. data: if it is not that of the whole chart."""
    own = {"data": data, "transform": transform, "params": params}
    given = {name: value for name, value in own.items() if value}
    return {**given, "mark": {"type": kind, **look}, "encoding": encoding}


def point(style: str, encoding: Spec, by: Spec, **more: Any) -> Spec:
    """Returns the mark of a point: filled, and hollow for the second run."""
    if "fill" in by:
        encoding, more = {**encoding, "fill": by["fill"]}, {**more, "filled": False, "strokeWidth": HOLLOW_WIDTH}
    return layer("point", encoding, style=style, **more)


def layered(rows: Sequence[Datum], layers: Sequence[Spec], height: int = 340) -> Spec:
    return finished({"data": inline_values(rows), "layer": layers}, height)


def panelled(rows: Sequence[Datum], layers: Sequence[Spec], panels: Sequence[str], **panel: Any) -> Spec:
    """Returns small multiples on shared axes. panel: size of each. usermeta.panels is their number, by which a page
    chooses its columns."""
    faceted = {
        "data": inline_values(rows),
        "facet": nominal("panel", title=None, sort=panels),
        "columns": 2,
        "spec": {"height": 220, "width": 300, **panel, "layer": layers},
        "bounds": "flush",
        "spacing": {"row": 44, "column": 22},
    }
    return {**finished(faceted), "usermeta": {"panels": len(panels)}}


def inline_values(rows: Sequence[Datum]) -> Spec:
    return {"values": list(rows)}


SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_OF_EVERY_OBJECT = ("constructor", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf", "__proto__")
_NOT_IN_EXPRESSIONS = str.maketrans({"\\": "\N{SET MINUS}", **dict.fromkeys("\n\r\u2028\u2029", " ")})


def finished(view: Spec, height: int = 340) -> Spec:
    """Returns a view, layers or panels as a complete specification with the width of its column. Data sets are named by
    their index in it, and each is included once."""
    datasets: dict[str, list[Datum]] = {}
    spec = {"$schema": SCHEMA, **_named(view, datasets), "datasets": datasets}
    if "facet" not in spec:
        spec |= {"width": "container", "height": height}
    return spec


def _named(node: Any, datasets: dict[str, list[Datum]]) -> Any:
    """Returns a copy that refers to its data sets by name."""
    if isinstance(node, list | tuple):
        return [_named(item, datasets) for item in node]
    if not isinstance(node, dict):
        return node
    copied: Spec = {}
    for key, item in node.items():
        if key == "data":
            copied[key] = {"name": _name_of(item["values"], datasets)}
        else:
            copied[key] = _harmless(item) if key == "title" and isinstance(item, str) else _named(item, datasets)
    return copied


def _name_of(rows: list[Datum], datasets: dict[str, list[Datum]]) -> str:
    name = next((name for name, known in datasets.items() if known is rows), f"rows-{len(datasets)}")
    datasets[name] = rows
    return name


def _harmless(title: str) -> str:
    """Returns a title that Vega-Lite can draw. A title may be any word of a journal. Vega-Lite looks it up in an object
    that inherits `constructor`, and inserts it into an expression with unescaped backslashes and line ends, so that
    charts with these titles fail."""
    return f"{title} " if title in _OF_EVERY_OBJECT else title.translate(_NOT_IN_EXPRESSIONS)
