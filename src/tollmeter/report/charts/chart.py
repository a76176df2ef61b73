# SPDX-License-Identifier: Apache-2.0
"""A chart as data, the rows that one chart may show together, and charts as picture files."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from altair.utils.schemapi import debug_mode

from tollmeter.extras import CHARTS, bring
from tollmeter.files import write_whole
from tollmeter.model import Failure, Metric, Outcome, Probe, Results, Row
from tollmeter.numbers.known import Known, machine_known
from tollmeter.numbers.meanings import main_abi, main_place, meaning, metric_of
from tollmeter.report.chart_style import PICTURE_FONT, by_value, config, stacked
from tollmeter.root import ROOT

Spec = dict[str, Any]
Datum = dict[str, Any]


class Drawing:
    """Makes a specification. spec: Vega-Lite without colours, which look.config gives; width "container". marks: the
    data of its marks."""

    @property
    def spec(self) -> Spec:
        raise NotImplementedError

    @property
    def marks(self) -> Sequence[Datum]:
        raise NotImplementedError

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:  # noqa: ARG002
        """The drawings of two runs: one with the data of both, or two where axes differ. runs: their labels."""
        return self, other


@dataclass(frozen=True)
class DataDrawing(Drawing):
    """A drawing that is made of its data when its specification is asked for, so that two runs may share it."""

    data: tuple[Datum, ...]

    @property
    def marks(self) -> Sequence[Datum]:
        return self.data


@dataclass(frozen=True)
class Picture(Drawing):
    """A specification that two runs cannot share."""

    made: Spec

    @property
    def spec(self) -> Spec:
        return self.made

    @property
    def marks(self) -> Sequence[Datum]:
        sets: list[list[Datum]] = [*self.made["datasets"].values()]
        return max(sets, key=len, default=[])


@dataclass(frozen=True)
class Chart:
    """general: about the whole machine; otherwise about the one probe that it draws. caption: what it shows, in a
    sentence."""

    name: str
    title: str
    question: str
    drawing: Drawing
    means: tuple[str, ...]
    probes: tuple[str, ...]
    general: bool = True
    caption: str = ""

    @property
    def spec(self) -> Spec:
        """Without Altair's schema checks, which take five times the making; a test checks each whole specification."""
        with debug_mode(False):
            return self.drawing.spec


@dataclass(frozen=True)
class Subject:
    """What a chart is called, the question that it answers, and what the rows in it mean."""

    name: str
    title: str
    question: str
    means: tuple[str, ...]

    def chart(self, drawn: Drawing | Spec, rows: Sequence[Row], caption: str = "") -> Chart:
        drawing = drawn if isinstance(drawn, Drawing) else Picture(drawn)
        return Chart(self.name, self.title, self.question, drawing, self.means, names(rows), caption=caption)


COUNTED = {"B/s": "instructions a byte", "bit/s": "instructions a bit", "flop/s": "instructions an operation",
           "op/s": "instructions an operation"}  # fmt: skip
"""Axis titles in place of a rate, by its unit, where instructions were counted."""


@dataclass(frozen=True)
class Bench:
    """What was measured in one place by one clock. Times of different clocks never share an axis.

    compared: the rows of both runs where two are drawn in one chart. A series then has the same name in both."""

    results: Results
    target: str
    clock: str
    rows: tuple[Row, ...]
    compared: tuple[Row, ...] = ()

    @cached_property
    def abis(self) -> tuple[str, ...]:
        """The machine's own ABI first, then the others by name."""
        first = main_abi(self.rows, self.results.index.machine.architecture)
        return tuple(sorted({row.abi for row in self.rows}, key=lambda abi: (abi != first, abi)))

    @property
    def is_the_machine(self) -> bool:
        """Whether the levels, sizes and clock of the run's machine are this place's."""
        return self.clock == "hardware" and self.target == self._main_place

    @property
    def is_first(self) -> bool:
        """Whether it is the one that `benches` puts first: what is drawn once for a run belongs to it."""
        first = benches(self.results)[0]
        return (first.target, first.clock) == (self.target, self.clock)

    @cached_property
    def _main_place(self) -> str | None:
        rows = self.results.index.rows
        return main_place(row.target for row in rows if row.clock == "hardware" and row.status == "ok")

    def meaning(self, *wanted: str) -> list[Row]:
        return [row for row in self.rows if meaning(row, self.results.probes) in wanted]

    def own(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of the first ABI that has any."""
        for abi in self.abis:
            chosen = [row for row in rows if row.abi == abi]
            if chosen:
                return chosen
        return []

    def by_abi(self, rows: Sequence[Row]) -> list[Row]:
        """The same rows, those of the machine's own ABI first."""
        return sorted(rows, key=lambda row: self.abis.index(row.abi))

    def named_among(self, rows: Sequence[Row]) -> list[Row]:
        """These rows, and those of both runs with the same metrics: a name must distinguish a row from all of them."""
        metrics = {(row.probe, row.metric) for row in rows}
        return [*rows, *(row for row in self.compared if (row.probe, row.metric) in metrics)]

    def varying(self, rows: Sequence[Row], *but: str) -> list[str]:
        return varying(self.named_among(rows), *but)

    def several_abis(self, rows: Sequence[Row]) -> bool:
        return len({row.abi for row in self.named_among(rows)}) > 1

    def axis_title(self, rows: Sequence[Row], timed: str) -> str:
        """`timed`, but of counted instructions what one was counted for: no second is in them."""
        metric = self.metric(rows[0]) if rows and rows[0].unit == "instruction" else None
        return COUNTED.get(metric.unit, f"instructions of {metric.summary}") if metric else timed

    def metric(self, row: Row) -> Metric | None:
        return metric_of(row, self.results.probes)

    def probe(self, row: Row) -> Probe | None:
        return self.results.probes.get(row.probe)

    @cached_property
    def known(self) -> Known:
        """The core's clocks and widths, by all that was measured."""
        return machine_known(self.results.outcomes)

    @cached_property
    def outcomes(self) -> list[Outcome]:
        return [o for o in self.results.outcomes if o.point.target == self.target and o.clock.kind == self.clock]


def benches(results: Results) -> list[Bench]:
    """The machine itself first, then others by their own clock, then by how much was measured."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results.index.rows:
        if row.status == "ok" and row.median is not None and isfinite(row.median):
            groups.setdefault((row.target, row.clock), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (item[0][1] != "hardware", -len(item[1]), item[0]))
    made = [Bench(results, target, clock, tuple(rows)) for (target, clock), rows in ordered]
    return sorted(made, key=lambda bench: not bench.is_the_machine)


def names(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(sorted({row.probe for row in rows}))


def varying(rows: Sequence[Row], *but: str) -> list[str]:
    """Names of parameters of which these rows hold more than one value, in the order of the first row; less `but`."""
    seen: dict[str, set[object]] = {}
    for row in rows:
        for name, value in row.parameters.items():
            seen.setdefault(name, set()).add(value)
    return [name for name, values in seen.items() if len(values) > 1 and name not in but]


def spread(rows: Sequence[Row]) -> float:
    """How many times the least median the largest is; 1 where there is none or one is not above zero."""
    seen = [row.median for row in rows if row.median is not None]
    return max(seen) / min(seen) if seen and min(seen) > 0 else 1.0


# ---- chart files ----------------------------------------------------------------------------------------------------

WIDTH = 760
PNG_SCALE = 2.0


def pictures(drawn: Iterable[Chart], runs: Sequence[Results], folder: Path) -> tuple[Path, ...]:
    """Writes NAME.svg and NAME.png of each chart of the runs; their paths. Raises Failure (5)."""
    bring(ROOT, CHARTS)
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in drawn:
            written += _pictures(chart, map(_source, runs), folder)
    except OSError as error:
        raise Failure(f"cannot write charts to {folder}: {error.strerror or error}", 5) from error
    return tuple(written)


def _source(results: Results) -> str:
    machine, run = results.index.machine, results.index.run
    return f"{machine.cpu} · {machine.kernel} · {run.started[:10]} · tollmeter {run.tollmeter}"


def _pictures(chart: Chart, sources: Iterable[str], folder: Path) -> Iterable[Path]:
    import vl_convert

    spec = with_source(chart, *sources)
    vector, raster = folder / f"{chart.name}.svg", folder / f"{chart.name}.png"
    write_whole(vector, vl_convert.vegalite_to_svg(spec).encode())
    write_whole(raster, vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
    return vector, raster


def with_source(chart: Chart, *sources: str) -> Spec:
    """The specification with its look, its width and its title: what any Vega-Lite renderer can draw."""
    spec = copy.deepcopy(chart.spec)
    look = stacked(config(by_value, PICTURE_FONT))
    spec["config"] = {**look, "background": "#ffffff", "padding": 20}
    spec["title"] = {"text": chart.title, "subtitle": [chart.question, *sources]}
    if "facet" in spec:
        panels = spec["usermeta"]["panels"]
        spec["columns"] = min((2, 3), key=lambda columns: (-panels % columns, -columns))
        spec["spec"]["width"] = (WIDTH - 40) // spec["columns"]
    else:
        spec["width"] = WIDTH
    return spec
