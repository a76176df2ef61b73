# SPDX-License-Identifier: Apache-2.0
"""What N workers do together as a multiple of what one does, over N: a line an operation, a panel for threads and one
for processes, and the line of perfect scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollmeter.inference.answers import ratio
from tollmeter.judgement.verdict import has_interval
from tollmeter.model import Row
from tollmeter.numbers.meanings import whole_number
from tollmeter.numbers.stats import Estimate
from tollmeter.numbers.units import in_words
from tollmeter.report.chart_style import DASHES, SERIES, SHAPES, by_value, places
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, Subject
from tollmeter.report.numbers import of_row, quantity

SPEED_UP = Subject("scaling", "Throughput over workers", "What do N threads, or processes, do of what one does?",
                   ("throughput-of-workers",))  # fmt: skip
PANELS = {"threads": "threads of one process", "processes": "processes"}
LEGEND_COLUMNS = 5
HEIGHT = 320
HEADROOM = 1.2
"""Above perfect scaling, which nothing exceeds but by noise."""


def speed_up(bench: Bench) -> Iterator[Chart]:
    """Nothing where one worker alone was timed. Ratios of rows without an interval are left out."""
    rows = [row for row in bench.own(bench.meaning(*SPEED_UP.means)) if has_interval(row)]
    alone = {_line(row): row for row in rows if whole_number(row, "workers") == 1}
    data = [_point(row, alone[_line(row)]) for row in rows if _line(row) in alone]
    if max((datum["x"] for datum in data), default=1) > 1:
        yield SPEED_UP.chart(_spec(data), rows, _caption(data))


def _line(row: Row) -> tuple[object, object]:
    return row.parameters.get("of"), row.parameters.get("share")


def _point(row: Row, alone: Row) -> Datum:
    workers, share = whole_number(row, "workers"), str(row.parameters.get("share"))
    times = Estimate(value=1.0, low=1.0, high=1.0) if row is alone else ratio(row, alone)
    return {
        "x": workers, "y": times.value, "lo": times.low, "hi": times.high,
        "series": in_words(row.parameters.get("of")), "panel": PANELS.get(share, share), "at": f"{workers}",
        "value": str(quantity(times.value, "ratio", times.low, times.high)), "rate": str(of_row(row)),
    }  # fmt: skip


def _caption(data: Sequence[Datum]) -> str:
    """The ends of the threads' lines."""
    most = max(datum["x"] for datum in data)
    ends = [datum for datum in data if datum["x"] == most and datum["panel"] == PANELS["threads"]]
    if not ends:
        return ""
    least, best = (end(ends, key=lambda datum: float(datum["y"])) for end in (min, max))
    said = " and ".join(f"{datum['series']} {datum['value']}" for datum in (least, best))
    return f"{most} threads do of what one does: {said}; dotted is perfect scaling."


def _spec(data: Sequence[Datum]) -> Spec:
    several = sorted({datum["x"] for datum in data})
    x = {
        "field": "x", "type": "quantitative", "title": "workers, each on a CPU of its own",
        "axis": {"values": several, "grid": False, "format": "d"},
        "scale": {"zero": False, "nice": False, "padding": 12},
    }  # fmt: skip
    y = {
        "field": "y", "type": "quantitative", "title": "throughput, as a multiple of one worker's",
        "axis": {"tickCount": 6}, "scale": {"domain": [0, HEADROOM * several[-1]], "nice": False},
    }  # fmt: skip
    names = tuple(dict.fromkeys(datum["series"] for datum in data))
    by = _series(names)
    tips = [
        {"field": field, "type": "nominal", "title": title}
        for field, title in (
            ("series", "operation"), ("at", "workers"), ("value", "of one"), ("rate", "operations a second"),
        )
    ]  # fmt: skip
    alone = {"param": "alone_series"}
    faded = {"condition": {**alone, "value": 1}, "value": 0.12}
    ends = {"y": {**y, "field": "lo"}, "y2": {"field": "hi"}}
    layers = [
        {
            "mark": {"type": "line", "style": "curve", "clip": True},
            "encoding": {"x": x, "y": y, "color": by["color"], "strokeDash": by["dash"], "opacity": faded},
            "params": [{"name": "alone_series", "select": {"type": "point", "fields": ["series"]}, "bind": "legend"}],
        },
        {"mark": {"type": "line", "style": "ideal"}, "encoding": {"x": x, "y": {**y, "field": "x"}}},
        {
            "mark": {"type": "rule", "style": "whisker", "clip": True},
            "encoding": {"x": x, **ends, "color": by["color"], "detail": {"field": "series", "type": "nominal"}},
            "transform": [{"filter": alone}],
        },
        {
            "mark": {"type": "point", "style": "dot", "clip": True},
            "encoding": {"x": x, "y": y, "color": by["color"], "shape": by["shape"], "opacity": faded},
        },
        {"mark": {"type": "point", "style": "target", "clip": True}, "encoding": {"x": x, "y": y, "tooltip": tips}},
    ]
    panels = [panel for panel in PANELS.values() if any(datum["panel"] == panel for datum in data)]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"name": "rows-0"},
        "datasets": {"rows-0": list(data)},
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": panels},
        "spec": {"layer": layers, "height": HEIGHT, "width": 300},
        "columns": 2,
        "bounds": "flush",
        "spacing": {"row": 44, "column": 22},
        "usermeta": {"panels": len(panels)},
    }


def _series(names: Sequence[str]) -> Spec:
    """Colour, shape and dash by the same field; from the seventh operation on colours repeat with others of these."""
    colours = places(names)
    turns = [place + place // len(SERIES) for place in colours]
    ranges = {
        "color": [by_value(SERIES[place % len(SERIES)]) for place in colours],
        "shape": [SHAPES[turn % len(SHAPES)] for turn in turns],
        "dash": [DASHES[turn % len(DASHES)] for turn in turns],
    }
    return {
        channel: {
            "field": "series", "type": "nominal", "scale": {"domain": list(names), "range": of_channel},
            "legend": {"title": None, "columns": LEGEND_COLUMNS},
        }
        for channel, of_channel in ranges.items()
    }  # fmt: skip
