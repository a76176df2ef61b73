# SPDX-License-Identifier: Apache-2.0
"""The pairs of CPUs of a matrix, each with an interval of its own, from two visits or a few more.

The visits of all pairs follow each other in random order. So their common deviation at a moment is the state of the
machine (its clock, other workloads), and is subtracted: the number of a pair is its cost in the usual state of the run.
Two visits of one pair do not show how much visits scatter; thousands of pairs with two visits each do. Their scatter is
estimated together, and that of one pair is shrunk towards it (experiment/precision.py)."""

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
"""Visits before and after a visit that show the machine's state at that moment: 25 ms. In a guest whose cost drifts by
8 % in 20 s, two visits of a pair then differ by 3 % instead of 10 % (decision 38)."""
_LEAST_FOR_STATES = 16 * _NEIGHBOURS
"""Fewest visits from which states are separated: several times the neighbours of a visit."""
_PASSES = ceil(log2(1 / NEGLIGIBLE))
"""Passes of the separation of pairs and states. With two visits of each pair, each pass halves the part of the state
that is attributed to the pair, until it is negligible."""


class PairNumber(NamedTuple):
    """The number of a pair of CPUs. estimate: cost in ns; least: its lowest visit, ns; visits: number of visits with a
    usable sample."""

    estimate: Estimate
    visits: int
    least: float

    @property
    def is_wide(self) -> bool:
        return self.visits < PAIR_VISITS or self.estimate.share_half_width() > SAME_WITHIN


def pair_numbers(
    outcomes: Sequence[Outcome], probe: Probe, metric: Metric, known: Known = Known()
) -> Mapping[Cpus, PairNumber]:
    """Returns the numbers by pair of CPUs, the lower CPU first, without pairs that have no usable sample. outcomes:
    visits of one matrix, whose points differ only in the relation of their CPUs."""
    good = sorted((outcome for outcome in outcomes if outcome.status == "ok"), key=lambda outcome: outcome.visit)
    readings = known.readings(good, probe)
    series = series_of(readings, metric, Overheads(Paid(0.0), None), {})
    medians = dict(zip(series.all.layouts, series.all.costs.tolist(), strict=True)) if series else {}
    costs = [(medians.get(outcome.seed or -outcome.visit - 1, 0.0), outcome.cpus[:2]) for outcome in good]
    timed = [(value, tuple(sorted(cpus))) for value, cpus in costs if value > 0 and len(cpus) > 1]
    if not timed:
        return {}
    numbers = {pair: number for number, pair in enumerate(sorted({pair for _, pair in timed}))}
    owner = np.array([numbers[pair] for _, pair in timed])
    logs = _without_states(np.log([value for value, _ in timed]), owner)
    several = np.split(logs[np.argsort(owner, kind="stable")], np.cumsum(np.bincount(owner))[:-1])
    # Of visits of one pair: the middle of all deviations from the means of their pairs.
    deviations = [(own - own.mean()) * np.sqrt(len(own) / (len(own) - 1)) for own in several if len(own) > 1]
    sd = float(np.median(np.abs(np.concatenate(deviations)))) / NORMAL_QUARTILE if deviations else USUAL_VISITS_SD
    return {
        pair: PairNumber(estimate_of_few(own, sd), len(own), exp(float(own.min())))
        for pair, own in zip(numbers, several, strict=True)
    }


def _without_states(logs: Array, owner: NDArray[np.int64]) -> Array:
    """Returns the logarithms minus the common deviation of the visits around each. owner: the pair of each visit, in
    order."""
    if len(logs) < _LEAST_FOR_STATES:
        return logs
    counts, state, half = np.bincount(owner), np.zeros(len(logs)), _NEIGHBOURS // 2
    for _ in range(_PASSES):
        usual = np.bincount(owner, logs - state) / counts
        residuals = np.pad(logs - usual[owner], half, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(residuals, 2 * half + 1)
        state = np.asarray(np.median(np.delete(windows, half, axis=1), axis=1))  # itself left out
    return np.asarray(logs - state + np.median(state))


def wide_pairs(outcomes: Sequence[Outcome], point: Point, probe: Probe, known: Known) -> list[Cpus]:
    """Returns the pairs of a point that another visit may narrow, in the order of their first visits. outcomes: visits
    of its matrix."""
    numbers = pair_numbers(outcomes, probe, probe.metrics[0], known) if probe.metrics else {}
    asked = dict.fromkeys(outcome.cpus for outcome in outcomes if outcome.status == "ok" and outcome.point == point)
    numbered = ((cpus, numbers.get(tuple(sorted(cpus[:2])))) for cpus in asked)
    return [cpus for cpus, number in numbered if number and number.is_wide and number.visits < LEAST_FOR_SCATTER]
