# SPDX-License-Identifier: Apache-2.0
"""Which estimator of a visit's batches agrees best between runs, and the bias of a visit of few batches.

    bench/estimators.py FOLDER...     each holds runs of one machine and kind

Uses rows whose data fit into private caches and that both runs measured on an uncontended core. A difference is of
logarithms: in cycles if both rows follow the clock, else the smaller one of ns and cycles. The bias compares some
batches of a visit, drawn at random, with all of its batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from math import log
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.recorded_runs import run_folders

from tollmeter.experiment.precision import Array, hodges_lehmann, quantiles_of, shamos_sd
from tollmeter.library.derive import learned, open_run
from tollmeter.numbers.row_of import PointReadings
from tollmeter.numbers.rows import by_point, known_of, usable_visits
from tollmeter.numbers.series import Part, Series
from tollmeter.store.request import read_request

PRIVATE_BYTES = 1 << 19
FEW, MANY, DRAWN = (4, 8, 16), 24, 8


def quantile(share: float) -> Callable[[Part], Array]:
    return lambda part: quantiles_of(part.values, part.counts, share)


def mean(part: Part) -> Array:
    return part.where(np.ones(len(part.values), dtype=bool), "mean").costs


ESTIMATORS = {
    "all samples, median": ("all", quantile(0.5)),
    "all samples, mean over time": ("all", mean),
    "uncontended, mean": ("uncontended", mean),
    "uncontended, median": ("uncontended", quantile(0.5)),
    "uncontended, lower third": ("uncontended", quantile(1 / 3)),
    "uncontended, lower quartile": ("uncontended", quantile(0.25)),
    "uncontended, lower fifth": ("uncontended", quantile(0.2)),
    "uncontended, lower tenth": ("uncontended", quantile(0.1)),
    "uncontended, minimum": ("uncontended", quantile(0.0)),
}
Run = dict[object, tuple[Series, float]]
"""Series by row, each with the core clock."""


def uncontended_series(path: Path) -> Run:
    """Returns the series of each timed row that has enough uncontended visits."""
    results, found = open_run(path), Run()
    known = known_of(results.outcomes, results.probes, learned(read_request(path)))
    for group in by_point(results.outcomes):
        point, probe = group[0].point, results.probes[group[0].point.probe]
        size, visited = dict(point.parameters).get("size"), usable_visits(group, probe, known)
        if not isinstance(visited, PointReadings) or (isinstance(size, int) and size > PRIVATE_BYTES):
            continue
        for metric in (metric for metric in probe.metrics if metric.source != "gauge"):
            series = known.series(visited.readings, metric, visited.paid)
            if series and "uncontended" in series.parts and series.all.values.min() > 0:
                found[point, metric.name] = known.stated(series, point, metric.name), known.clocks_hz[point.target]
    return found


def compared(runs: Sequence[Run], state: str, of_visits: Callable[[Part], Array]) -> tuple[list[float], list[float]]:
    """Returns the differences of all pairs of runs, and the scatter of visits in each row."""
    apart, within = [], []
    for old, new in combinations(runs, 2):
        for key in old.keys() & new.keys():
            sides = [
                series.all if state == "all" else series.parts["uncontended"] for series, _ in (old[key], new[key])
            ]
            logs = [np.log(of_visits(part)) for part in sides]
            in_ns = hodges_lehmann(logs[1]) - hodges_lehmann(logs[0])
            in_cycles = in_ns + log(new[key][1] / old[key][1])
            follow = old[key][0].clock_hz and new[key][0].clock_hz
            apart.append(in_cycles if follow else min(in_ns, in_cycles, key=abs))
            within += [shamos_sd(values) for values in logs]
    return apart, within


def bias(every: Sequence[Series], few: int, of_visits: Callable[[Part], Array]) -> float:
    """Returns the median bias over rows of an estimate from a few batches of a visit, relative to that from all
    batches."""
    rng, of_rows = np.random.default_rng(few), []
    for series in every:
        part, off = series.parts["uncontended"], []
        for values in (visit for visit in part.visits() if len(visit) >= MANY):
            drawn = np.concatenate([rng.choice(values, few, replace=False) for _ in range(DRAWN)])
            some = part._replace(values=drawn, counts=np.full(DRAWN, few), weights=np.ones(len(drawn)))
            all_of_it = part._replace(values=values, counts=np.array([len(values)]), weights=np.ones(len(values)))
            off.append(float(np.log(of_visits(some)).mean() - np.log(of_visits(all_of_it))[0]))
        of_rows += [float(np.mean(off))] if off else []
    return float(np.median(of_rows))


def main() -> None:
    if len(sys.argv) < 2:
        print(__doc__)
        return
    every = list[Series]()
    for folder in map(Path, sys.argv[1:]):
        runs = [uncontended_series(path) for path in run_folders(folder)]
        every += [series for run in runs for series, _ in run.values()]
        print(f"{folder.name}, {len(runs)} runs         rows  median  90 in 100  robust SD  SD of visits")
        for name, (state, of_visits) in ESTIMATORS.items():
            apart, within = compared(runs, state, of_visits)
            size = np.abs(apart)
            print(f"  {name:28} {len(apart):5}  {np.median(size):6.2%}  {np.percentile(size, 90):9.2%}"
                  f"  {shamos_sd(apart):9.2%}  {np.median(within):12.2%}")  # fmt: skip
    for name, (state, of_visits) in ESTIMATORS.items():
        if state == "uncontended" and of_visits is not mean:
            print(f"bias, {name:28}", *(f"{bias(every, few, of_visits):+.2%} of {few} batches" for few in FEW))


if __name__ == "__main__":
    main()
