# SPDX-License-Identifier: Apache-2.0
"""Dots with intervals on a log scale, which has no zero that a bar could start from. On a narrow chart the dot is below
its label."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import altair as alt

from tollmeter.model import Level, Row
from tollmeter.report.charts.chart import Bench, Datum, Drawing, Spec
from tollmeter.report.charts.marks import (
    bounds,
    by_width,
    datum,
    finished,
    hover,
    label_of,
    log_ticks,
    of_runs,
    ordered,
    point,
    powers_of_two,
    run_colour,
    values,
    within_reach,
)
from tollmeter.report.doubt import of_level, of_row
from tollmeter.report.numbers import DASH, cycles, time

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


@dataclass(frozen=True)
class Rungs(Drawing):
    """A line a label with its dot, from the least to the most, all above zero; of two runs a dot each."""

    data: tuple[Datum, ...]
    unit: str
    x_title: str

    @property
    def marks(self) -> Sequence[Datum]:
        return self.data

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
