# SPDX-License-Identifier: Apache-2.0
"""Computes a number with an interval for each pair of CPUs of a matrix, from two visits or a few more.

The visits of all pairs follow each other in random order. So their common deviation at a moment is the state of the
machine (its clock, other workloads), and is subtracted: the number of a pair is its cost in the median state of the
run. Two visits of one pair do not show how much visits scatter, but thousands of pairs with two visits each do. Their
scatter is estimated together, and that of one pair is shrunk towards it (experiment/precision.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, exp, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.batches import Array, Paid
from tollmeter.experiment.limits import LEAST_FOR_SCATTER, NEGLIGIBLE, SAME_WITHIN
from tollmeter.experiment.precision import PAIR_VISITS, USUAL_VISITS_SD, Estimate, estimate_of_few
from tollmeter.maths.distributions import NORMAL_QUARTILE
from tollmeter.model import Metric, Outcome, Point, Probe
from tollmeter.numbers.known import Known
from tollmeter.numbers.readings import Overheads
from tollmeter.numbers.series import series_of

Cpus = tuple[int, ...]

_NEIGHBOURS = 10
"""Number of visits around a visit, half of them before it, that show the machine's state at this moment: 25 ms. In a
guest whose cost drifts by 8 % in 20 s, two visits of a pair then differ by 3 % instead of 10 % (decision 38)."""
_LEAST_FOR_STATES = 16 * _NEIGHBOURS
"""Smallest number of visits from which states are separated: several times the neighbours of a visit."""
_PASSES = ceil(log2(1 / NEGLIGIBLE))
"""Number of passes of the separation of pairs and states. With two visits of each pair, each pass halves the part of
the state that is attributed to the pair, until it is negligible."""


class PairNumber(NamedTuple):
    """The number of a pair of CPUs. estimate: cost in ns. visits: number of visits with a usable sample. least: lowest
    cost of a visit in ns."""

    estimate: Estimate
    visits: int
    least: float

    @property
    def is_wide(self) -> bool:
        """Returns whether the pair has too few visits, or too wide an interval."""
        return self.visits < PAIR_VISITS or self.estimate.share_half_width() > SAME_WITHIN


def pair_numbers(
    outcomes: Sequence[Outcome], probe: Probe, metric: Metric, known: Known = Known()
) -> Mapping[Cpus, PairNumber]:
    """Returns the number of each pair of CPUs, the lower CPU first, without pairs that have no usable sample. outcomes:
    visits of one matrix, whose points differ only in the relation of their CPUs."""
    completed = sorted((outcome for outcome in outcomes if outcome.status == "ok"), key=lambda outcome: outcome.visit)
    readings = known.readings(completed, probe)
    series = series_of(readings, metric, Overheads(Paid(0.0), None), {})
    medians = dict(zip(series.all.layouts, series.all.costs.tolist(), strict=True)) if series else {}
    costs = [(medians.get(outcome.seed or -outcome.visit - 1, 0.0), outcome.cpus[:2]) for outcome in completed]
    timed = [(value, tuple(sorted(cpus))) for value, cpus in costs if value > 0 and len(cpus) > 1]
    if not timed:
        return {}
    numbers = {pair: number for number, pair in enumerate(sorted({pair for _, pair in timed}))}
    owner = np.array([numbers[pair] for _, pair in timed])
    logs = _without_states(np.log([value for value, _ in timed]), owner)
    logs_of_pairs = np.split(logs[np.argsort(owner, kind="stable")], np.cumsum(np.bincount(owner))[:-1])
    # The common standard deviation of visits of one pair, from all deviations from the means of their pairs.
    deviations = [
        (logs_of_pair - logs_of_pair.mean()) * np.sqrt(len(logs_of_pair) / (len(logs_of_pair) - 1))
        for logs_of_pair in logs_of_pairs
        if len(logs_of_pair) > 1
    ]
    sd = float(np.median(np.abs(np.concatenate(deviations)))) / NORMAL_QUARTILE if deviations else USUAL_VISITS_SD
    return {
        pair: PairNumber(estimate_of_few(logs_of_pair, sd), len(logs_of_pair), exp(float(logs_of_pair.min())))
        for pair, logs_of_pair in zip(numbers, logs_of_pairs, strict=True)
    }


def _without_states(logs: Array, owner: NDArray[np.int64]) -> Array:
    """Returns the logarithms minus the median deviation of the visits around each. owner: number of the pair of each
    visit. Both are in the order of time."""
    if len(logs) < _LEAST_FOR_STATES:
        return logs
    counts, state, half = np.bincount(owner), np.zeros(len(logs)), _NEIGHBOURS // 2
    for _ in range(_PASSES):
        means_of_pairs = np.bincount(owner, logs - state) / counts
        residuals = np.pad(logs - means_of_pairs[owner], half, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(residuals, 2 * half + 1)
        state = np.asarray(np.median(np.delete(windows, half, axis=1), axis=1))  # without the visit itself
    return np.asarray(logs - state + np.median(state))


def wide_pairs(outcomes: Sequence[Outcome], point: Point, probe: Probe, known: Known) -> list[Cpus]:
    """Returns the pairs of CPUs of a point that another visit may narrow, in the order of their first visits. outcomes:
    visits of its matrix."""
    numbers = pair_numbers(outcomes, probe, probe.metrics[0], known) if probe.metrics else {}
    visited = dict.fromkeys(outcome.cpus for outcome in outcomes if outcome.status == "ok" and outcome.point == point)
    numbered = ((cpus, numbers.get(tuple(sorted(cpus[:2])))) for cpus in visited)
    return [cpus for cpus, number in numbered if number and number.is_wide and number.visits < LEAST_FOR_SCATTER]
