# SPDX-License-Identifier: Apache-2.0
"""The charts of two runs: one chart of both where their data can share its axes, else two side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import msgspec

from tollmeter.model import Results
from tollmeter.numbers.meanings import with_meaning
from tollmeter.report.charts.chart import Bench, Chart, benches
from tollmeter.report.compared_rows import revisions

SIDES = ("A", "B")
Pair = tuple[Chart, Chart]


@dataclass(frozen=True)
class Overlay:
    """groups: a chart of both runs, or two side by side. only: what is in one run alone, in words."""

    groups: tuple[tuple[Chart, ...], ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(chart for group in self.groups for chart in group)


def comparable(runs: tuple[Results, Results]) -> tuple[Results, Results]:
    """Both without the rows of probes whose revisions differ, and without the levels of memory that came of them."""
    without = revisions(runs)
    first, second = (_without(results, without) for results in runs)
    return first, second


def _without(results: Results, probes: Collection[str]) -> Results:
    index = results.index
    gone = [row for row in index.rows if row.probe in probes]
    levels = () if with_meaning(gone, results.probes, "latency-of-size") else index.hierarchy
    kept = {
        name: tuple(record for record in getattr(index, name) if record.probe not in probes)
        for name in ("rows", "tolls")
    }
    return msgspec.structs.replace(results, index=msgspec.structs.replace(index, hierarchy=levels, **kept))


def paired(runs: tuple[Results, Results]) -> list[tuple[Bench, Bench]]:
    """Places of two runs with one kind of clock: the machines themselves, and other places of one name."""
    others = {_place(bench): bench for bench in benches(runs[1])}
    pairs = [(bench, others[_place(bench)]) for bench in benches(runs[0]) if _place(bench) in others]
    both = [(*first.rows, *second.rows) for first, second in pairs]
    return [(replace(first, compared=rows), replace(second, compared=rows))
            for (first, second), rows in zip(pairs, both, strict=True)]  # fmt: skip


def unpaired(runs: tuple[Results, Results]) -> tuple[list[Bench], list[Bench]]:
    """The places that one run alone has."""
    first, second = benches(runs[0]), benches(runs[1])
    places = {_place(bench) for bench in first} & {_place(bench) for bench in second}
    return [place for place in first if _place(place) not in places], [
        place for place in second if _place(place) not in places
    ]


def _place(bench: Bench) -> tuple[str, str]:
    return ("", bench.clock) if bench.is_the_machine else (bench.target, bench.clock)


def matched(first: Sequence[Chart], second: Sequence[Chart]) -> tuple[list[Pair], tuple[list[Chart], list[Chart]]]:
    """Charts of one name and title that share a probe, or have none, as pairs; then those of one run alone."""
    others = {_thing(chart): chart for chart in second}
    same = [(chart, others[_thing(chart)]) for chart in first if _thing(chart) in others]
    pairs = [(left, right) for left, right in same if not left.probes or {*left.probes} & {*right.probes}]
    things = {_thing(left) for left, _ in pairs}
    left, right = ([chart for chart in charts if _thing(chart) not in things] for charts in (first, second))
    return pairs, (left, right)


def _thing(chart: Chart) -> tuple[str, str]:
    return chart.name, chart.title


def beside(pair: Pair, runs: tuple[str, str]) -> tuple[Chart, ...]:
    """One chart of both runs; or two, with the run in the title of each."""
    drawings = pair[0].drawing.beside(pair[1].drawing, runs)
    if len(drawings) == 1:
        sentences = " ".join(
            f"{side}: {chart.caption}" for side, chart in zip(SIDES, pair, strict=True) if chart.caption
        )
        probes = tuple(sorted({*pair[0].probes, *pair[1].probes}))
        return (replace(pair[0], drawing=drawings[0], probes=probes, caption=sentences),)
    return tuple(
        replace(chart, drawing=drawing, name=f"{chart.name}-{side.lower()}", title=f"{chart.title}: {run}")
        for chart, drawing, side, run in zip(pair, drawings, SIDES, runs, strict=True)
    )
