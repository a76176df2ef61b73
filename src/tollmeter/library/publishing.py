# SPDX-License-Identifier: Apache-2.0
"""Runs as redacted files, and a gallery of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tollmeter.library import places
from tollmeter.library.derive import open_run
from tollmeter.model import Failure, Results
from tollmeter.notices import notify
from tollmeter.report.charts.chart import benches
from tollmeter.report.charts.cores import CORES, by_pair, cpus_of
from tollmeter.report.charts.memory import beside
from tollmeter.store.published import Loaded, Pair, Published, read_published, redacted


def publish(results: Results) -> Published:
    """The run without what names its owner."""
    return redacted(results.index, _pairs(results), _load(results), places.sources())


def published(names: Sequence[str]) -> list[Published]:
    """Of runs, and of files that `toll publish` wrote; one machine's file that is given twice stands there once. What
    cannot be read is named and left out. Raises Failure where nothing can be read."""
    by_name: dict[str, Published] = {}
    failures: list[tuple[str, Failure]] = []
    for name in names:
        try:
            one = read_published(Path(name)) if Path(name).is_file() else publish(open_run(places.find_run(name)))
            by_name.setdefault(one.id, one)
        except Failure as failure:
            failures.append((name, failure))
    for name, why in failures if by_name else failures[1:]:
        notify(f"{name} is left out: {why.sentence}")
    if not by_name:
        raise failures[0][1]
    return list(by_name.values())


def _pairs(results: Results) -> tuple[Pair, ...]:
    made: dict[tuple[int, int], Pair] = {}
    for bench in benches(results)[:1]:
        for row in (one for each in bench.own(bench.meaning(*CORES.means)) for one in by_pair(bench, each)):
            cpus = cpus_of(row)
            if cpus and row.median and row.unit == "ns":
                made.setdefault(cpus, Pair(*cpus, row.median))
    return tuple(made.values())


def _load(results: Results) -> tuple[Loaded, ...]:
    rows = (pair for bench in benches(results)[:1] for pair in beside(bench))
    return tuple(
        Loaded(str(row.parameters.get("mix", "traffic")), traffic.median, row.median)
        for row, traffic in rows
        if row.median and traffic.median and row.unit == "ns"
    )
