# SPDX-License-Identifier: Apache-2.0
"""Dots with their intervals on a log scale, which has no zero that a bar could start from. Each stands under its own
label, so that a long one costs no width on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from tollmeter.model import Level, Row
from tollmeter.report.charts.chart import Bench, Datum, Spec
from tollmeter.report.charts.marks import (
    bounds,
    datum,
    finished,
    hover,
    label_of,
    log_ticks,
    powers_of_two,
    values,
    within_reach,
)
from tollmeter.report.doubt import of_level, of_row
from tollmeter.report.numbers import cycles, time

STEP = 34
LABEL_UP, DOT_DOWN = -8, 6
NARROW, VALUE_ROOM = 460, 92  # pixels


def rung(row: Row, label: str, said: str) -> Datum:
    """A dot of one row. said stands at the right end of its line; where the chart is narrow, the value alone."""
    return datum(row, label=label, said=said, brief=str(of_row(row)), tone="rung")


def level_rungs(bench: Bench) -> list[Datum]:
    """The levels of memory, to compare with; none for a clock that cannot see them."""
    known = bench.book.index.hierarchy if bench.is_the_machine else ()
    return [_level(level) for level in known if level.latency_ns]


def _level(level: Level) -> Datum:
    """A level of the hierarchy has an interval but no visits of its own."""
    text = str(of_level(level))
    low, high = level.latency_low or level.latency_ns, level.latency_high or level.latency_ns
    return {
        "y": level.latency_ns,
        "lo": low,
        "hi": high,
        "label": "load from memory" if level.level == "memory" else f"load from {level.level}",
        "said": f"{text} · {cycles(level.latency_cycles)} cycles",
        "brief": text,
        "tone": "rung-aside",
        "value": text,
        "interval": "none, of too few visits" if level.few_samples else f"{time(low)} to {time(high)}",
        "samples": "from the curve of latency over size",
    }


def dots(rungs: Sequence[Datum], unit: str, x_title: str) -> Spec:
    """From the least to the most, all above zero."""
    ranked = [{**r, "place": place} for place, r in enumerate(sorted(rungs, key=lambda r: float(r["y"])))]
    floor, top = bounds(within_reach(ranked))
    floor = floor / 2 if floor >= float(ranked[0]["y"]) * 0.7 else floor
    base = alt.Chart(values(ranked))
    ticks = powers_of_two(floor, top, 6) if unit == "B" else log_ticks((floor, top))
    axis = alt.Axis(values=ticks, labelExpr=label_of(unit), orient="top", titleAnchor="start")
    scale = alt.Scale(type="log", domain=[floor, top], nice=False, clamp=True)
    x = alt.X("y:Q", title=x_title, scale=scale, axis=axis)
    reach = base.mark_rule(style="rung-line", yOffset=DOT_DOWN, clip=True)
    reach = reach.encode(alt.X("lo:Q", title=x_title), alt.X2("hi:Q"), _y())
    marks = [_dot(base, x, tone) for tone in dict.fromkeys(str(r["tone"]) for r in ranked)]
    return finished(alt.layer(reach, *marks, *_words(base)), len(ranked) * STEP + 10)


def _y() -> alt.Y:
    return alt.Y("place:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0.2))


def _dot(base: alt.Chart, x: alt.X, tone: str) -> alt.Chart:
    marked = base.transform_filter(f"datum.tone == '{tone}'").mark_point(style=tone, yOffset=DOT_DOWN)
    dot: alt.Chart = marked.encode(x, _y(), tooltip=hover(("label", "boundary")))
    return dot


def _words(base: alt.Chart) -> list[alt.Chart]:
    """The label at the left and the value at the right, both above the dot."""
    label = base.mark_text(style="label", dy=LABEL_UP, limit=alt.expr(f"width - {VALUE_ROOM}"))
    brief_or_said = alt.expr(f"width < {NARROW} ? datum.brief : datum.said")
    said = base.mark_text(style="value", dy=LABEL_UP, text=brief_or_said)
    return [label.encode(_y(), x=alt.value(0), text="label:N"), said.encode(_y(), x=alt.value("width"))]
