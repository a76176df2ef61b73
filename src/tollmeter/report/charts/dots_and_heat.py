# SPDX-License-Identifier: Apache-2.0
"""Two forms of a chart: dots on a scale, one line each, and cells of a grid by colour."""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import altair as alt

from tollmeter.model import Level, Row
from tollmeter.report.chart_style import HEAT, by_value
from tollmeter.report.charts.chart import Bench, DataDrawing, Datum, Drawing, Spec
from tollmeter.report.charts.marks import (
    ABOVE,
    bounds,
    by_width,
    datum,
    finished,
    hover,
    label_of,
    log_ticks,
    of_runs,
    ordered,
    panelled,
    point,
    powers_of_two,
    run_colour,
    values,
    within_reach,
)
from tollmeter.report.numbers import DASH, cycles, of_level, of_row, plain, quantity, scale_of, time

STEP, RUN_STEP = 34, 8
BRIEF_ROOM = 92  # pixels
LABEL_ROOM, VALUE_ROOM = 290, 180
"""Of a wide chart: the scale is between them."""
LABEL_UP, DOT_DOWN = by_width(-8, 0), by_width(7, 0)
REACH = [by_width(0, LABEL_ROOM), by_width("width", f"width - {VALUE_ROOM}")]
RUNS_UP, RUNS_DOWN = -8, 6
BARE_ROOM, BOTH_ROOM = 150, 250
"""For the values of two runs, without their intervals and with them."""


def rung(row: Row, label: str, text: str) -> Datum:
    """A dot of one row. text is at the right end of its line; where the chart is narrow, the value alone."""
    return datum(row, label=label, said=text, brief=str(of_row(row)), tone="rung")


def level_rungs(bench: Bench) -> list[Datum]:
    """The levels of memory, to compare with; none for a clock that cannot see them."""
    known = bench.results.index.hierarchy if bench.is_the_machine else ()
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


@dataclass(frozen=True)
class Rungs(DataDrawing):
    """A line a label with its dot, from the least to the most, all above zero; of two runs a dot each."""

    unit: str
    x_title: str

    @cached_property
    def spec(self) -> Spec:
        runs = ordered(self.data, "run")
        ranked = _ranked(self.data, runs)
        floor, top = bounds(within_reach(ranked))
        floor = floor / 2 if floor >= float(ranked[0]["y"]) * 0.7 else floor
        base = alt.Chart(values(ranked))
        ticks = powers_of_two(floor, top, 6) if self.unit == "B" else log_ticks((floor, top))
        axis = alt.Axis(values=ticks, labelExpr=label_of(self.unit), orient="top", titleAnchor="start")
        reach: Any = alt.Undefined if len(runs) > 1 else REACH
        scale = alt.Scale(type="log", domain=[floor, top], range=reach, nice=False, clamp=True)
        x = alt.X("y:Q", title=self.x_title, scale=scale, axis=axis)
        marks = _marks_of_runs(base, x, runs) if len(runs) > 1 else _marks(base, x, ordered(ranked, "tone"))
        step = STEP + RUN_STEP * (len(runs) - 1)
        return finished(alt.layer(*marks), (int(ranked[-1]["place"]) + 1) * step + 10)

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:
        if not isinstance(other, Rungs) or other.unit != self.unit:
            return self, other
        return (replace(self, data=of_runs((self.data, other.data), runs)),)


def _ranked(data: Sequence[Datum], runs: Sequence[str]) -> list[Datum]:
    """The data by line, lines by their least value. A label that two runs have is one line, whose words are of both."""
    seen: Counter[tuple[object, object]] = Counter()
    lines: dict[tuple[object, int], list[Datum]] = {}
    for d in data:
        seen[d.get("run"), d["label"]] += 1
        lines.setdefault((d["label"], seen[d.get("run"), d["label"]]), []).append(d)
    climbing = sorted(lines.values(), key=lambda line: min(float(d["y"]) for d in line))
    worded = [_in_words(line, runs) if len(runs) > 1 else line for line in climbing]
    return [{**d, "place": place} for place, line in enumerate(worded) for d in line]


def _in_words(line: Sequence[Datum], runs: Sequence[str]) -> list[Datum]:
    """The first datum of a line has the values of both runs as text, in their order; brief: without their intervals."""
    by_run = {d["run"]: str(d["value"]) for d in line}
    values = [by_run.get(run, DASH) for run in runs]
    brief = " · ".join(re.sub(r" [±(].*", "", value) for value in values)
    first, *rest = line
    spare = ("said", "brief")
    bare = [{name: d[name] for name in d if name not in spare} for d in rest]
    return [{**first, "said": " · ".join(values), "brief": brief}, *bare]


def _marks(base: alt.Chart, x: alt.X, tones: Sequence[str]) -> list[alt.Chart]:
    reach = base.mark_rule(style="rung-line", yOffset=DOT_DOWN, clip=True).encode(_low(x), alt.X2("hi:Q"), _y())
    return [_between(base), reach, *(_dot(base, x, tone) for tone in tones), *_words(base)]


def _marks_of_runs(base: alt.Chart, x: alt.X, runs: Sequence[str]) -> list[alt.Chart]:
    """The dots of a line below each other, distinguished by colour and shape."""
    by, tips = run_colour(runs), hover(("label", "boundary"), ("run", "run"))
    marks = []
    for turn, run in enumerate(runs):
        of_run = base.transform_filter(alt.FieldEqualPredicate(field="run", equal=run))
        down = RUNS_DOWN + turn * RUN_STEP
        reach = of_run.mark_rule(style="whisker", yOffset=down, clip=True)
        dot = point(of_run, "rung", by, yOffset=down)
        marks += [reach.encode(_low(x), alt.X2("hi:Q"), _y(), by["color"]),
                  dot.encode(x, _y(), by["color"], by["shape"], tooltip=tips)]  # fmt: skip
    return [*marks, *_words_of_runs(base.transform_filter("isValid(datum.said)"))]


def _low(x: alt.X) -> alt.X:
    return alt.X("lo:Q", title=x["title"])


def _y() -> alt.Y:
    return alt.Y("place:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0.1))


def _between(base: alt.Chart) -> alt.Chart:
    """A rule above each line."""
    rule: alt.Chart = base.mark_rule(style="between", yOffset=-STEP / 2)
    return rule.encode(_y(), x=alt.value(0), x2=alt.value("width"))


def _dot(base: alt.Chart, x: alt.X, tone: str) -> alt.Chart:
    marked = base.transform_filter(f"datum.tone == '{tone}'").mark_point(style=tone, yOffset=DOT_DOWN)
    dot: alt.Chart = marked.encode(x, _y(), tooltip=hover(("label", "boundary")))
    return dot


def _words(base: alt.Chart) -> list[alt.Chart]:
    """The label at the left and the value at the right."""
    room = by_width(f"width - {BRIEF_ROOM}", LABEL_ROOM - 8)
    label = base.mark_text(style="label", dy=LABEL_UP, fontSize=by_width(10.5, 12), limit=room)
    return _value_texts(base, label, LABEL_UP)


def _words_of_runs(base: alt.Chart) -> list[alt.Chart]:
    """The label at the left and the values at the right, both above the dots."""
    room = by_width(f"width - {BARE_ROOM}", f"width - {BOTH_ROOM}")
    return _value_texts(base, base.mark_text(style="label", dy=RUNS_UP, limit=room), RUNS_UP)


def _value_texts(base: alt.Chart, label: alt.Chart, up: Any) -> list[alt.Chart]:
    shown = by_width("datum.brief", "datum.said")
    value = base.mark_text(style="value", dy=up, text=shown)
    return [label.encode(_y(), x=alt.value(0), text="label:N"), value.encode(_y(), x=alt.value("width"))]


# ---- heat -----------------------------------------------------------------------------------------------------------


def thresholds(seen: Sequence[float]) -> list[float]:
    """Six edges for seven colours, evenly spaced in the logarithm between the least and the most of positive values."""
    low, high = min(seen), max(seen)
    high = max(high, low * 1.05)
    steps = [low * (high / low) ** (place / len(HEAT)) for place in range(1, len(HEAT))]
    return [float(f"{step:.2g}" if high / low > 1.5 else f"{step:.4g}") for step in steps]


def cell(row: Row, parameters: tuple[str, str], panel: str) -> Datum:
    """A cell of one row. parameters: those that say its row and its column."""
    down, across = (row.parameters[name] for name in parameters)
    return datum(row, a=down, b=across, panel=panel, said=str(quantity(row.median, row.unit)))


@dataclass(frozen=True)
class Heat:
    """The data have a row `a` and a column `b`. labelled: each cell has its text, `said`. panel: small multiples.
    square: both have the same values, and cells are square. mirrored: the data are one half of a square, and each cell
    is drawn on both sides. order: of the values of a square; ascending where it is empty."""

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
class Cells(DataDrawing):
    """scale: data of which each step of colour is a part: of two runs, those of both."""

    want: Heat
    scale: tuple[Datum, ...] = ()

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
    cells = len({d[end] for d in data for end in ("a", "b")})
    height = want.step * (cells if want.square else len({d["a"] for d in data}))
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
    sides = [("b", "a"), *([("a", "b")] if want.mirrored else [])]
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
