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

from tollmeter.model import Row
from tollmeter.report.chart_style import HEAT, by_value
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Datum, Drawing, Name, Spec
from tollmeter.report.charts.marks import by_width, hover, layer, nominal, quantitative
from tollmeter.report.numbers import DASH, cycles, of_level, of_row, plain, quantity, scale_of, time

_STEP, RUN_STEP = 34, 8
BRIEF_ROOM = 92  # pixels
LABEL_ROOM, VALUE_ROOM = 290, 180
"""Pixels for labels and values of a wide chart: the scale is between them."""
LABEL_UP, DOT_DOWN = by_width(-8, 0), by_width(7, 0)
_REACH = [by_width(0, LABEL_ROOM), by_width("width", f"width - {VALUE_ROOM}")]
RUNS_UP, RUNS_DOWN = -8, 6
BARE_ROOM, BOTH_ROOM = 150, 250
"""Pixels for the values of two runs, without their intervals and with them."""
_LINE: Spec = {"field": "place", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0, "paddingOuter": 0.1}}


def rung(row: Row, label: str, text: str = "") -> Datum:
    """Returns a dot of one row. text is at the right end of its line; in a narrow chart it is the value alone."""
    value = str(of_row(row))
    return marks.datum(row, label=label, said=text or value, brief=value, tone="rung")


def level_rungs(bench: Bench) -> list[Datum]:
    """Returns the memory levels, for comparison; none for a clock that cannot resolve them. A level has an interval but
    no visits of its own."""
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
    """A line for each label with its dot, in ascending order, all above zero; for two runs two dots."""

    unit: str
    x_title: str

    @cached_property
    def spec(self) -> Spec:
        runs = marks.ordered(self.data, "run")
        ranked = _ranked(self.data, runs)
        floor, top = marks.log_domain(marks.within_reach(ranked))
        floor = floor / 2 if floor >= float(ranked[0]["y"]) * 0.7 else floor
        ticks = marks.powers_of_two(floor, top, 6) if self.unit == "B" else marks.log_ticks((floor, top))
        axis = {"values": ticks, "labelExpr": marks.label_of(self.unit), "orient": "top", "titleAnchor": "start"}
        reach = {} if len(runs) > 1 else {"range": _REACH}
        scale = {"type": "log", "domain": [floor, top], "nice": False, "clamp": True, **reach}
        x = quantitative("y", title=self.x_title, scale=scale, axis=axis)
        layers = _of_runs(x, runs) if len(runs) > 1 else _of_one_run(x, marks.ordered(ranked, "tone"))
        step = _STEP + RUN_STEP * (len(runs) - 1)
        return marks.layered(ranked, layers, (int(ranked[-1]["place"]) + 1) * step + 10)

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:
        if not isinstance(other, Rungs) or other.unit != self.unit:
            return self, other
        return (replace(self, data=marks.of_runs((self.data, other.data), runs)),)


def dots(rows: Sequence[Row], name: Name, x_title: str) -> Rungs | None:
    """Returns a dot for each row above zero; None for fewer than two."""
    positive = [row for row in rows if row.median is not None and row.median > 0]
    if len(positive) < 2:
        return None
    return Rungs([rung(row, name(row)) for row in positive], positive[0].unit, x_title)


def _ranked(data: Sequence[Datum], runs: Sequence[str]) -> list[Datum]:
    """Returns the data by line, lines by their lowest value. A label of two runs is one line; its first datum has the
    values of both runs as text, with intervals in `said` and without them in `brief`."""
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


def _of_one_run(x: Spec, tones: Sequence[str]) -> list[Spec]:
    """Returns a rule above each line, the label at the left and the value at the right."""
    dots = {"x": x, "y": _LINE, "tooltip": hover(("label", "boundary"))}
    room = by_width(f"width - {BRIEF_ROOM}", LABEL_ROOM - 8)
    return [
        layer("rule", {"y": _LINE, "x": {"value": 0}, "x2": {"value": "width"}}, style="between", yOffset=-_STEP / 2),
        layer("rule", _reach(x), style="rung-line", yOffset=DOT_DOWN, clip=True),
        *(layer("point", dots, transform=[{"filter": f"datum.tone == '{tone}'"}], style=tone, yOffset=DOT_DOWN)
          for tone in tones),
        *_texts(LABEL_UP, fontSize=by_width(10.5, 12), limit=room),
    ]  # fmt: skip


def _of_runs(x: Spec, runs: Sequence[str]) -> list[Spec]:
    """Returns the dots of a line, one run below the other, distinguished by colour and shape; the label at the left and
    the values at the right are above the dots."""
    by, layers = marks.run_colour(runs), []
    dots = {"x": x, "y": _LINE, "color": by["color"], "shape": by["shape"],
            "tooltip": hover(("label", "boundary"), ("run", "run"))}  # fmt: skip
    for turn, run in enumerate(runs):
        of_run, down = [{"filter": {"field": "run", "equal": run}}], RUNS_DOWN + turn * RUN_STEP
        reach = {**_reach(x), "color": by["color"]}
        layers += [layer("rule", reach, transform=of_run, style="whisker", yOffset=down, clip=True),
                   marks.point("rung", dots, by, transform=of_run, yOffset=down)]  # fmt: skip
    room = by_width(f"width - {BARE_ROOM}", f"width - {BOTH_ROOM}")
    return [*layers, *_texts(RUNS_UP, [{"filter": "isValid(datum.said)"}], limit=room)]


def _reach(x: Spec) -> Spec:
    return {"x": quantitative("lo", title=x["title"]), "x2": {"field": "hi"}, "y": _LINE}


def _texts(up: Any, worded: Sequence[Spec] = (), **label: Any) -> list[Spec]:
    """Returns text layers. worded: selects the data with words."""
    left = {"y": _LINE, "x": {"value": 0}, "text": nominal("label")}
    brief_or_text = by_width("datum.brief", "datum.said")
    return [
        layer("text", left, transform=worded, style="label", dy=up, **label),
        layer(
            "text", {"y": _LINE, "x": {"value": "width"}}, transform=worded, style="value", dy=up, text=brief_or_text
        ),
    ]


# ---- heat -----------------------------------------------------------------------------------------------------------


def cell(row: Row, parameters: tuple[str, str], panel: str) -> Datum:
    """Returns the cell of one row. parameters: those that give its row and its column."""
    down, across = (row.parameters[name] for name in parameters)
    return marks.datum(row, a=down, b=across, panel=panel, said=str(quantity(row.median, row.unit)))


@dataclass(frozen=True)
class Cells(Drawing):
    """The cells of a heat map, whose data have a row `a` and a column `b`. labelled: each cell has its text, `said`.
    panel: small multiples. square: rows and columns have equal values, and cells are square. mirrored: the data are one
    half of a square, and each cell is drawn on both sides. order: order of the values of a square; ascending if empty.
    scale: data that determine the colour steps, for example of both runs; the map's own if empty."""

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
        """Returns cells in seven steps of colour: higher values contrast more with the background, in light and dark
        mode."""
        costs = [float(d["y"]) for d in self.scale or self.data]
        divisor, unit = scale_of(max(costs), self.unit)
        edges = _edges([cost / divisor for cost in costs])
        names, data = _step_names(edges), []
        for d in self.data:
            step = bisect.bisect_right(edges, float(d["y"]) / divisor)
            # far: whether the words of the cell are on one of the darker colours.
            data.append({**d, "step": names[step]} | ({"far": step > len(HEAT) // 2} if self.labelled else {}))
        layers = self._layers(names, unit)
        cells = len({d[end] for d in self.data for end in ("a", "b")})
        height = self.step * (cells if self.square else len({d["a"] for d in self.data}))
        size = {"cells": cells, "step": self.step} if self.square else {}
        if not self.panel:
            usermeta = {"usermeta": size} if size else {}
            return {**marks.layered(data, layers, height), **usermeta}
        width = height if self.square else 300
        panels = marks.panelled(data, layers, marks.ordered(self.data, "panel"), height=height, width=width)
        return {**panels, "usermeta": {**panels["usermeta"], **size}}

    def _layers(self, names: Sequence[str], unit: str) -> list[Spec]:
        scale = {"domain": names, "range": [by_value(name) for name in HEAT]}
        legend = {"title": unit, "symbolType": "square", "symbolSize": 150, "columns": len(HEAT)}
        look = {"color": nominal("step", scale=scale, legend=legend), "tooltip": hover(*self.tips)}
        places = [{"x": self._axis(across, is_x=True), "y": self._axis(down, is_x=False)}
                  for down, across in (("a", "b"), ("b", "a"))[: 1 + self.mirrored]]  # fmt: skip
        cells = [layer("rect", {**place, **look}, style="cell") for place in places]
        words = (("cell-low", "!datum.far"), ("cell-high", "datum.far")) if self.labelled else ()
        encoding = {**places[0], "text": nominal("said")}
        return [*cells, *(layer("text", encoding, transform=[{"filter": test}], style=style) for style, test in words)]

    def _axis(self, field: str, *, is_x: bool) -> Spec:
        turned = {"orient": "bottom", "labelAngle": 0} if is_x else {} if self.panel else marks.ABOVE
        order = {"sort": self.order} if self.order else {}
        axis = {"domain": False, "ticks": False, **turned}
        return {"field": field, "type": "ordinal", "title": self.titles[is_x], "axis": axis, **order}

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:  # noqa: ARG002
        """Returns the maps of two runs side by side, since a cell has one colour, with one colour scale."""
        if not isinstance(other, Cells) or other.unit != self.unit:
            return self, other
        both = (*self.data, *other.data)
        return replace(self, scale=both), replace(other, scale=both)


def _edges(values: Sequence[float]) -> list[float]:
    """Returns six edges for seven colours, evenly spaced in the logarithm between the lowest and the highest positive
    value."""
    low, high = min(values), max(values)
    high = max(high, low * 1.05)
    steps = [low * (high / low) ** (place / len(HEAT)) for place in range(1, len(HEAT))]
    return [float(f"{step:.2g}" if high / low > 1.5 else f"{step:.4g}") for step in steps]


def _step_names(edges: Sequence[float]) -> list[str]:
    """Returns the range of each colour: below the first edge, between two edges, from the last edge on. The numbers
    have two to six digits, as few as distinguish the edges."""
    texts = next(short for keep in range(2, 7) if len(set(short := [plain(edge, keep) for edge in edges])) == len(edges)
                 or keep == 6)  # fmt: skip
    between = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
    return [f"below {texts[0]}", *between, f"{texts[-1]} and more"]
