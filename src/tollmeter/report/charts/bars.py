# SPDX-License-Identifier: Apache-2.0
"""Horizontal bars on a log scale, each under its own label, so that a long label costs no width on a phone."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from tollmeter.model import Row
from tollmeter.report.charts.chart import Datum, Spec
from tollmeter.report.charts.marks import bounds, datum, finished, hover, label_of, log_ticks, values
from tollmeter.report.numbers import quantity

STEP = 34
LABEL_UP, BAR_DOWN = -8, 6
NARROW, VALUE_ROOM = 460, 92  # pixels


def rung(row: Row, label: str, said: str, tone: str = "rung") -> Datum:
    """A bar of one row. said stands at the right end of its line; where the chart is narrow, the value alone."""
    return datum(row, label=label, said=said, brief=str(quantity(row.median, row.unit, row.low, row.high)), tone=tone)


def bars(rungs: Sequence[Datum], unit: str, x_title: str) -> Spec:
    """From the least to the most. Bars start at the axis' end, which on a log scale is no zero: the axis says so."""
    ranked = [{**r, "place": place} for place, r in enumerate(sorted(rungs, key=lambda r: float(r["y"])))]
    floor, top = bounds([v for r in ranked for v in (r["y"], r["lo"], r["hi"]) if v])
    floor = floor / 2 if floor >= min(r["y"] for r in ranked) * 0.7 else floor
    scale = alt.Scale(type="log", domain=[floor, top], nice=False, clamp=True)
    axis = alt.Axis(values=log_ticks((floor, top)), labelExpr=label_of(unit), orient="top", titleAnchor="start")
    x = alt.X("y:Q", title=x_title, scale=scale, axis=axis)
    y = alt.Y("place:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0.2))
    base = alt.Chart(values([{**r, "floor": floor} for r in ranked]))
    layers = [
        base.transform_filter(f"datum.tone == '{tone}'")
        .mark_bar(style=tone, height=6, yOffset=BAR_DOWN, y2Offset=BAR_DOWN)
        .encode(x, alt.X2("floor:Q"), y, tooltip=hover(("label", "boundary")))
        for tone in dict.fromkeys(str(r["tone"]) for r in ranked)
    ]
    whisker = base.mark_rule(style="rung-line", yOffset=BAR_DOWN).encode(alt.X("lo:Q", title=x_title), alt.X2("hi:Q"), y)
    label = base.mark_text(style="label", dy=LABEL_UP, limit=alt.expr(f"width - {VALUE_ROOM}")).encode(
        y, x=alt.value(0), text="label:N"
    )
    said = base.mark_text(style="value", dy=LABEL_UP, text=alt.expr(f"width < {NARROW} ? datum.brief : datum.said"))
    said = said.encode(y, x=alt.value("width"))
    return finished(alt.layer(*layers, whisker, label, said), len(ranked) * STEP + 10)
