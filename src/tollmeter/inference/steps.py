# SPDX-License-Identifier: Apache-2.0
"""A series that is flat, jumps, and is flat again: where it jumps, by least squares with known errors.

As many jumps as the Bayesian information criterion allows. What is fitted only ever rises: that is what caches and
buffers do that overflow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

import numpy as np

from tollmeter.inference.pieces import best_cuts, piece_costs
from tollmeter.model import Record
from tollmeter.numbers.stats import Array

CHI_SQUARE_95 = 3.84


class Jump(Record, frozen=True):
    """The series rises between places at-1 and at; between low-1 and low at the earliest, high-1 and high at the latest
    (95 %). before and after: the levels on its two sides."""

    at: int
    low: int
    high: int
    before: float
    after: float


def jumps(values: Sequence[float], errors: Sequence[float], most: int = 4) -> tuple[Jump, ...]:
    """values in order of their axis, with standard errors. Scatter beyond the errors widens them."""
    if not len(values):
        return ()
    level, weight = np.asarray(values, float), 1 / np.asarray(errors, float) ** 2
    cost = piece_costs(level, weight)
    cuts = best_cuts(cost, most + 1)
    scale = max(min(cut.squares for cut in cuts) / max(len(level) - 2 * len(cuts), 1), 1.0)
    rising = [cut for cut in cuts if _rises(level, weight, cut.starts)]
    best = min(rising, key=lambda cut: cut.squares / scale + 2 * len(cut.starts) * log(max(len(level), 2)))
    ends = [0, *best.starts, len(level)]
    return tuple(_jump(level, weight, cost, ends[place : place + 3], scale) for place in range(len(best.starts)))


def _mean(level: Array, weight: Array, start: int, end: int) -> float:
    return float(np.average(level[start:end], weights=weight[start:end]))


def _rises(level: Array, weight: Array, cuts: Sequence[int]) -> bool:
    means = [_mean(level, weight, start, end) for start, end in pairwise([0, *cuts, len(level)])]
    return all(before < after for before, after in pairwise(means))


def _jump(level: Array, weight: Array, cost: Array, ends: Sequence[int], scale: float) -> Jump:
    """One jump between its neighbours' places, with the places that are nearly as likely."""
    first, at, end = ends
    places = range(first + 1, end)
    squares = np.array([cost[first, place - 1] + cost[place, end - 1] for place in places])
    likely = np.flatnonzero(squares <= squares.min() + CHI_SQUARE_95 * scale)
    return Jump(
        at=at,
        low=places[int(likely[0])],
        high=places[int(likely[-1])],
        before=_mean(level, weight, first, at),
        after=_mean(level, weight, at, end),
    )
