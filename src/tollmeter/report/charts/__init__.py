# SPDX-License-Identifier: Apache-2.0
"""Charts of a run, selected by what metrics mean and never by a probe's name, in the order of a person's questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from altair.utils.schemapi import debug_mode

from tollmeter.model import Results
from tollmeter.report.charts import (
    alignment,
    answer,
    arithmetic,
    cores,
    generic,
    kernel,
    memory,
    published_charts,
    sentences,
    steadiness,
)
from tollmeter.report.charts.chart import Bench, Chart, benches, pictures
from tollmeter.report.charts.overlaid import Overlay, beside, comparable, matched, paired, unpaired
from tollmeter.report.tables import CLOCKS

__all__ = ["Chart", "Overlay", "charts", "overlaid", "save"]

DRAWINGS: tuple[Callable[[Bench], Iterator[Chart]], ...] = (
    published_charts.redrawn,
    published_charts.published,
    answer.profiles,
    answer.break_even,
    memory.latency,
    memory.bandwidth,
    kernel.ladder,
    cores.core_to_core,
    cores.transfer,
    memory.parallelism,
    memory.load,
    cores.between_nodes,
    memory.stride,
    memory.line,
    kernel.hand_off,
    kernel.switches,
    partial(kernel.of_subject, subject=kernel.TRAPS),
    partial(kernel.of_subject, subject=kernel.FAULTS, x_title="one fault"),
    arithmetic.flops,
    arithmetic.speed_up,
    alignment.access,
    alignment.copy,
    answer.attribution,
    partial(memory.by_abi, subject=memory.LATENCY_BY_ABI),
    partial(memory.by_abi, subject=memory.BANDWIDTH_BY_ABI),
    memory.bandwidth_by_kernel,
    arithmetic.abi_ratios,
)

OF_ALL = (
    kernel.ladder,
    arithmetic.abi_ratios,
    published_charts.redrawn,
    published_charts.published,
    answer.profiles,
    answer.break_even,
)
"""Drawings whose probes may still have a chart of their own."""

LEAST_POINTS = 4


def charts(results: Results) -> tuple[Chart, ...]:
    """All charts that the rows can fill. Names are unique, and safe as file names and as anchors. Fewer than four
    points make no chart: their rows are enough."""
    made: list[Chart] = []
    with debug_mode(False):
        for place, bench in enumerate(benches(results)):
            drawn = [_with_sentence(chart, bench) for chart in _any(bench) if _has_points(chart)]
            made += [_of_bench(chart, bench) if place else chart for chart in drawn]
    return tuple(_unique(made))


def save(results: Results, folder: Path) -> tuple[Path, ...]:
    """Writes pictures of all charts of a run; the paths, in order. Raises Failure (5) if it cannot."""
    return pictures(charts(results), [results], folder)


def overlaid(runs: tuple[Results, Results], labels: tuple[str, str]) -> Overlay:
    """All charts of two runs, of what both measured by one kind of clock."""
    runs = comparable(runs)
    groups: list[tuple[Chart, ...]] = []
    only: tuple[list[str], list[str]] = ([], [])
    with debug_mode(False):
        for pair in paired(runs):
            both, alone = matched(*([_placed(chart, bench) for chart in _any(bench)] for bench in pair))
            pairs = (tuple(map(_with_sentence, charts, pair)) for charts in both if any(map(_has_points, charts)))
            groups += [beside((first, second), labels) for first, second in pairs]
            for titles, charts in zip(only, alone, strict=True):
                titles += [chart.title for chart in charts if _has_points(chart)]
    for titles, places in zip(only, unpaired(runs), strict=True):
        titles += [f"all that was measured on {_where(bench)}" for bench in places]
    named = _unique([chart for group in groups for chart in group])
    return Overlay(tuple(tuple(next(named) for _ in group) for group in groups), (tuple(only[0]), tuple(only[1])))


def _placed(chart: Chart, bench: Bench) -> Chart:
    return chart if bench.is_the_machine else _of_bench(chart, bench)


def _has_points(chart: Chart) -> bool:
    return len(chart.drawing.marks) >= LEAST_POINTS


def _with_sentence(chart: Chart, bench: Bench) -> Chart:
    return replace(chart, caption=sentences.caption(chart, bench))


def _any(bench: Bench) -> Iterator[Chart]:
    drawn: set[str] = set()
    for drawing in DRAWINGS:
        for chart in drawing(bench):
            if drawing not in OF_ALL:
                drawn.update(chart.probes)
            yield chart
    yield from generic.others(bench, drawn)
    yield from steadiness.distribution(bench)
    yield from steadiness.steadiness(bench)


def _of_bench(chart: Chart, bench: Bench) -> Chart:
    """Names the target and the clock of a chart, unless it is the machine itself."""
    return _renamed(chart, f"{chart.name}-{bench.target}-{bench.clock}", f"{chart.title} ({_where(bench)})")


def _where(bench: Bench) -> str:
    return ", ".join(filter(None, (bench.target, CLOCKS.get(bench.clock, bench.clock))))


def _unique(made: list[Chart]) -> Iterator[Chart]:
    seen: set[str] = set()
    for chart in made:
        name = re.sub(r"[^a-z0-9_-]+", "-", chart.name.lower()).strip("-") or "chart"
        while name in seen:
            name += "-again"
        seen.add(name)
        yield _renamed(chart, name, chart.title)


def _renamed(chart: Chart, name: str, title: str) -> Chart:
    return replace(chart, name=name, title=title)
