# SPDX-License-Identifier: Apache-2.0
"""By how much one machine's runs differ beyond what each says of itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log, sqrt

import numpy as np

from tollmeter.experiment.precision import USUAL_RUNS_SD, scale

_LEAST_RUNS, _USUAL_IS_WORTH = 3, 4
_LEAST_SD, _MOST_SD = 0.0015, 0.05


def runs_sd(runs: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, float]:
    """Standard deviation between runs of logarithms, by probe. runs: of each, by a row's name that begins with its
    probe's and a blank, the median and the standard error that the run's own visits give.

    The variance between runs less that of the errors, the median over a probe's rows, pulled to the usual by as much as
    four runs are worth. Fewer than three runs of a row say nothing.
    """
    by_row: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run in runs:
        for name, (median, error) in run.items():
            if median > 0:
                by_row[name].append((log(median), error))
    by_probe: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for name, told in by_row.items():
        if len(told) >= _LEAST_RUNS:
            own = float(np.mean([error**2 for _, error in told]))
            excess = scale([value for value, _ in told]) ** 2 - own
            by_probe[name.partition(" ")[0]].append((max(0.0, excess), len(told)))
    return {probe: _pulled(told) for probe, told in by_probe.items()}


def _pulled(told: Sequence[tuple[float, int]]) -> float:
    variance, runs = (float(np.median(column)) for column in zip(*told, strict=True))
    pulled = (runs * variance + _USUAL_IS_WORTH * USUAL_RUNS_SD**2) / (runs + _USUAL_IS_WORTH)
    return min(_MOST_SD, max(_LEAST_SD, sqrt(pulled)))
