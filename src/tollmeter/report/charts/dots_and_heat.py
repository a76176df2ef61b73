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

from tollmeter.model import Row
from tollmeter.report.chart_style import HEAT, by_value
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Datum, Drawing, Name, Spec
from tollmeter.report.charts.marks import by_width, hover
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
LINE = alt.Y("place:O", axis=None, scale=marks.guide(paddingInner=0, paddingOuter=0.1))


def rung(row: Row, label: str, text: str = "") -> Datum:
    """A dot of one row. text is at the right end of its line; where the chart is narrow, the value alone."""
    value = str(of_row(row))
    return marks.datum(row, label=label, said=text or value, brief=value, tone="rung")


def level_rungs(bench: Bench) -> list[Datum]:
    """The levels of memory, to compare with; none for a clock that cannot see them. A level has an interval but no
    visits of its own."""
    rungs: list[Datum] = []
    for level in bench.results.index.hierarchy if bench.is_the_machine else ():
        if not level.latency_ns:
            continue
        text = str(of_level(level))
        low, high = level.latency_low or level.latency_ns, level.latency_high or level.latency_ns
        rungs.append({
            "y": level.latency_ns, "lo": low, "hi": high,
            "label": "load from memory" if level.level == "memory" else f"load from {level.level}",
            "said": f"{text} · {cycles(level.latency_cycles)} cycles", "brief": text, "tone": "rung-aside",
            "value": text,
            "interval": "none, of too few visits" if level.few_samples else f"{time(low)} to {time(high)}",
            "samples": "from the curve of latency over size",
        })  # fmt: skip
    return rungs


@dataclass(frozen=True)
class Rungs(Drawing):
    """A line a label with its dot, from the least to the most, all above zero; of two runs a dot each."""

    unit: str
    x_title: str

    @cached_property
    def spec(self) -> Spec:
        runs = marks.ordered(self.data, "run")
        ranked = _ranked(self.data, runs)
        floor, top = marks.bounds(marks.within_reach(ranked))
        floor = floor / 2 if floor >= float(ranked[0]["y"]) * 0.7 else floor
        base = alt.Chart(marks.values(ranked))
        ticks = marks.powers_of_two(floor, top, 6) if self.unit == "B" else marks.log_ticks((floor, top))
        axis = marks.guide(values=ticks, labelExpr=marks.label_of(self.unit), orient="top", titleAnchor="start")
        reach: Any = alt.Undefined if len(runs) > 1 else REACH
        scale = marks.guide(type="log", domain=[floor, top], range=reach, nice=False, clamp=True)
        x = alt.X("y:Q", title=self.x_title, scale=scale, axis=axis)
        layers = _of_runs(base, x, runs) if len(runs) > 1 else _of_one_run(base, x, marks.ordered(ranked, "tone"))
        step = STEP + RUN_STEP * (len(runs) - 1)
        return marks.finished(alt.layer(*layers), (int(ranked[-1]["place"]) + 1) * step + 10)

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:
        if not isinstance(other, Rungs) or other.unit != self.unit:
            return self, other
        return (replace(self, data=marks.of_runs((self.data, other.data), runs)),)


def dots(rows: Sequence[Row], name: Name, x_title: str) -> Rungs | None:
    """A dot for each row above zero, where there are two to compare."""
    positive = [row for row in rows if row.median is not None and row.median > 0]
    if len(positive) < 2:
        return None
    return Rungs([rung(row, name(row)) for row in positive], positive[0].unit, x_title)


def _ranked(data: Sequence[Datum], runs: Sequence[str]) -> list[Datum]:
    """The data by line, lines by their least value. A label that two runs have is one line: its first datum has the
    values of both runs as text, in their order; brief: without their intervals."""
    seen: Counter[tuple[object, object]] = Counter()
    lines: dict[tuple[object, int], list[Datum]] = {}
    for d in data:
        seen[d.get("run"), d["label"]] += 1
        lines.setdefault((d["label"], seen[d.get("run"), d["label"]]), []).append(d)
    ranked: list[Datum] = []
    for place, line in enumerate(sorted(lines.values(), key=lambda line: min(float(d["y"]) for d in line))):
        words: Datum = {}
        if len(runs) > 1:
            by_run = {d["run"]: str(d["value"]) for d in line}
            texts = [by_run.get(run, DASH) for run in runs]
            words = {"said": " · ".join(texts), "brief": " · ".join(re.sub(r" [±(].*", "", text) for text in texts)}
        ranked.append({**line[0], **words, "place": place})
        ranked += [{**{name: d[name] for name in d if name not in words}, "place": place} for d in line[1:]]
    return ranked


def _of_one_run(base: alt.Chart, x: alt.X, tones: Sequence[str]) -> list[alt.Chart]:
    """A rule above each line, the label at the left and the value at the right."""
    low, named = alt.X("lo:Q", title=x["title"]), hover(("label", "boundary"))
    reach = base.mark_rule(style="rung-line", yOffset=DOT_DOWN, clip=True).encode(low, alt.X2("hi:Q"), LINE)
    between = base.mark_rule(style="between", yOffset=-STEP / 2)
    of_tones = [base.transform_filter(f"datum.tone == '{tone}'").mark_point(style=tone, yOffset=DOT_DOWN)
                for tone in tones]  # fmt: skip
    room = by_width(f"width - {BRIEF_ROOM}", LABEL_ROOM - 8)
    label = base.mark_text(style="label", dy=LABEL_UP, fontSize=by_width(10.5, 12), limit=room)
    return [
        between.encode(LINE, x=marks.with_value(alt.XValue, 0), x2=marks.with_value(alt.X2Value, "width")),
        reach,
        *(dots_of_tone.encode(x, LINE, tooltip=named) for dots_of_tone in of_tones),
        *_texts(base, label, LABEL_UP),
    ]


def _of_runs(base: alt.Chart, x: alt.X, runs: Sequence[str]) -> list[alt.Chart]:
    """The dots of a line below each other, distinguished by colour and shape; the label at the left and the values at
    the right, both above the dots."""
    by, named = marks.run_colour(runs), hover(("label", "boundary"), ("run", "run"))
    low, layers = alt.X("lo:Q", title=x["title"]), []
    for turn, run in enumerate(runs):
        of_run = base.transform_filter(alt.FieldEqualPredicate(field="run", equal=run))
        down = RUNS_DOWN + turn * RUN_STEP
        reach = of_run.mark_rule(style="whisker", yOffset=down, clip=True)
        dot = marks.point(of_run, "rung", by, yOffset=down)
        layers += [reach.encode(low, alt.X2("hi:Q"), LINE, by["color"]),
                   dot.encode(x, LINE, by["color"], by["shape"], tooltip=named)]  # fmt: skip
    worded = base.transform_filter("isValid(datum.said)")
    room = by_width(f"width - {BARE_ROOM}", f"width - {BOTH_ROOM}")
    return [*layers, *_texts(worded, worded.mark_text(style="label", dy=RUNS_UP, limit=room), RUNS_UP)]


def _texts(base: alt.Chart, label: alt.Chart, up: Any) -> list[alt.Chart]:
    value = base.mark_text(style="value", dy=up, text=by_width("datum.brief", "datum.said"))
    return [
        label.encode(LINE, x=marks.with_value(alt.XValue, 0), text="label:N"),
        value.encode(LINE, x=marks.with_value(alt.XValue, "width")),
    ]


# ---- heat -----------------------------------------------------------------------------------------------------------


def cell(row: Row, parameters: tuple[str, str], panel: str) -> Datum:
    """A cell of one row. parameters: those that say its row and its column."""
    down, across = (row.parameters[name] for name in parameters)
    return marks.datum(row, a=down, b=across, panel=panel, said=str(quantity(row.median, row.unit)))


@dataclass(frozen=True)
class Cells(Drawing):
    """The data have a row `a` and a column `b`. labelled: each cell has its text, `said`. panel: small multiples.
    square: both have the same values, and cells are square. mirrored: the data are one half of a square, and each cell
    is drawn on both sides. order: of the values of a square; ascending where it is empty. scale: data of which each
    step of colour is a part, where these are more than its own: of two runs, those of both."""

    titles: tuple[str, str]
    unit: str
    tips: tuple[tuple[str, str], ...]
    step: int = 40
    labelled: bool = True
    panel: bool = False
    square: bool = False
    mirrored: bool = False
    order: tuple[int, ...] = ()
    scale: tuple[Datum, ...] = ()

    @cached_property
    def spec(self) -> Spec:
        """Cells in seven steps of colour: the more, the further from the ground, in light and dark alike."""
        costs = [float(d["y"]) for d in self.scale or self.data]
        divisor, unit = scale_of(max(costs), self.unit)
        edges = _edges([cost / divisor for cost in costs])
        names, data = _step_names(edges), []
        for d in self.data:
            step = bisect.bisect_right(edges, float(d["y"]) / divisor)
            # far: whether the words of the cell are on one of the darker colours.
            data.append({**d, "step": names[step]} | ({"far": step > len(HEAT) // 2} if self.labelled else {}))
        layers = self._layers(marks.values(data), names, unit)
        cells = len({d[end] for d in self.data for end in ("a", "b")})
        height = self.step * (cells if self.square else len({d["a"] for d in self.data}))
        size = {"cells": cells, "step": self.step} if self.square else {}
        if not self.panel:
            usermeta = {"usermeta": size} if size else {}
            return {**marks.finished(alt.layer(*layers), None), "height": height, **usermeta}
        panel = marks.small(layers, height, height if self.square else 300)
        panels = marks.panelled(panel, marks.ordered(self.data, "panel"))
        return {**panels, "usermeta": {**panels["usermeta"], **size}}

    def _layers(self, data: alt.NamedData, names: Sequence[str], unit: str) -> list[alt.Chart]:
        scale = marks.guide(domain=list(names), range=[by_value(name) for name in HEAT])
        legend = marks.guide(title=unit, symbolType="square", symbolSize=150, columns=len(HEAT))
        colour, base = alt.Color("step:N", scale=scale, legend=legend), alt.Chart(data)
        bare: Spec = {"domain": False, "ticks": False}
        across = marks.guide(orient="bottom", labelAngle=0, **bare)
        down = marks.guide(**bare, **({} if self.panel else marks.ABOVE))
        sort, (y_title, x_title) = list(self.order) or alt.Undefined, self.titles
        axes = [(alt.X(f"{x}:O", sort=sort, title=x_title, axis=across),
                 alt.Y(f"{y}:O", sort=sort, title=y_title, axis=down))
                for x, y in (("b", "a"), ("a", "b"))[: 1 + self.mirrored]]  # fmt: skip
        layers = [base.mark_rect(style="cell").encode(x, y, colour, tooltip=hover(*self.tips)) for x, y in axes]
        for style, condition in (("cell-low", "!datum.far"), ("cell-high", "datum.far")) if self.labelled else ():
            layers.append(base.transform_filter(condition).mark_text(style=style).encode(*axes[0], text="said:N"))
        return layers

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:  # noqa: ARG002
        """Side by side: a cell has one colour. A colour means the same in both."""
        if not isinstance(other, Cells) or other.unit != self.unit:
            return self, other
        both = (*self.data, *other.data)
        return replace(self, scale=both), replace(other, scale=both)


def _edges(values: Sequence[float]) -> list[float]:
    """Six edges for seven colours, evenly spaced in the logarithm between the least and the most of positive values."""
    low, high = min(values), max(values)
    high = max(high, low * 1.05)
    steps = [low * (high / low) ** (place / len(HEAT)) for place in range(1, len(HEAT))]
    return [float(f"{step:.2g}" if high / low > 1.5 else f"{step:.4g}") for step in steps]


def _step_names(edges: Sequence[float]) -> list[str]:
    """The range of each colour: below the first edge, between two, from the last on; in two to six digits, as few as
    distinguish the edges."""
    texts = next(short for keep in range(2, 7) if len(set(short := [plain(edge, keep) for edge in edges])) == len(edges)
                 or keep == 6)  # fmt: skip
    between = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
    return [f"below {texts[0]}", *between, f"{texts[-1]} and more"]
