# SPDX-License-Identifier: Apache-2.0
"""A number over two axes of few values: coloured cells, with the number in them where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from tollmeter.report.charts.chart import Datum, Spec
from tollmeter.report.charts.marks import ABOVE, finished, hover, values
from tollmeter.report.look import HEAT, by_value
from tollmeter.report.numbers import scale_of


def thresholds(seen: Sequence[float]) -> list[float]:
    """Six edges for seven colours, evenly spaced in the logarithm between the least and the most of positive values."""
    low, high = min(seen), max(seen)
    high = max(high, low * 1.05)
    steps = [low * (high / low) ** (place / len(HEAT)) for place in range(1, len(HEAT))]
    return [float(f"{step:.2g}" if high / low > 1.5 else f"{step:.4g}") for step in steps]


@dataclass(frozen=True)
class Heat:
    """rows and columns are fields of the data; said is the text in a cell, panel tells small multiples apart."""

    rows: str
    columns: str
    titles: tuple[str, str]
    unit: str
    tips: tuple[tuple[str, str], ...]
    step: int = 40
    said: bool = True
    panel: bool = False


def heat(data: Sequence[Datum], want: Heat) -> Spec:
    """Cells coloured by threshold: the more, the further from the ground, in light and dark alike."""
    divisor, unit = scale_of(max(float(d["y"]) for d in data), want.unit)
    edges = thresholds([float(d["y"]) / divisor for d in data])
    scaled = [{**d, "c": float(f"{float(d['y']) / divisor:.5g}")} for d in data]
    inline = values([{**d, "far": d["c"] >= edges[3]} for d in scaled])
    layers = _layers(inline, want, edges, unit)
    if not want.panel:
        return {**finished(alt.layer(*layers), None), "height": {"step": want.step}}
    bare = [layer.properties(data=alt.Undefined) for layer in layers]
    faceted = alt.layer(*bare, data=inline).properties(height=want.step * 8, width=300)
    panels = len({d["panel"] for d in data})
    spec = finished(faceted.facet(facet=alt.Facet("panel:N", title=None, sort=None), columns=2).properties(bounds="flush", spacing={"row": 44, "column": 22}))
    return {**spec, "usermeta": {"panels": panels}}


def _layers(inline: alt.NamedData, want: Heat, edges: Sequence[float], unit: str) -> list[alt.Chart]:
    plain = {"domain": False, "ticks": False}
    x = alt.X(f"{want.columns}:O", title=want.titles[1], axis=alt.Axis(orient="bottom", labelAngle=0, **plain))
    above = {} if want.panel else ABOVE
    y = alt.Y(f"{want.rows}:O", title=want.titles[0], axis=alt.Axis(**plain, **above))
    legend = alt.Legend(title=unit, type="symbol", symbolType="square", symbolSize=160, format=".3~g", columns=len(HEAT))
    colour = alt.Color("c:Q", scale=alt.Scale(type="threshold", domain=list(edges), range=[by_value(name) for name in HEAT]), legend=legend)
    base = alt.Chart(inline)
    layers = [base.mark_rect(style="cell").encode(x, y, colour, tooltip=hover(*want.tips))]
    for style, wanted in (("cell-low", "!datum.far"), ("cell-high", "datum.far")) if want.said else ():
        layers.append(base.transform_filter(wanted).mark_text(style=style).encode(x, y, text="said:N"))
    return layers
