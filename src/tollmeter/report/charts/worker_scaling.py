# SPDX-License-Identifier: Apache-2.0
"""Throughput of N workers as a multiple of one worker's, over N: a line for each operation, a panel for threads and one
for processes, and the line of perfect scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollmeter.inference.answers import ratio
from tollmeter.judgement.verdict import has_interval
from tollmeter.model import Row
from tollmeter.numbers.meanings import whole_number
from tollmeter.numbers.stats import Estimate
from tollmeter.numbers.units import in_words
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, Subject
from tollmeter.report.charts.marks import layer, quantitative
from tollmeter.report.numbers import of_row, quantity

_SPEED_UP = Subject("scaling", "Throughput over workers",
                   "What multiple of one worker's throughput do N threads, or N processes, reach?",
                   ("throughput-of-workers",))  # fmt: skip
PANELS = {"threads": "threads of one process", "processes": "processes"}
HEIGHT = 320
_HEADROOM = 1.2
"""Ratio of the axis end to perfect scaling, which only noise exceeds."""


def speed_up_of_workers(bench: Bench) -> Iterator[Chart]:
    """Yields the chart of speed-up; none unless a single worker was timed. Ratios of rows without an interval are left
    out."""
    rows = [row for row in bench.own(bench.meaning(*_SPEED_UP.means)) if has_interval(row)]
    alone = {_line(row): row for row in rows if whole_number(row, "workers") == 1}
    data = [_point(row, alone[_line(row)]) for row in rows if _line(row) in alone]
    if max((datum["x"] for datum in data), default=1) > 1:
        yield _SPEED_UP.chart(_spec(data), rows, _caption(data))


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
    """Returns the lowest and the highest line of threads at the most workers, which may be the same line."""
    most = max(datum["x"] for datum in data)
    ends = [datum for datum in data if datum["x"] == most and datum["panel"] == PANELS["threads"]]
    if not ends:
        return ""
    least, best = (end(ends, key=lambda datum: float(datum["y"])) for end in (min, max))
    span = " to ".join(dict.fromkeys(f"{datum['series']} {datum['value']}" for datum in (least, best)))
    return f"With {most} threads, as a multiple of one thread's throughput: {span}; the dotted line is perfect scaling."


def _spec(data: Sequence[Datum]) -> Spec:
    several = sorted({datum["x"] for datum in data})
    axis = {"values": several, "grid": False, "format": "d"}
    scale = {"domain": [0, _HEADROOM * several[-1]], "nice": False, "clamp": True}
    x = quantitative("x", title="workers, each on a CPU of its own", axis=axis,
                     scale={"zero": False, "nice": False, "padding": 12})  # fmt: skip
    y = quantitative("y", title="throughput, as a multiple of one worker's", axis={"tickCount": 6}, scale=scale)
    tips = marks.tips(("series", "operation"), ("at", "workers"), ("value", "of one"), ("rate", "operations a second"))
    by = marks.series_colour("series", marks.ordered(data, "series"))
    line, *points = marks.curve_layers(x, y, tips, by, dense=False)
    perfect = layer("line", {"x": x, "y": {**y, "field": "x"}}, style="ideal")
    panels = [panel for panel in PANELS.values() if any(datum["panel"] == panel for datum in data)]
    return marks.panelled(data, [line, perfect, *points], panels, height=HEIGHT)
