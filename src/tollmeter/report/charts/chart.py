# SPDX-License-Identifier: Apache-2.0
"""A chart as data, the rows that one chart may contain together, and charts as picture files."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from tollmeter.extras import CHARTS, bring
from tollmeter.files import write_whole
from tollmeter.model import Failure, Metric, Outcome, Probe, Results, Row, Value
from tollmeter.numbers.known import Known, machine_known
from tollmeter.numbers.meanings import main_abi, main_place, meaning, metric_of, sizes_of
from tollmeter.report.chart_style import PICTURE_FONT, by_value, config, stacked
from tollmeter.report.numbers import size
from tollmeter.root import ROOT

Spec = dict[str, Any]
Datum = dict[str, Any]
Name = Callable[[Row], str]


@dataclass(frozen=True)
class Drawing:
    """A specification with the data of its marks: Vega-Lite without colours, which chart_style.config gives; width
    "container". made: the specification of a drawing of one run. A subclass makes its own from the data when it is
    requested, so that two runs may share it."""

    data: Sequence[Datum]
    made: Spec = field(default_factory=dict, kw_only=True)

    @property
    def spec(self) -> Spec:
        return self.made

    def beside(self, other: Drawing, runs: tuple[str, str]) -> tuple[Drawing, ...]:  # noqa: ARG002
        """Returns the drawings of two runs: one with the data of both, or two if axes differ. runs: their labels."""
        return self, other


def picture(spec: Spec) -> Drawing:
    """Returns a specification that cannot show two runs, as a drawing."""
    return Drawing(max(spec["datasets"].values(), key=len, default=()), made=spec)


@dataclass(frozen=True)
class Chart:
    """A chart. general: whether it is about the whole machine; otherwise it is about the one probe that it draws.
    caption: its content in a sentence."""

    name: str
    title: str
    question: str
    drawing: Drawing
    probes: tuple[str, ...]
    general: bool = True
    caption: str = ""

    @property
    def spec(self) -> Spec:
        return self.drawing.spec


@dataclass(frozen=True)
class Subject:
    """The subject of a chart: its name, the question that it answers, and the meaning of its rows."""

    name: str
    title: str
    question: str
    means: tuple[str, ...] = ()

    def chart(self, drawn: Drawing | Spec, rows: Sequence[Row], caption: str = "") -> Chart:
        drawing = drawn if isinstance(drawn, Drawing) else picture(drawn)
        return Chart(self.name, self.title, self.question, drawing, names_of_probes(rows), caption=caption)


_COUNTED = {"B/s": "instructions a byte", "bit/s": "instructions a bit", "flop/s": "instructions an operation",
           "op/s": "instructions an operation"}  # fmt: skip
"""Axis titles for counted instructions, by the unit of the rate that they replace."""
LINEAR_UP_TO = 8.0


@dataclass(frozen=True)
class Bench:
    """The rows of one target by one clock. Times of different clocks never share an axis.

    compared: the rows of both runs if two are drawn in one chart. A series then has one name in both."""

    results: Results
    target: str
    clock: str
    rows: tuple[Row, ...]
    compared: tuple[Row, ...] = ()

    @cached_property
    def abis(self) -> tuple[str, ...]:
        """Returns the machine's own ABI first, then the others by name."""
        first = main_abi(self.rows, self.results.index.machine.architecture)
        return tuple(sorted({row.abi for row in self.rows}, key=lambda abi: (abi != first, abi)))

    @cached_property
    def is_the_machine(self) -> bool:
        """Returns whether the run's machine record (levels, sizes and clock) describes this target."""
        timed = (row for row in self.results.index.rows if row.clock == "hardware" and row.status == "ok")
        return self.clock == "hardware" and self.target == main_place(row.target for row in timed)

    @property
    def is_first(self) -> bool:
        """Returns whether this is the first bench, to which charts drawn once for a run belong."""
        first = benches(self.results)[0]
        return (first.target, first.clock) == (self.target, self.clock)

    def meaning(self, *means: str) -> list[Row]:
        return [row for row in self.rows if meaning(row, self.results.probes) in means]

    def own(self, rows: Sequence[Row]) -> list[Row]:
        """Returns the rows of the first ABI that has rows."""
        first = min((row.abi for row in rows), key=self.abis.index, default=None)
        return [row for row in rows if row.abi == first]

    def by_abi(self, rows: Sequence[Row]) -> list[Row]:
        """Returns the rows with those of the machine's own ABI first."""
        return sorted(rows, key=lambda row: self.abis.index(row.abi))

    def named_among(self, rows: Sequence[Row]) -> list[Row]:
        """Returns these rows, and the rows of both runs with their metrics: a name must distinguish a row from all of
        them."""
        metrics = {(row.probe, row.metric) for row in rows}
        return [*rows, *(row for row in self.compared if (row.probe, row.metric) in metrics)]

    def varying(self, rows: Sequence[Row], *but: str) -> list[str]:
        return varying(self.named_among(rows), *but)

    def several_abis(self, rows: Sequence[Row]) -> bool:
        return len({row.abi for row in self.named_among(rows)}) > 1

    def named_by(self, rows: Sequence[Row], parameters: Sequence[str]) -> Name:
        """Returns a function that names a series by these parameters: `huge`, `16 KiB`, `processes 8`; by its metric
        without parameters."""
        sizes = sizes_of(self.probe(rows[0])) if rows else frozenset()

        def word(name: str, value: Value) -> str:
            if not isinstance(value, int):
                return value.replace("_", " ")
            return str(size(value)) if name in sizes else f"{name} {value}"

        def name(row: Row) -> str:
            parts = (word(key, row.parameters[key]) for key in parameters if key in row.parameters)
            return ", ".join(parts) or row.metric

        return name

    def series(self, rows: Sequence[Row], *but: str) -> Name:
        """Returns a function that names a series by the varying parameters, except `but`."""
        return self.named_by(rows, self.varying(rows, *but))

    def series_of_abis(self, rows: Sequence[Row], *but: str) -> Name:
        """Returns a function that names a series by its ABI, if there are several, and by the varying parameters."""
        varying, several = self.varying(rows, *but), self.several_abis(rows)
        by = self.named_by(rows, varying)
        return lambda row: ", ".join([*([row.abi] if several else []), *([by(row)] if varying or not several else [])])

    def panels(self, rows: Sequence[Row], *but: str) -> Name | None:
        """Returns a function that names a panel by the varying parameters; None if none varies."""
        parameters = self.varying(rows, *but)
        return self.named_by(rows, parameters) if parameters else None

    def axis_title(self, rows: Sequence[Row], timed: str) -> str:
        """Returns the axis title `timed`; for counted instructions, the unit of work that one count is for, since they
        contain no second."""
        metric = self.metric(rows[0]) if rows and rows[0].unit == "instruction" else None
        return _COUNTED.get(metric.unit, f"instructions of {metric.summary}") if metric else timed

    def metric(self, row: Row) -> Metric | None:
        return metric_of(row, self.results.probes)

    def probe(self, row: Row) -> Probe | None:
        return self.results.probes.get(row.probe)

    @cached_property
    def known(self) -> Known:
        """Returns the clocks and widths of the cores, from all visits of this target by this clock."""
        return machine_known(self.outcomes)

    @cached_property
    def outcomes(self) -> list[Outcome]:
        return [o for o in self.results.outcomes if o.point.target == self.target and o.clock.kind == self.clock]


def benches(results: Results) -> list[Bench]:
    """Returns the benches, one for each target and clock: this machine first, then other targets with a hardware clock,
    then the rest; in each group, those with the most rows first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results.index.rows:
        if row.status == "ok" and row.median is not None and isfinite(row.median):
            groups.setdefault((row.target, row.clock), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (item[0][1] != "hardware", -len(item[1]), item[0]))
    made = [Bench(results, target, clock, tuple(rows)) for (target, clock), rows in ordered]
    return sorted(made, key=lambda bench: not bench.is_the_machine)


def names_of_probes(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(sorted({row.probe for row in rows}))


def short_probe_name(row: Row) -> str:
    """Returns a probe's name without its family."""
    return row.probe.split(".")[-1].replace("_", " ")


def varying(rows: Sequence[Row], *but: str) -> list[str]:
    """Returns the names of parameters that have several values in these rows, in the order of the first row; except
    `but`."""
    seen: dict[str, set[object]] = {}
    for row in rows:
        for name, value in row.parameters.items():
            seen.setdefault(name, set()).add(value)
    return [name for name, values in seen.items() if len(values) > 1 and name not in but]


def is_wide(rows: Sequence[Row]) -> bool:
    """Returns whether the ratio of the largest to the lowest median requires a logarithmic axis."""
    medians = [row.median for row in rows if row.median is not None]
    return bool(medians) and min(medians) > 0 and max(medians) / min(medians) > LINEAR_UP_TO


# ---- chart files ----------------------------------------------------------------------------------------------------

_WIDTH = 760
PNG_SCALE = 2.0


def pictures(drawn: Iterable[Chart], runs: Sequence[Results], folder: Path) -> tuple[Path, ...]:
    """Writes NAME.svg and NAME.png of each chart of the runs, and returns their paths. Raises Failure (5)."""
    bring(ROOT, CHARTS)
    import vl_convert

    indices = [results.index for results in runs]
    sources = [f"{index.machine.cpu} · {index.machine.kernel} · {index.run.started[:10]} · "
               f"tollmeter {index.run.tollmeter}" for index in indices]  # fmt: skip
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in drawn:
            spec = with_source(chart, *sources)
            vector, raster = folder / f"{chart.name}.svg", folder / f"{chart.name}.png"
            write_whole(vector, vl_convert.vegalite_to_svg(spec).encode())
            write_whole(raster, vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
            written += [vector, raster]
    except OSError as error:
        raise Failure(f"cannot write charts to {folder}: {error.strerror or error}", 5) from error
    return tuple(written)


def with_source(chart: Chart, *sources: str) -> Spec:
    """Returns the specification with its style, width and title, as any Vega-Lite renderer can draw it."""
    spec = copy.deepcopy(chart.spec)
    spec["config"] = {**stacked(config(by_value, PICTURE_FONT)), "background": "#ffffff", "padding": 20}
    spec["title"] = {"text": chart.title, "subtitle": [chart.question, *sources]}
    if "facet" in spec:
        panels = spec["usermeta"]["panels"]
        spec["columns"] = min((2, 3), key=lambda columns: (-panels % columns, -columns))
        spec["spec"]["width"] = (_WIDTH - 40) // spec["columns"]
    else:
        spec["width"] = _WIDTH
    return spec
