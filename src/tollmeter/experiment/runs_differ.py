# SPDX-License-Identifier: Apache-2.0
"""By how much one machine's runs differ beyond what each says of itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log, sqrt

import numpy as np

from tollmeter.experiment.precision import USUAL_RUNS_SD, scale

_LEAST_RUNS, _USUAL_IS_WORTH, _PROBE_IS_WORTH = 3, 4, 1
_LEAST_SD, _MOST_SD = 0.0015, 0.05
_CLEARLY = 1.25

Run = Mapping[str, tuple[float, float]]
"""By a row's name, which begins with its probe's and a blank, the median and the standard error that the run's own
visits give."""


def runs_sd(runs: Sequence[Run]) -> dict[str, float]:
    """Standard deviation between runs of logarithms, by probe.

    The variance between runs less that of the errors, the median over a probe's rows, pulled to the usual by as much as
    four runs are worth. Fewer than three runs of a row say nothing.
    """
    by_probe: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for name, told in _excess(runs).items():
        by_probe[_probe(name)].append(told)
    return {probe: _of_probe(told) for probe, told in by_probe.items()}


def _of_probe(rows: Sequence[tuple[float, int]]) -> float:
    variance, runs = (float(np.median(column)) for column in zip(*rows, strict=True))
    return _pulled(variance, runs, USUAL_RUNS_SD, _USUAL_IS_WORTH)


def rows_sd(runs: Sequence[Run], of_probes: Mapping[str, float]) -> dict[str, float]:
    """The same by row, of those that clearly differ by more than their probe does: a walk that fits no cache of the
    core's own takes what neighbours leave of a shared one, and one that fits does not. Pulled to the probe's by as much
    as one run is worth. Never less than the probe's: a few runs that agree are no certainty."""
    found: dict[str, float] = {}
    for name, (variance, seen) in _excess(runs).items():
        usual = of_probes.get(_probe(name), USUAL_RUNS_SD)
        own = _pulled(variance, seen, usual, _PROBE_IS_WORTH)
        if own > _CLEARLY * usual:
            found[name] = own
    return found


def _excess(runs: Sequence[Run]) -> dict[str, tuple[float, int]]:
    """Of each row that three runs have: the variance between them less that of their errors, and how many they are."""
    by_row: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run in runs:
        for name, (median, error) in run.items():
            if median > 0:
                by_row[name].append((log(median), error))
    seen = {name: told for name, told in by_row.items() if len(told) >= _LEAST_RUNS}
    return {name: (_beyond_errors(told), len(told)) for name, told in seen.items()}


def _beyond_errors(told: Sequence[tuple[float, float]]) -> float:
    errors = float(np.mean([error**2 for _, error in told]))
    return max(0.0, scale([value for value, _ in told]) ** 2 - errors)


def _probe(name: str) -> str:
    return name.partition(" ")[0]


def _pulled(variance: float, runs: float, usual_sd: float, worth: float) -> float:
    pulled = (runs * variance + worth * usual_sd**2) / (runs + worth)
    return min(_MOST_SD, max(_LEAST_SD, sqrt(pulled)))
