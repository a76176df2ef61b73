# SPDX-License-Identifier: Apache-2.0
"""A number over two axes of few values: coloured cells, with the number in them where there is room."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import altair as alt

from tollmeter.report.charts.chart import Datum, Drawing, Spec
from tollmeter.report.charts.marks import ABOVE, finished, hover, panelled, values
from tollmeter.report.look import HEAT, by_value
from tollmeter.report.numbers import plain, scale_of


def thresholds(seen: Sequence[float]) -> list[float]:
    """Six edges for seven colours, evenly spaced in the logarithm between the least and the most of positive values."""
    low, high = min(seen), max(seen)
    high = max(high, low * 1.05)
    steps = [low * (high / low) ** (place / len(HEAT)) for place in range(1, len(HEAT))]
    return [float(f"{step:.2g}" if high / low > 1.5 else f"{step:.4g}") for step in steps]


@dataclass(frozen=True)
class Heat:
    """rows and columns are fields of the data. labelled: each cell has its text. panel: small multiples. square: both
    have the same values, and cells are square. mirrored: the data are one half of a square, and each cell is drawn on
    both sides. order: of the values of a square; ascending where it is empty."""

    rows: str
    columns: str
    titles: tuple[str, str]
    unit: str
    tips: tuple[tuple[str, str], ...]
    step: int = 40
    labelled: bool = True
    panel: bool = False
    square: bool = False
    mirrored: bool = False
    order: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cells(Drawing):
    """scale: data of which each step of colour is a part: of two runs, those of both."""

    data: tuple[Datum, ...]
    want: Heat
    scale: tuple[Datum, ...] = ()

    @property
    def marks(self) -> Sequence[Datum]:
        return self.data

    @cached_property
    def spec(self) -> Spec:
        return _heat(self.data, self.want, [float(d["y"]) for d in self.scale or self.data])

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:  # noqa: ARG002
        """Side by side: a cell has one colour. A colour means the same in both."""
        if not isinstance(other, Cells) or other.want.unit != self.want.unit:
            return self, other
        both = (*self.data, *other.data)
        return replace(self, scale=both), replace(other, scale=both)


def _heat(data: Sequence[Datum], want: Heat, seen: Sequence[float]) -> Spec:
    """Cells in seven steps of colour: the more, the further from the ground, in light and dark alike."""
    divisor, unit = scale_of(max(seen), want.unit)
    edges = thresholds([value / divisor for value in seen])
    names = step_names(edges)
    steps = [bisect.bisect_right(edges, float(d["y"]) / divisor) for d in data]
    inline = values([_stepped(d, names[step], step, want) for d, step in zip(data, steps, strict=True)])
    layers = _layers(inline, want, names, unit)
    cells = len({d[end] for d in data for end in (want.rows, want.columns)})
    height = want.step * (cells if want.square else len({d[want.rows] for d in data}))
    marked = {"usermeta": {"cells": cells, "step": want.step}} if want.square else {}
    if not want.panel:
        return {**finished(alt.layer(*layers), None), "height": height, **marked}
    bare = [layer.properties(data=alt.Undefined) for layer in layers]
    faceted = alt.layer(*bare, data=inline).properties(height=height, width=height if want.square else 300)
    panels = panelled(faceted, list(dict.fromkeys(str(d["panel"]) for d in data)))
    return {**panels, "usermeta": {**panels["usermeta"], **marked.get("usermeta", {})}}


def _stepped(datum: Datum, name: str, step: int, want: Heat) -> Datum:
    """With its colour; and where it has words, whether they stand on one of the darker ones."""
    return {**datum, "step": name} | ({"far": step > len(HEAT) // 2} if want.labelled else {})


def step_names(edges: Sequence[float]) -> list[str]:
    """The range of each colour: below the first edge, between two, from the last on."""
    texts = next(short for keep in range(2, 7) if len(set(short := [plain(edge, keep) for edge in edges])) == len(edges)
                 or keep == 6)  # fmt: skip
    between = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
    return [f"below {texts[0]}", *between, f"{texts[-1]} and more"]


def _layers(inline: alt.NamedData, want: Heat, names: Sequence[str], unit: str) -> list[alt.Chart]:
    scale = alt.Scale(domain=list(names), range=[by_value(name) for name in HEAT])
    legend = alt.Legend(title=unit, symbolType="square", symbolSize=150, columns=len(HEAT))
    colour = alt.Color("step:N", scale=scale, legend=legend)
    base = alt.Chart(inline)
    sides = [(want.columns, want.rows), *([(want.rows, want.columns)] if want.mirrored else [])]
    axes = [_axes(across, down, want) for across, down in sides]
    layers = [base.mark_rect(style="cell").encode(x, y, colour, tooltip=hover(*want.tips)) for x, y in axes]
    for style, wanted in (("cell-low", "!datum.far"), ("cell-high", "datum.far")) if want.labelled else ():
        layers.append(base.transform_filter(wanted).mark_text(style=style).encode(*axes[0], text="said:N"))
    return layers


def _axes(across: str, down: str, want: Heat) -> tuple[alt.X, alt.Y]:
    plain_axis: Spec = {"domain": False, "ticks": False}
    above: Spec = {} if want.panel else ABOVE
    sort = list(want.order) or alt.Undefined
    x = alt.X(
        f"{across}:O", sort=sort, title=want.titles[1], axis=alt.Axis(orient="bottom", labelAngle=0, **plain_axis)
    )
    return x, alt.Y(f"{down}:O", sort=sort, title=want.titles[0], axis=alt.Axis(**plain_axis, **above))
