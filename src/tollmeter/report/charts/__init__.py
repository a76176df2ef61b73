# SPDX-License-Identifier: Apache-2.0
"""Charts of one run and of two runs, selected by the meaning of metrics and never by a probe's name, in the order of a
reader's questions; each with its content as a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tollmeter.inference.hierarchy import disagrees
from tollmeter.model import Level, Machine, Results
from tollmeter.report.charts import (
    answer,
    arithmetic,
    cores,
    generic,
    kernel,
    memory,
    published_charts,
    steadiness,
    worker_scaling,
)
from tollmeter.report.charts.chart import Bench, Chart, Datum, benches, pictures
from tollmeter.report.compared_rows import comparable
from tollmeter.report.numbers import in_a_sentence, of_level, percent, plain, reading_of_level, size, size_of_level
from tollmeter.report.tables import CLOCKS

__all__ = ["SIDES", "Chart", "Overlay", "charts", "overlaid", "points", "save"]

DRAWINGS: tuple[Callable[[Bench], Iterator[Chart]], ...] = (
    published_charts.claims,
    published_charts.redrawn,
    answer.bill,
    answer.profiles,
    answer.break_even,
    memory.latency,
    memory.bandwidth,
    kernel.toll_ladder,
    cores.core_to_core,
    cores.transfer,
    cores.each_cpu,
    memory.parallelism,
    memory.load,
    cores.between_nodes,
    memory.stride,
    memory.line,
    kernel.hand_off,
    kernel.switches,
    kernel.traps,
    kernel.faults,
    worker_scaling.speed_up_of_workers,
    arithmetic.flops,
    arithmetic.speed_up,
    kernel.access,
    kernel.copy,
    answer.attribution,
    partial(memory.by_abi, subject=memory.LATENCY_BY_ABI),
    partial(memory.by_abi, subject=memory.BANDWIDTH_BY_ABI),
    memory.bandwidth_by_kernel,
    arithmetic.abi_ratios,
)

OF_ALL = (
    kernel.toll_ladder,
    arithmetic.abi_ratios,
    published_charts.claims,
    published_charts.redrawn,
    answer.profiles,
    answer.break_even,
)
"""Drawings of several probes; these probes may also have a chart of their own."""

_LEAST_POINTS = 4
SIDES = ("A", "B")
Pair = tuple[Chart, Chart]


def charts(results: Results) -> tuple[Chart, ...]:
    """Returns all charts that the rows can fill. Names are unique, and safe as file names and as anchors. Fewer than
    four points make no chart, since their rows suffice."""
    made = [chart for place, bench in enumerate(benches(results))
            for chart in _charts_of(bench, is_named=place > 0) if _has_points(chart)]  # fmt: skip
    return tuple(_unique(made))


def save(results: Results, folder: Path) -> tuple[Path, ...]:
    """Writes pictures of all charts of a run, and returns their paths in order. Raises Failure (5) if it cannot."""
    return pictures(charts(results), [results], folder)


def _has_points(chart: Chart) -> bool:
    return len(chart.drawing.data) >= _LEAST_POINTS


def _charts_of(bench: Bench, *, is_named: bool) -> Iterator[Chart]:
    """Yields the charts of a bench. is_named: whether names and titles contain target and clock."""
    for chart in _drawn(bench):
        captioned = replace(chart, caption=_caption(chart, bench))
        if is_named:
            name, title = f"{chart.name}-{bench.target}-{bench.clock}", f"{chart.title} ({_where(bench)})"
            captioned = replace(captioned, name=name, title=title)
        yield captioned


def _drawn(bench: Bench) -> Iterator[Chart]:
    drawn: set[str] = set()
    for drawing in DRAWINGS:
        for chart in drawing(bench):
            if drawing not in OF_ALL:
                drawn.update(chart.probes)
            yield chart
    yield from generic.others(bench, drawn)
    yield from steadiness.distribution(bench)
    yield from steadiness.steadiness(bench)


def _where(bench: Bench) -> str:
    return ", ".join(filter(None, (bench.target, CLOCKS.get(bench.clock, bench.clock))))


def _unique(made: Sequence[Chart]) -> Iterator[Chart]:
    seen: set[str] = set()
    for chart in made:
        name = re.sub(r"[^a-z0-9_-]+", "-", chart.name.lower()).strip("-") or "chart"
        while name in seen:
            name += "-again"
        seen.add(name)
        yield replace(chart, name=name)


# ---- two runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Overlay:
    """The charts of two runs. labels: names of the runs in the charts, beginning with A and with B. groups: a chart of
    both runs, or two charts side by side. only: content that one run lacks, in words."""

    runs: tuple[Results, Results]
    labels: tuple[str, str]
    groups: tuple[tuple[Chart, ...], ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(chart for group in self.groups for chart in group)


def overlaid(runs: tuple[Results, Results], labels: tuple[str, str]) -> Overlay:
    """Returns all charts of two runs for points that both measured by one kind of clock: on the machines themselves,
    and on targets of one name."""
    first, second = ({_place(bench): bench for bench in benches(results)} for results in comparable(runs))
    groups: list[tuple[Chart, ...]] = []
    only: tuple[list[str], list[str]] = ([], [])
    for place in (place for place in first if place in second):
        pair = first[place], second[place]
        rows = (*pair[0].rows, *pair[1].rows)
        benches_ = [replace(bench, compared=rows) for bench in pair]
        matched, alone = _matched(*(list(_charts_of(bench, is_named=not bench.is_the_machine)) for bench in benches_))
        groups += [_beside(charts, labels) for charts in matched if any(map(_has_points, charts))]
        for titles, charts in zip(only, alone, strict=True):
            titles += [chart.title for chart in charts if _has_points(chart)]
    for titles, places, others in zip(only, (first, second), (second, first), strict=True):
        titles += [f"all that was measured on {_where(places[place])}" for place in places if place not in others]
    named = _unique([chart for group in groups for chart in group])
    unique = tuple(tuple(next(named) for _ in group) for group in groups)
    return Overlay(runs, labels, unique, (tuple(only[0]), tuple(only[1])))


def _place(bench: Bench) -> tuple[str, str]:
    return "" if bench.is_the_machine else bench.target, bench.clock


def _matched(first: Sequence[Chart], second: Sequence[Chart]) -> tuple[list[Pair], tuple[list[Chart], list[Chart]]]:
    """Returns charts of one name and title that share a probe, or have none, as pairs; then the charts of one run
    alone."""
    others = {(chart.name, chart.title): chart for chart in second}
    pairs = [(chart, other) for chart in first if (other := others.get((chart.name, chart.title)))
             and (not chart.probes or {*chart.probes} & {*other.probes})]  # fmt: skip
    things = {(chart.name, chart.title) for chart, _ in pairs}
    left, right = ([chart for chart in charts if (chart.name, chart.title) not in things] for charts in (first, second))
    return pairs, (left, right)


def _beside(pair: Pair, runs: tuple[str, str]) -> tuple[Chart, ...]:
    """Returns one chart of both runs; or two, with the run in the title of each."""
    drawings = pair[0].drawing.beside(pair[1].drawing, runs)
    if len(drawings) == 1:
        captions = (f"{side}: {chart.caption}" for side, chart in zip(SIDES, pair, strict=True) if chart.caption)
        probes = tuple(sorted({*pair[0].probes, *pair[1].probes}))
        return (replace(pair[0], drawing=drawings[0], probes=probes, caption=" ".join(captions)),)
    return tuple(
        replace(chart, drawing=drawing, name=f"{chart.name}-{side.lower()}", title=f"{chart.title}: {run}")
        for chart, drawing, side, run in zip(pair, drawings, SIDES, runs, strict=True)
    )


# ---- sentences ------------------------------------------------------------------------------------------------------


def _caption(chart: Chart, bench: Bench) -> str:
    """Returns the content of a chart as a sentence, also for readers who cannot see it: its own caption if it has one,
    the memory levels if they are its subject, else its two ends."""
    if chart.caption:
        return chart.caption
    index, data = bench.results.index, points(chart)
    if chart.name in OF_LEVELS and bench.is_the_machine and index.hierarchy:
        sentence = OF_LEVELS[chart.name](index.hierarchy, index.machine)
        if sentence:
            return sentence
    if len(data) < 2:
        return ""
    least, most = (end(data, key=lambda d: _height(d) or 0.0) for end in (min, max))
    return f"From {_named(least)} to {_named(most)}."


def points(chart: Chart) -> list[Datum]:
    """Returns the data that have a number as text: one for each mark with a tooltip."""
    return [d for d in chart.drawing.data if "value" in d and _height(d) is not None]


def _height(datum: Datum) -> float | None:
    """Returns the value that a mark represents; a speed is drawn as the ratio that the reader selects."""
    height = datum.get("y", datum.get("speed"))
    return None if height is None else float(height)


def _named(datum: Datum) -> str:
    fields = ("label", "panel", "series", "at", "beside", "pair", "a", "b")
    words = dict.fromkeys(str(datum[field]) for field in fields if datum.get(field) not in (None, ""))
    return f"{datum['value']} ({', '.join(words)})" if words else str(datum["value"])


def _latency(levels: Sequence[Level], machine: Machine) -> str:
    ends = [f"{level.level} ends at {size_of_level(level)}" for level in levels if level.size_bytes]
    parts = [", ".join(ends)] if ends else []
    if levels[-1].level == "memory" and levels[-1].latency_ns:
        parts.append(f"memory answers in {of_level(levels[-1])}")
    parts += [f"the system says {size(level.os_size_bytes)} of {level.level}"
              for level in levels if disagrees(level, machine) and level.os_size_bytes]  # fmt: skip
    return "; ".join(parts) + "." if parts else ""


def _bandwidth(levels: Sequence[Level], _: Machine) -> str:
    known = [level for level in levels if level.read_bytes_per_second]
    if len(known) < 2:
        return ""
    first, last = known[0], known[-1]
    share = (last.read_bytes_per_second or 0.0) / (first.read_bytes_per_second or 1.0)
    near, far = (f"{in_a_sentence(reading_of_level(level))} from {level.level}" for level in (first, last))
    return f"The fastest kernel reads {near}, {far}: {percent(share)} of it."


def _parallelism(levels: Sequence[Level], _: Machine) -> str:
    known = [f"{level.level} {plain(level.parallelism, 2)}" for level in levels if level.parallelism]
    return f"Loads under way at once: {', '.join(known)}." if known else ""


OF_LEVELS = {"latency": _latency, "bandwidth": _bandwidth, "parallelism": _parallelism}
